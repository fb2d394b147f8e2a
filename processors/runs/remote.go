package runs

import (
	"cmp"
	"context"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/limits"
	"weir/processors/call"
	"weir/processors/call/agent"
	"weir/processors/settle"
	"weir/schemas"
)

// Metrics describe the agents. Task types are the configured ones.
type Metrics interface {
	// AgentRuns adds to the runs that are with an agent.
	AgentRuns(taskType string, change int)
	// AgentBreaker reports whether an agent is paused.
	AgentBreaker(taskType string, open bool)
}

// RemoteConfig is what Remote needs besides its collaborators.
type RemoteConfig struct {
	// Agents finds the agent in force for a task type.
	Agents  func(taskType string) (schemas.Agent, bool)
	Adapter *agent.Adapter
	Metrics Metrics
	// Draining is closed when nothing more may begin; nil never is.
	Draining <-chan struct{}
	// TenantShare is the percentage of an agent's concurrency that one tenant leaves to
	// the next; see limits.Percent. Default 100: it leaves nothing.
	TenantShare int
}

// Remote performs the runs of agents elsewhere. It is safe for concurrent use.
type Remote struct {
	ledger   call.Events
	caller   *call.Caller
	recorder *settle.Recorder
	answers  call.Answers
	cfg      RemoteConfig
	waiting  *limits.PerKey[*agentState] // runs without a place

	mu     sync.Mutex
	byType map[string]*agentState // one for each task type
}

// NewRemote returns an executor of remote runs.
func NewRemote(l call.Events, c *call.Caller, r *settle.Recorder, a call.Answers, cfg RemoteConfig) *Remote {
	cfg.TenantShare = cmp.Or(cfg.TenantShare, 100)
	return &Remote{
		ledger: l, caller: c, recorder: r, answers: a, cfg: cfg,
		waiting: limits.NewPerKey[*agentState](queued), byType: map[string]*agentState{},
	}
}

// Execute has the agent do the run, as far as the log does not hold that it was
// done.
func (m *Remote) Execute(ctx context.Context, st *ledger.State, run schemas.Run, stop call.Stop) (settle.Outcome, error) {
	if err := known(st); err != nil {
		return settle.Outcome{}, err
	}
	for {
		r, err := m.further(ctx, st, run, stop)
		switch {
		case err != nil:
			return early(err)
		case r.Answered && fallsBack(st):
			continue
		}
		return m.outcome(ctx, st, r)
	}
}

// further reads the end of the run's call off the log, or makes the call.
func (m *Remote) further(ctx context.Context, st *ledger.State, run schemas.Run, stop call.Stop) (call.Result, error) {
	if step, over := finished(st); over {
		return m.caller.Run(ctx, m.task(st, step, stop))
	}
	for {
		if canceled, over := call.Over(st, stop, time.Now()); over {
			return call.Result{}, ends(stopped(canceled))
		}
		a, d, found := m.agent(run.TaskType)
		if !found {
			return call.Result{}, ends(unavailable("no agent is configured for this task type any more", details{}))
		}
		if r, moved, err := m.callAgent(ctx, d, st, run, a.Concurrency, stop); !moved {
			return r, err
		}
	}
}

// callAgent takes a place of an agent, makes the call of a run, and releases the place. The
// agent may have moved while the run waited, or while policy was asked about its
// old place: then there is nothing to be said of this one.
func (m *Remote) callAgent(ctx context.Context, d *agentState, st *ledger.State, run schemas.Run, concurrency int, stop call.Stop) (r call.Result, moved bool, err error) {
	leave, err := m.acquireSlot(ctx, d, st, concurrency, stop)
	if err != nil {
		return r, false, err
	}
	defer leave()
	a, now, _ := m.agent(run.TaskType)
	if now != d {
		return r, true, nil
	}
	step := next(st, a)
	t := m.task(st, step, stop)
	id, _ := schemas.Generation(st.ID) // the agent, too, gets its caller's own
	if t.Call, err = request(id, run, a, step); err != nil {
		return r, false, err
	}
	permit, err := d.acquire(st)
	if err != nil {
		return r, false, err
	}
	t.Timeout = cmp.Or(a.Timeout, schemas.MaxRunTimeout)
	t.Via = m.cfg.Adapter.For(agent.CallOptions{
		RequestID: id, TaskType: run.TaskType, Answering: permit.answering,
		Progress: func(ctx context.Context, ev schemas.RunProgress) error { return m.progress(ctx, st, ev) },
	})
	r, err = m.caller.Run(ctx, t)
	if permit.learn(r); err != nil {
		return r, false, err
	}
	if r.Denied {
		_, now, _ = m.agent(run.TaskType)
	}
	return r, now != d, nil
}

