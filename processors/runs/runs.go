// Package runs performs actions of kind run: what Weir serves by itself, and
// the runs of remote agents.
package runs

import (
	"context"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/executor"
	"weir/processors/plans"
	"weir/processors/settle"
	"weir/schemas"
)

// Config is what Runs needs besides its collaborators.
type Config struct {
	HTTP   *executor.Executor // performs the call of HTTP_EXECUTE
	Plans  *plans.Plans       // performs the plan of HTTP_PLAN
	Remote *Remote
	// Draining is closed when nothing more may begin; nil never is.
	Draining <-chan struct{}
}

// Runs performs kind run. It is safe for concurrent use.
type Runs struct {
	ledger call.Events
	cfg    Config
}

// New returns an executor of runs.
func New(l call.Events, cfg Config) *Runs { return &Runs{ledger: l, cfg: cfg} }

// Refresh is called when other agents have come into force.
func (r *Runs) Refresh() { r.cfg.Remote.Refresh() }

// WritesStarted is true for ECHO, whose progress is counted from then on.
func (*Runs) WritesStarted(st *ledger.State) bool { return st.Action.TaskType == schemas.TaskEcho }

// Execute works until the run has a verdict.
func (r *Runs) Execute(ctx context.Context, st *ledger.State, stop call.Stop) (settle.Outcome, error) {
	run, err := payload(st)
	if err != nil {
		return settle.Outcome{}, err
	}
	switch run.TaskType {
	case schemas.TaskEcho:
		return r.echo(ctx, st, run, stop)
	case schemas.TaskHTTPExecute:
		v, err := r.cfg.HTTP.Make(ctx, st, *run.Call, stop, nil, 0)
		if err != nil {
			return v, err
		}
		return called(v)
	case schemas.TaskHTTPPlan:
		v, err := r.cfg.Plans.Carry(ctx, st, *run.Plan, stop)
		if err != nil {
			return v, err
		}
		return planned(v)
	default:
		return r.cfg.Remote.Execute(ctx, st, run, stop)
	}
}

// Evidence is every record that the run's calls have left, or should have.
func (r *Runs) Evidence(st *ledger.State) ([]schemas.Evidence, error) {
	if st.Action.TaskType != schemas.TaskHTTPPlan {
		return settle.Records(st, settle.Made)
	}
	run, err := payload(st)
	if err != nil {
		return nil, err
	}
	return r.cfg.Plans.Records(st, *run.Plan)
}

// payload reads the run of an action, with what its task type needs.
func payload(st *ledger.State) (schemas.Run, error) {
	run, err := call.Payload[schemas.Run](st, "a run")
	if err != nil {
		return run, err
	}
	if run.TaskType == schemas.TaskHTTPExecute && run.Call == nil || run.TaskType == schemas.TaskHTTPPlan && run.Plan == nil {
		return run, &fault.Terminal{Code: schemas.Poison, Reason: "the payload lacks what its task type needs"}
	}
	return run, nil
}
