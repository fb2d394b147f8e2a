package call

import (
	"cmp"
	"context"
	"errors"
	"time"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/limits/destination"
	"weir/internal/retry"
	"weir/internal/traceparent"
	"weir/processors/guard"
	"weir/schemas"
)

// errStale ends an attempt before it was recorded: the worker has waited, or another policy or other
// traffic rules came into force while the target was dialled. The call must be evaluated again.
var errStale = errors.New("the call must be evaluated again")

// attempt makes one attempt at a call or, after from, at its redirect: dial, record the attempt,
// send, record the result, and report it to the destination. It checks rules and policy again after
// dialling, and policy for the last time right before the first byte is sent. A redirect without a
// target is recorded as refused. The error is the log's, ctx's or errStale; the upstream's result
// is in the attempt.
func (c *Caller) attempt(ctx context.Context, t *Task, p guard.Pass, number int, from *ledger.Attempt, next *pending) error {
	if !p.Valid() {
		return ErrNoPass
	}
	e := &started{pass: p, start: c.cfg.Now(), undeclared: true}
	limit := c.limit(t, p, e.start)
	sendCtx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	if t.Abort || p.Class() == schemas.ClassSafe {
		// Cutting any other call off would turn a known outcome into an unknown one.
		defer context.AfterFunc(t.Stop, cancel)() //nolint:contextcheck // the stop cuts the call off
	}
	e.attempt = c.describe(t, p, number, from, limit)
	if p.Traced() {
		sendCtx = traceparent.With(sendCtx, c.cfg.Span(t.State.Action, e.attempt.Place()...))
	}
	var reply *Reply
	ex, err := cmp.Or(t.Via, c.adapter).Open(sendCtx, p)
	if err == nil {
		defer ex.Close()
		if c.guard.Stale(p) {
			return errStale
		}
		failpoint.At(failpoint.Dialled, t.State.ID)
		if p.Mocked() {
			// Nothing is sent, so nothing is recorded before: a worker that dies here leaves no
			// doubt, and the next one starts over.
			reply, err = ex.Do(sendCtx, p, nil)
		} else {
			e.undeclared = false
			err = c.ledger.Append(ctx, t.State, schemas.Event{Type: schemas.EventAttempt, Attempt: &e.attempt})
			if err == nil && e.attempt.Class != schemas.ClassSafe { // the loss of a safe call's record loses nothing
				err = c.cfg.Barrier(ctx)
			}
			if err != nil {
				return err
			}
			failpoint.At(failpoint.Declared, t.State.ID)
			if reply, err = c.dispatch(sendCtx, t, ex, e); ctx.Err() != nil {
				return c.recordInterrupted(ctx, t, e, reply, err)
			}
		}
	}
	done, err := c.finish(ctx, t, e, reply, err)
	if err != nil {
		return err
	}
	next.delayed = time.Time{}
	c.learn(ctx, t, next.permit, done)
	if res := done.Result; redirects(res) && res.Location == "" {
		_, d := c.guard.Redirect(p, "", res.Status, done.Hop+1)
		return c.refuse(ctx, t, done.Number, done, d)
	}
	return nil
}

// parting is how long a stopped worker may take to record the state of an attempt. The shutdown
// does not wait much longer.
const parting = time.Second

// recordInterrupted records the end of an attempt that was interrupted by its worker's shutdown: a received
// answer is kept; a request that was cut off has an unknown result; an unsent one may be made
// again. So the next worker need not wait for the attempt to expire. If the log does not accept the
// record, the attempt stays open and the next worker waits. The error is ctx's, because this worker
// continues nothing.
func (c *Caller) recordInterrupted(ctx context.Context, t *Task, e *started, reply *Reply, err error) error {
	failed, told := errors.AsType[*fault.Call](err)
	if err != nil && (!told || failed.Sent || failed.Code == schemas.Canceled) {
		err = &fault.Call{Code: schemas.Interrupted, Sent: !told || failed.Sent, Cause: err}
	}
	steady, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	_, _ = c.finish(steady, t, e, reply, err)
	return ctx.Err()
}

