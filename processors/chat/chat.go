// Package chat performs actions of kind chat: it reserves the cost of a completion, tries one
// upstream after the other until one begins to answer, writes the answer to the log as it arrives,
// and settles with the result.
//
// Every try of an upstream is a separate step, so that the log lists the tries. The next step
// depends on the log and not on the worker's memory: another worker continues as this one would
// have.
package chat

import (
	"context"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/limits/budget"
	"weir/internal/models"
	"weir/processors/call"
	"weir/processors/call/model"
	"weir/processors/settle"
	"weir/schemas"
)

// Adapter speaks the protocol of models.
type Adapter interface {
	For(t model.CallOptions) call.Adapter
}

// Metrics describe completions. Models and upstreams have their configured names.
type Metrics interface {
	// ChatCalled counts one call of a model: its usage, its duration, and the time to the first
	// part of the answer.
	ChatCalled(a schemas.ChatAudit, code schemas.Code)
	// ChatRefused counts a completion that a budget refused.
	ChatRefused(source string)
}

// Config is what Chat needs besides its collaborators.
type Config struct {
	// Models are those in force.
	Models  func() *models.Set
	Adapter Adapter
	Budgets *budget.Limiter
	// Mac is the keyed hash that stands for content in a tenant's evidence.
	Mac     func(tenant, content string) string
	Metrics Metrics
	// Draining is closed when nothing more may begin; nil never is.
	Draining <-chan struct{}
}

// Chat performs kind chat. It is safe for concurrent use.
type Chat struct {
	ledger   *ledger.Ledger
	caller   *call.Caller
	recorder *settle.Recorder
	answers  call.Answers
	cfg      Config
}

// New returns an executor of completions.
func New(l *ledger.Ledger, c *call.Caller, r *settle.Recorder, a call.Answers, cfg Config) *Chat {
	return &Chat{ledger: l, caller: c, recorder: r, answers: a, cfg: cfg}
}

// Execute works until the completion has a verdict.
func (c *Chat) Execute(ctx context.Context, st *ledger.State, stop call.Stop) (settle.Outcome, error) {
	order, err := payload(st)
	if err != nil {
		return settle.Outcome{}, err
	}
	stop, leave := c.withTask(ctx, st.Tenant, order.TaskID, stop)
	defer leave()
	w := c.work(st, order)
	w.stop = stop
	if err := w.regrant(ctx); err != nil {
		return settle.Outcome{}, err
	}
	if err := w.storeMissingEvidence(ctx); err != nil {
		return settle.Outcome{}, err
	}
	e, err := w.ask(ctx)
	if err != nil {
		return settle.Outcome{}, err
	}
	return w.close(ctx, e)
}

// Evidence is empty: a call's evidence depends on its answer and on the deltas, which must be read,
// so Execute itself stores the evidence that an earlier worker has not.
func (c *Chat) Evidence(*ledger.State) ([]schemas.Evidence, error) { return nil, nil }

// payload reads the order of an action.
func payload(st *ledger.State) (schemas.ChatOrder, error) {
	o, err := call.Payload[schemas.ChatOrder](st, "an order of a completion")
	if err != nil {
		return o, err
	}
	if o.Model == "" || len(o.Body) == 0 {
		return o, &fault.Terminal{Code: schemas.Poison, Reason: "the payload names no model, or has no request"}
	}
	return o, nil
}