// task is the call of a step, but for what is asked and how.
func (m *Remote) task(st *ledger.State, step int, stop call.Stop) *call.Task {
	return &call.Task{
		State: st, Step: step, KeyRequired: true, Agent: true, Stop: stop, Abort: true,
		Record: settle.Record(m.recorder, st, settle.Made),
	}
}

// request is the call of a step.
func request(id string, run schemas.Run, a schemas.Agent, step int) (schemas.HTTPCall, error) {
	if len(run.Inputs) == 0 {
		run.Inputs = []byte("{}")
	}
	body, err := ledger.Encode(schemas.RunRequest{RequestID: id, RunOrder: run.RunOrder})
	accept := "text/event-stream"
	if step == stepSync {
		accept = "application/json"
	}
	return schemas.HTTPCall{
		Method: "POST", URL: a.URL + route(step), AllowlistKey: schemas.AgentEntry(run.TaskType), Body: body,
		Headers: []schemas.Header{{Name: "accept", Value: accept}, {Name: "x-request-id", Value: id}},
	}, err
}

// progress writes one event of the agent to the log. One that the log does not take ends
// the call: the run is over for Weir, and what the agent did is not known.
func (m *Remote) progress(ctx context.Context, st *ledger.State, p schemas.RunProgress) error {
	doc, err := ledger.Encode(p)
	if err != nil {
		return &fault.Call{Code: schemas.UpstreamProtocol, Sent: true, Cause: err}
	}
	return call.Relay(ctx, m.ledger, st, schemas.Event{Type: schemas.EventProgress, Data: doc})
}

// The steps of a run: one a route.
const (
	stepStream = iota
	stepSync
)

// route is the route of a step.
func route(step int) string {
	if step == stepSync {
		return schemas.RouteRunSync
	}
	return schemas.RouteRunStream
}

// known returns an error if an attempt on the log has a step that no run has.
func known(st *ledger.State) error {
	for _, t := range st.Attempts {
		if t.Step > stepSync {
			return &fault.Terminal{Code: schemas.Poison, Reason: "an attempt names a step that no run has"}
		}
	}
	return nil
}

// next is the step to make: the one that was begun, or the other one if the agent does not serve
// its route. The first step follows the agent's mode, or the choice of the run's caller.
func next(st *ledger.State, a schemas.Agent) int {
	switch last := newest(st); {
	case last != nil && fallsBack(st):
		return other(last.Step)
	case last != nil:
		return last.Step
	case a.Mode == schemas.AgentSync, a.Mode != schemas.AgentStream && st.Action.Sync:
		return stepSync
	default:
		return stepStream
	}
}

// finished is the step that has ended, if the log holds that and no other is to
// follow it.
func finished(st *ledger.State) (step int, over bool) {
	last := newest(st)
	if last == nil || last.Result == nil || !last.Result.RetryAt.IsZero() || fallsBack(st) {
		return 0, false
	}
	return last.Step, true
}

func newest(st *ledger.State) *ledger.Attempt {
	if n := len(st.Attempts); n > 0 {
		return &st.Attempts[n-1]
	}
	return nil
}

// other is the step of the other route.
func other(step int) int { return stepStream + stepSync - step }

// fallsBack reports whether the newest attempt proved that the agent does not serve its
// route, and the other one was not asked.
func fallsBack(st *ledger.State) bool {
	last := newest(st)
	return last != nil && last.Result != nil && last.Result.Code == "" && last.Result.Answer != nil && last.Result.Answer.NoRoute &&
		len(st.AttemptsOf(other(last.Step))) == 0
}
