package call

import (
	"context"
	"errors"
	"time"

	"weir/internal/destination"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/processors/guard"
	"weir/schemas"
)

// follow makes one attempt and the redirects that its entry allows, each
// decided, dialled and written down by itself. The turn is that of the first.
func (c *Caller) follow(ctx context.Context, t *Task, p guard.Pass, number int, turn *destination.Turn) error {
	first := turn
	defer first.Leave()             //nolint:contextcheck // it is given back whatever becomes of the call
	defer func() { turn.Leave() }() //nolint:contextcheck // so is the last hop's
	var last made
	var held time.Time // since when traffic rules may hold the hop back
	for hop := 0; ; {
		done, err := c.do(ctx, t, p, number, hop)
		if err == nil {
			c.learn(ctx, t, turn, &done.try)
		}
		var denial *revoked
		switch {
		case hop > 0 && errors.As(err, &denial):
			return c.refuseHop(ctx, t, last.try, denial.decision)
		case hop > 0 && errors.Is(err, errReshaped): // what it leads to is asked about anew
		case err != nil:
			return err
		case !follows(done.pass, done.try) || done.try.Result.RetryAt.IsZero():
			return nil
		default:
			last, hop, held = done, hop+1, c.cfg.Now()
		}
		var decision schemas.Decision
		p, decision, err = c.nextHop(ctx, t, last, hop, &held)
		switch {
		case errors.Is(err, errOver):
			return nil // Run says how it ends
		case errors.Is(err, errHeld):
			e := ending{attempt: c.describe(t, p, number, hop, c.limit(t, p, held)), pass: p, start: held, undeclared: true}
			_, err = c.finish(ctx, t, e, Reply{}, &fault.Call{Code: schemas.UpstreamTimeout, Cause: err})
			return err
		case err != nil:
			return err
		case !p.Valid():
			return c.refuseHop(ctx, t, last.try, decision)
		}
		if turn != first {
			turn.Leave() //nolint:contextcheck // as above
		}
		if turn, err = c.enterHop(ctx, t, p); err != nil {
			return err
		}
	}
}

// nextHop asks about the redirect that a call was answered with, once traffic rules
// do not hold it back any more. That is waited for in the worker's slot, for as long
// as an attempt may take: what was redirected so far is not on the log, and would be
// asked for again. The error is errHeld where that is not enough.
func (c *Caller) nextHop(ctx context.Context, t *Task, from made, hop int, held *time.Time) (guard.Pass, schemas.Decision, error) {
	for {
		if c.draining() {
			return guard.Pass{}, schemas.Decision{}, ErrDraining
		}
		p, d := c.guard.Hop(from.pass, from.reply.Location, from.reply.Answer.Status, hop)
		left := c.limit(t, p, *held).Sub(c.cfg.Now())
		waited, err := c.hold(ctx, t, p, held, left)
		if _, long := errors.AsType[*Rest](err); long {
			if left <= 0 {
				return p, d, errHeld
			}
			// Other rules may come meanwhile, and hold it back for less.
			waited, err = true, c.pause(ctx, t.Stop, left, p.Replaced())
		}
		switch {
		case err != nil || !waited:
			return p, d, err
		case t.over(c.cfg.Now()):
			return guard.Pass{}, schemas.Decision{}, errOver
		}
	}
}

// errHeld ends a hop that traffic rules hold back for longer than an attempt may take.
var errHeld = errors.New("traffic rules hold the call back for too long")

// errOver ends a wait: the action is to stop, or its time is up.
var errOver = errors.New("the action is over")

// follows reports whether the answer is a redirect that the entry may allow.
func follows(p guard.Pass, t ledger.Try) bool {
	return t.Result.Code == "" && p.Redirects() > 0 && policy.IsRedirect(t.Result.Status)
}

// refuseHop records that a redirect was not followed: nothing was sent for it.
func (c *Caller) refuseHop(ctx context.Context, t *Task, from ledger.Try, d schemas.Decision) error {
	a := from.Attempt
	a.Hop, a.Decision = a.Hop+1, d
	code := d.Code
	if code == "" {
		code = schemas.DenyRedirect
	}
	res := schemas.Attempted{
		Step: a.Step, Number: a.Number, Hop: a.Hop, Code: code,
		Status: from.Result.Status, Answer: from.Result.Answer, AnswerBlob: from.Result.AnswerBlob,
	}
	ev := schemas.Event{Type: schemas.EventAttempted, Attempt: &a, Attempted: &res}
	if err := c.ledger.Append(ctx, t.State, ev); err != nil {
		return err
	}
	return t.Record(ctx, ledger.Try{Attempt: a, Result: &res})
}