// dispatch evaluates policy for the last time and sends. From here until the first byte is sent, a
// reload waits for this call.
func (c *Caller) dispatch(ctx context.Context, t *Task, ex Exchange, e *started) (*Reply, error) {
	fresh, decision, leave := c.guard.Begin(e.pass)
	defer leave()
	if fresh != e.pass { // another policy is in force
		e.decision = &decision
		if !fresh.Valid() {
			return nil, &fault.Call{Code: decision.Code}
		}
		tries := t.tries()
		if !c.canRetry(fresh, tries[:len(tries)-1]) { // the last one is this one
			return nil, &fault.Call{Code: schemas.Canceled, Cause: errors.New("the policy in force does not permit to repeat the call")}
		}
		e.pass = fresh
	}
	return ex.Do(ctx, e.pass, leave)
}

// refuse records that policy refused the redirect after from or, without one, a probe: nothing was
// sent for it, and none follows.
func (c *Caller) refuse(ctx context.Context, t *Task, number int, from *ledger.Attempt, d schemas.Decision) error {
	var a schemas.Attempt
	res := schemas.Attempted{Step: t.Step, Number: number, Code: cmp.Or(d.Code, schemas.DenyRedirect)}
	if from != nil {
		a, res.Hop = from.Attempt, from.Hop+1
		res.Status, res.Answer, res.AnswerBlob = from.Result.Status, from.Result.Answer, from.Result.AnswerBlob
	} else {
		a = schemas.Attempt{
			Step: t.Step, Number: number, Probe: t.probe.attempt, Class: schemas.ClassSafe, Worker: c.cfg.Worker, Message: t.State.Message,
			Method: t.Call.Method, URL: t.Call.URL, ExpiresAt: c.cfg.Now().UTC(),
		}
	}
	a.Hop, a.Decision, res.Probe = res.Hop, d, a.Probe
	if err := c.ledger.Append(ctx, t.State, schemas.Event{Type: schemas.EventAttempted, Attempt: &a, Attempted: &res}); err != nil {
		return err
	}
	return t.Record(ctx, ledger.Attempt{Attempt: a, Result: &res})
}

// learn reports the result of an attempt to its destination, and until when it wants no calls: 429
// always means that, 503 only with Retry-After. All calls wait as long as a retry would. A wait
// beyond the action's deadline is ignored.
func (c *Caller) learn(ctx context.Context, t *Task, permit *destination.Permit, try *ledger.Attempt) {
	if permit == nil || try.Mocked() {
		return
	}
	res, wish := try.Result, time.Duration(0)
	if res.Answer != nil {
		wish = res.Answer.RetryAfter
	}
	switch {
	case res.Code == "" && (res.Status == 429 || res.Status == 503 && wish > 0):
		until := c.cfg.Now().Add(wish)
		switch d := t.State.Action.Deadline; {
		case !res.RetryAt.IsZero():
			until = res.RetryAt
		case wish <= 0 || !d.IsZero() && until.After(d):
			until = c.cfg.Now().Add(c.schedule(t, c.guard.Contract(try.LastWord().Entry)).Base)
		}
		permit.Asked(ctx, until)
	case res.NoMemory:
		// The answer was not read to the end: that proves nothing about the target.
	case res.Code == schemas.UpstreamTimeout && res.Duration < c.cfg.Timeout:
		// The caller's own deadline was shorter: that proves nothing about the target.
	case Faulty(res):
		permit.Failed(ctx)
	case res.Status != 0:
		permit.Succeeded(ctx)
	}
}

// Faulty reports whether an attempt failed because of its target, and not because of the call.
func Faulty(res *schemas.Attempted) bool {
	switch res.Code {
	case "":
		return res.Status >= 500
	case schemas.UpstreamDNS:
		return true
	default:
		return res.Code != schemas.Interrupted && retry.Transport(res.Code) && !res.NoMemory
	}
}
