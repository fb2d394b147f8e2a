// Package executor performs actions of kind http: one call, checked by its
// status, its response schema and its postconditions.
package executor

import (
	"context"
	"slices"
	"time"

	"weir/internal/jsonschema"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// Executor performs kind http. It is safe for concurrent use.
type Executor struct {
	caller   *call.Caller
	recorder *settle.Recorder
	answers  call.Answers
	schemas  *jsonschema.Cache
}

// New returns an Executor with a cache of compiled response schemas of its own.
func New(c *call.Caller, r *settle.Recorder, a call.Answers) *Executor {
	return &Executor{caller: c, recorder: r, answers: a, schemas: new(jsonschema.Cache)}
}

// Execute makes the action's call and evaluates its result.
func (e *Executor) Execute(ctx context.Context, st *ledger.State, stop call.Stop) (settle.Outcome, error) {
	c, err := call.Payload[schemas.HTTPCall](st, "a call")
	if err != nil {
		return settle.Outcome{}, err
	}
	return e.Make(ctx, st, c, stop, nil, 0)
}

// Make is Execute for a call that need not be the action's payload; via and timeout are as in
// call.Task. A large answer is not in the result, but where the outcome's AnswerBlob says: it is
// stored once.
func (e *Executor) Make(
	ctx context.Context, st *ledger.State, c schemas.HTTPCall, stop call.Stop, via call.Adapter, timeout time.Duration,
) (v settle.Outcome, err error) {
	t := &call.Task{
		State: st, Call: c, RetryStatus: true, Ends: true, Stop: stop, Via: via, Timeout: timeout,
		Record: settle.Record(e.recorder, st, settle.Made),
	}
	var r call.Result
	if c.Denied != nil {
		r = denied(t)
	} else if r, err = e.caller.Run(ctx, t); err != nil {
		return v, err
	}
	if r.Denied {
		if err := settle.Deny(ctx, e.recorder, t, r.Decision); err != nil {
			return v, err
		}
	}
	answered := answeredAttempt(r)
	var answer *schemas.Answer
	if c.ResponseSchema != nil || c.Postcondition != nil { // they read the body, which may be large
		var release func()
		if answer, release, err = e.answers.Reserved(ctx, st.Tenant, answered); err != nil {
			return v, err
		}
		defer release()
	} else if answered != nil {
		answer = answered.Result.Answer
	}
	v = e.outcome(c, r, answer)
	if res, ok := v.Result.(schemas.HTTPResult); ok && res.Answer != nil && answered.Result.AnswerBlob != "" {
		res.Answer, v.AnswerBlob = nil, answered.Result.AnswerBlob
		v.Result = res
	} else {
		v.Answer = answer
	}
	return v, nil
}

// denied is the result of a call that policy denied when it was accepted. No policy in force since can
// send it: it is not whole any more.
func denied(t *call.Task) call.Result {
	canceled, over := call.Over(t.State, t.Stop, time.Now())
	return call.Result{Canceled: canceled, Expired: over && !canceled, Denied: !over, Decision: t.Call.Denied.Decision}
}

// answeredAttempt is the try whose answer goes with the result: the last one, or, where retries are
// exhausted, the last that was answered.
func answeredAttempt(r call.Result) *ledger.Attempt {
	if r.Exhausted {
		for i, t := range slices.Backward(r.Tries) {
			if t.Result.Answer != nil {
				return &r.Tries[i]
			}
		}
	}
	return r.Last
}
