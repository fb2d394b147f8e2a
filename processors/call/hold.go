package call

import (
	"context"
	"slices"
	"time"

	"weir/internal/limits/destination"
	"weir/processors/guard"
	"weir/schemas"
)

// pending is the state of a step's next attempt until it may begin.
type pending struct {
	delayed time.Time           // since when traffic rules delay it; zero: unknown
	booked  time.Time           // the reserved start; zero: none
	permit  *destination.Permit // nil: not granted yet
}

// hold waits for as long as traffic rules delay a step's next call, and then for its permit. It
// waits in the worker's slot; if a wait is longer than Config.Hold, the error is *Deferral. waited
// reports that it has waited: then everything must be evaluated again, because a change of the
// rules, a stop and the action's deadline also end a wait. It begins nothing on a draining worker.
func (c *Caller) hold(ctx context.Context, t *Task, p guard.Pass, n *pending) (waited bool, err error) {
	select {
	case <-c.cfg.Draining:
		return false, ErrDraining
	default:
	}
	if p.Effect().Delay > 0 {
		if waited, err = c.delay(ctx, t, p, n); waited || err != nil {
			return waited, err
		}
	}
	if c.cfg.Destinations == nil || p.Mocked() {
		return false, nil
	}
	permit := p.Permit()
	asked := destination.Call{
		Ref: t.State.Ref, Entry: permit.Entry(), Destination: schemas.Destination(permit.Scheme(), permit.Host(), permit.Port()),
		Deadline: t.State.Action.Deadline, Booked: n.booked, Own: t.Agent,
	}
	if l := permit.Limits(); !t.Agent {
		asked.Limits.Concurrency = l.Concurrency
		if count, per, ok := schemas.ParseRate(l.Rate); ok {
			asked.Limits.Count, asked.Limits.Per = count, per
		}
		asked.Gives = c.limit(t, p, c.cfg.Now()).Add(c.cfg.Margin)
	}
	granted, held, err := c.cfg.Destinations.Acquire(ctx, asked)
	switch {
	case err != nil:
		return false, err
	case held == nil:
		n.booked, n.permit = time.Time{}, granted
		return false, nil
	case held.Booked:
		n.booked = held.Until
	}
	if wait := held.Until.Sub(c.cfg.Now()); wait <= c.cfg.Hold {
		return true, await(ctx, wait, t.Stop.Done(), c.cfg.Draining, held.Changed)
	}
	return false, t.deferral(held)
}

// delay is hold for the traffic rules that delay a call.
func (c *Caller) delay(ctx context.Context, t *Task, p guard.Pass, n *pending) (waited bool, err error) {
	effect, now := p.Effect(), c.cfg.Now()
	if n.delayed.IsZero() {
		n.delayed = t.delayedSince(now)
	}
	due := n.delayed.Add(effect.Delay)
	// Never past the action's deadline, nor past the end of a rule that delays the call.
	for _, end := range []time.Time{t.State.Action.Deadline, effect.Until} {
		if !end.IsZero() && end.Before(due) {
			due = end
		}
	}
	switch wait := due.Sub(now); {
	case wait > c.cfg.Hold:
		return false, &Deferral{
			Until: now.Add(wait), Reason: schemas.WaitRule, Step: t.Step, Rules: effect.Delays, Replaced: p.Replaced(), Decision: p.Decision(),
		}
	case wait > 0:
		return true, await(ctx, wait, t.Stop.Done(), c.cfg.Draining, p.Replaced())
	default:
		return false, nil
	}
}

// deferral defers an action because its call is delayed. It does not repeat what the log already
// records, except the reserved time.
func (t *Task) deferral(held *destination.Held) *Deferral {
	r := &Deferral{Until: held.Until, Reason: held.For, Step: t.Step, OnDeferred: held.Deferred}
	if d := t.State.Action.Deadline; !d.IsZero() && d.Before(r.Until) {
		r.Until = d
	}
	if w := t.State.Waiting; w != nil && !held.Booked {
		r.Quiet = w.For == held.For && w.Step == t.Step
	}
	return r
}

// delayedSince is when rules began to delay the step's next call, according to the log; now: it
// does not say.
func (t *Task) delayedSince(now time.Time) (since time.Time) {
	since = now
	for _, ev := range slices.Backward(t.State.Events) {
		switch {
		case ev.Attempt != nil && ev.Attempt.Step == t.Step:
			return since
		case ev.Waiting != nil && ev.Waiting.For == schemas.WaitRule && ev.Waiting.Step == t.Step:
			since = ev.Time
		}
	}
	return since
}
