package call

import (
	"cmp"
	"context"
	"slices"
	"time"

	json "github.com/go-json-experiment/json/v1" // encoding/json in a third of the time

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy/callurl"
	"weir/internal/policy/evaluate"
	"weir/internal/traffic"
	"weir/processors/guard"
	"weir/schemas"
)

// Stop is the request that an action stops: the context ends with it.
type Stop struct{ context.Context } //nolint:containedctx // it is a signal, not a scope

// Requested reports whether the stop was requested.
func (s Stop) Requested() bool { return s.Err() != nil }

// Task is one call of an action: the whole of a single call, or one decision of
// a plan. It belongs to one goroutine.
type Task struct {
	State *ledger.State
	// Step is the index of a plan's decision.
	Step int
	Call schemas.HTTPCall
	// KeyRequired: without an allowlist key, policy denies.
	KeyRequired bool
	// RetryStatus: a status of 429 or 5xx is a failure that may be retried. Without it, any answer
	// ends the call.
	RetryStatus bool
	// Attempts is the maximum number of attempts, in place of the Caller's schedule; zero: the
	// schedule's. An attempt that a worker left open is followed by its class alone.
	Attempts int
	Stop     Stop
	// TaskID is the task that the call is made for; empty: the one that the action names, if any.
	TaskID string
	// Agent: the call is one to a remote agent or a model and goes by their entries,
	// which no other call can use.
	Agent bool
	// Internal: see policy.Request. No redirect of such a call is followed.
	Internal bool
	// Via speaks the call's dialect; nil: the Caller's own adapter.
	Via Adapter
	// Keyless: the dialect sends no idempotency key, so an entry derives none, and the class is that of
	// a call without one. Nor is such a call probed, or its answer checked: the dialect reads what became
	// of it.
	Keyless bool
	// Timeout bounds one attempt in place of the Caller's, dialling included; zero: the Caller's.
	// The action's deadline still applies: for the deadline alone, use the longest possible.
	// Another process waits that long for a dead worker, unless it is known to be alone.
	Timeout time.Duration
	// Abort: a stop interrupts an attempt of any class, and the resulting end is Canceled or
	// Expired, never Unknown. The caller of the stop knows that earlier effects remain.
	Abort bool
	// Ends: the call's result ends the action, without a slow or visible step in between.
	Ends bool
	// Record leaves the evidence of a finished try or probe. A repeat is the same record.
	Record func(ctx context.Context, t ledger.Attempt) error

	probe *probing // nil: the task is no probe
}

// Target names the call without its values; "" if the task has none. That of an agent or a model has its entry and its route:
// where it is, is not its owner's to know.
func (t *Task) Target() string {
	switch {
	case t.Call.Method == "" && t.Call.URL == "":
		return ""
	case t.Agent:
		return t.Call.Method + " " + t.Call.AllowlistKey + route(t.Call.URL)
	default:
		return callurl.Target(t.Call.Method, t.Call.URL)
	}
}

// scope is the scope of the task's rules and policy.
func (t *Task) scope() evaluate.Scope {
	a := &t.State.Action
	id, _ := schemas.Generation(t.State.ID) // rules name the caller's id
	task := cmp.Or(t.TaskID, a.Task)
	if t.TaskID == "" && t.State.Kind == schemas.KindTask { // an action of this kind is one
		task = t.State.ID
	}
	s := evaluate.Scope{
		Tenant:      t.State.Tenant,
		Facts:       traffic.Facts{Kind: t.State.Kind, TaskType: a.TaskType, Principal: a.Principal, TaskID: task, ActionID: id},
		KeyRequired: t.KeyRequired, Only: a.Entries, Agent: t.Agent, Internal: t.Internal,
	}
	if !t.Keyless {
		s.Key = func() string { return a.DerivedKey(t.Step) }
	}
	return s
}

// expired reports whether the action's deadline cut an attempt off: its result was stored after
// that.
func (t *Task) expired(try *ledger.Attempt) bool {
	d := t.State.Action.Deadline
	at := t.written(try)
	return !d.IsZero() && try.Result.Code == schemas.UpstreamTimeout && !at.IsZero() && !at.Before(d)
}

// written is when the result of an attempt was stored; zero: it is not on the log yet.
func (t *Task) written(try *ledger.Attempt) time.Time {
	for _, ev := range slices.Backward(t.State.Events) {
		if ev.Attempted == try.Result {
			return ev.Time
		}
	}
	return time.Time{}
}

// keyExpiry is when a repeat with the call's key must not start any more: the
// entry's time to live after the first attempt that may have had an effect. An attempt of the
// action that this one redrives counts too. It never moves back, whichever target a later one goes to.
func (t *Task) keyExpiry(p guard.Pass, now time.Time) time.Time {
	ttl, _ := p.Permit().IdempotencyTTL()
	expiry := now.Add(ttl).UTC()
	if at := t.State.Action.KeyExpiresAt; now.Before(at) {
		expiry = earlier(expiry, at)
	}
	for _, try := range t.State.AttemptsOf(t.Step) {
		if !try.NotApplied {
			expiry = earlier(expiry, try.KeyExpiresAt)
		}
	}
	return expiry
}

// Payload reads what an action asks for. What it names is for the error, which parks the action.
func Payload[T any](st *ledger.State, what string) (p T, err error) {
	if err := json.Unmarshal(st.Action.Payload, &p); err != nil {
		return p, &fault.Terminal{Code: schemas.Poison, Reason: "the payload is not " + what, Cause: err}
	}
	return p, nil
}
