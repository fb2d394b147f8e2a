package call

import (
	"cmp"
	"context"
	"errors"
	"time"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/traceparent"
	"weir/processors/guard"
	"weir/schemas"
)

// revoked ends an attempt before it was written down: another policy came into
// force while the target was dialled, and it does not let the call pass.
type revoked struct{ decision schemas.Decision }

func (*revoked) Error() string { return "policy does not let the call pass any more" }

// errNoRepeat ends an attempt before it was written down: by the policy now in
// force the call may not be sent a second time.
var errNoRepeat = errors.New("the call may not be repeated any more")

// errReshaped ends an attempt before it was written down: the traffic rules now
// make something else of the call.
var errReshaped = errors.New("the traffic rules have changed")

// do makes one attempt at one hop: dial, record the attempt, send, record the result. It evaluates
// rules and policy again after each slow step, and policy for the last time right before the first
// byte is sent. The error is the log's, ctx's, *revoked, errNoRepeat or errReshaped; the upstream's
// result is in the try.
func (c *Caller) do(ctx context.Context, t *Task, p guard.Pass, number, hop int) (*ledger.Attempt, error) {
	if !p.Valid() {
		return nil, ErrNoPass
	}
	e := &started{pass: p, start: c.cfg.Now(), undeclared: true}
	limit := c.limit(t, p, e.start)
	sendCtx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	if t.Abort || p.Class() == schemas.ClassSafe {
		// Cutting any other call off would turn a known outcome into an unknown one.
		defer t.Stop.AfterFunc(cancel)()
	}
	c.describe(&e.attempt, t, p, number, hop, limit)

	if p.Traced() {
		sendCtx = traceparent.With(sendCtx, c.cfg.Span(t.State.Action, e.attempt.Place()...))
	}

	ex, err := cmp.Or(t.Via, c.adapter).Open(sendCtx, p)
	if err != nil {
		return c.finish(ctx, t, e, Reply{}, err)
	}
	defer ex.Close()
	if c.guard.Reshaped(p) {
		return nil, errReshaped
	}
	if fresh, decision := c.guard.Renew(p); !fresh.SamePolicy(p) {
		switch {
		case !fresh.Valid():
			return nil, &revoked{decision}
		case !c.canRetry(fresh, t.tries()):
			return nil, errNoRepeat
		}
		e.pass = fresh
		c.describe(&e.attempt, t, fresh, number, hop, limit)
		if err := ex.Renew(fresh); err != nil {
			return c.finish(ctx, t, e, Reply{}, err)
		}
	}
	failpoint.At(failpoint.Dialled, t.State.ID)
	if e.pass.Mocked() {
		// Nothing is sent, so nothing is recorded before: a worker that dies here leaves no doubt,
		// and the next one starts over.
		reply, err := ex.Do(sendCtx)
		return c.finish(ctx, t, e, reply, err)
	}
	if err := c.declare(ctx, t, e); err != nil {
		return nil, err
	}
	failpoint.At(failpoint.Declared, t.State.ID)
	reply, err := c.dispatch(sendCtx, t, ex, e)
	if ctx.Err() != nil {
		ex.Close()
		return nil, c.recordInterrupted(ctx, t, e, reply, err)
	}
	return c.finish(ctx, t, e, reply, err)
}

// parting is how long a stopped worker may take to record the state of an attempt. The shutdown
// does not wait much longer.
const parting = time.Second

// recordInterrupted records the end of an attempt that was interrupted by its worker's shutdown: a received
// answer is kept; a request that was cut off has an unknown result; an unsent one may be made
// again. So the next worker need not wait for the attempt to expire. If the log does not accept the
// record, the attempt stays open and the next worker waits. The error is ctx's, because this worker
// continues nothing.
func (c *Caller) recordInterrupted(ctx context.Context, t *Task, e *started, reply Reply, err error) error {
	failed, told := errors.AsType[*fault.Call](err)
	if err != nil && (!told || failed.Sent || failed.Code == schemas.Canceled) {
		err = &fault.Call{Code: schemas.Interrupted, Sent: !told || failed.Sent, Cause: err}
	}
	steady, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	_, _ = c.finish(steady, t, e, reply, err)
	return ctx.Err()
}

// declare writes an attempt down, as durably as its class needs.
func (c *Caller) declare(ctx context.Context, t *Task, e *started) error {
	e.undeclared = false
	if err := c.ledger.Append(ctx, t.State, schemas.Event{Type: schemas.EventAttempt, Attempt: &e.attempt}); err != nil {
		return err
	}
	// A call that may be repeated freely need not wait for the device: if the
	// record of it is lost, nothing is lost with it.
	if e.attempt.Class == schemas.ClassSafe {
		return nil
	}
	return c.cfg.Barrier(ctx)
}

// dispatch evaluates policy for the last time and sends. From here until the first byte is sent, a
// reload waits for this call.
func (c *Caller) dispatch(ctx context.Context, t *Task, ex Exchange, e *started) (Reply, error) {
	fresh, decision, leave := c.guard.Begin(e.pass)
	defer leave()
	if !fresh.SamePolicy(e.pass) {
		e.decision = &decision
		if !fresh.Valid() {
			return Reply{}, &fault.Call{Code: decision.Code}
		}
		tries := t.tries()
		if !c.canRetry(fresh, tries[:len(tries)-1]) { // the last one is this one
			return Reply{}, &fault.Call{Code: schemas.Canceled, Cause: errNoRepeat}
		}
		if err := ex.Renew(fresh); err != nil {
			return Reply{}, err
		}
		e.pass = fresh
	}
	go func() {
		<-ex.Begun() // at the latest when the exchange is closed
		leave()
	}()
	return ex.Do(ctx)
}
