package call

import (
	"context"
	"errors"
	"slices"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/limits/destination"
	"weir/processors/guard"
	"weir/schemas"
)

// Deferral is the error for an action that has nothing to do until a later time, which is too long
// to occupy a worker's slot.
type Deferral struct {
	Until  time.Time
	Reason string // a reason from the list of deferrals
	// Quiet: nothing is written, because the log already has the reason to wait.
	Quiet bool
	// Step is the step whose call is delayed, and Rules are the traffic rules that delay it. Replaced
	// is closed when it may begin earlier, such as by other rules; nil: never.
	Step     int
	Rules    []string
	Replaced <-chan struct{}
	Decision schemas.Decision // of that call
	// OnDeferred is called once the action can be woken by an early notification; nil: there is none.
	OnDeferred func()
}

func (r *Deferral) Error() string { return "waiting for " + r.Reason }

// Over reports whether an action may begin nothing more: it must stop, or its deadline has passed.
func Over(st *ledger.State, stop Stop, now time.Time) (canceled, over bool) {
	canceled = st.CancelRequested || stop.Requested()
	deadline := st.Action.Deadline
	return canceled, canceled || !deadline.IsZero() && !now.Before(deadline)
}

// Within is d, or the time until an action's deadline where that is shorter.
func Within(st *ledger.State, d time.Duration) time.Duration {
	if deadline := st.Action.Deadline; !deadline.IsZero() {
		return min(d, time.Until(deadline))
	}
	return d
}

// earlier is a time, or the end of something if that is earlier; a zero end is none.
func earlier(at, end time.Time) time.Time {
	if !end.IsZero() && end.Before(at) {
		return end
	}
	return at
}

// ErrDraining gives a message back: this worker begins nothing new, and the next worker continues
// from the log.
var ErrDraining = &fault.RetryAfter{Cause: errors.New("the worker is draining")}

// Await waits in the worker's slot until d has passed, a stop of the action is requested, or the awaited
// state has changed; a nil channel never is. A draining worker gives the action back with ErrDraining.
func Await(ctx context.Context, d time.Duration, stop, draining, changed <-chan struct{}) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-stop:
	case <-draining:
		return ErrDraining
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// inline is the longest wait for the next attempt or probe in a worker's slot. A longer one becomes a
// wake-up on the log.
const inline = 3 * time.Second

// wait waits in the worker's slot until a task may go on. If that takes longer than limit, the error
// is r. It is errStale after a wait: a change of the rules, a stop and the action's deadline also end
// one.
func (c *Caller) wait(ctx context.Context, t *Task, r *Deferral, limit time.Duration) error {
	wait := r.Until.Sub(c.cfg.Now())
	if wait > limit {
		return r
	}
	if err := Await(ctx, wait, t.Stop.Done(), c.cfg.Draining, r.Replaced); err != nil || wait <= 0 {
		return err
	}
	return errStale
}

// pending is the state of a step's next attempt until it may begin.
type pending struct {
	delayed time.Time           // since when traffic rules delay it; zero: unknown
	booked  time.Time           // the reserved start; zero: none
	permit  *destination.Permit // nil: not granted yet
}

// hold waits for as long as traffic rules delay a step's next call, and then for its permit. Its
// errors are those of wait, by Config.Hold. It begins nothing on a draining worker.
func (c *Caller) hold(ctx context.Context, t *Task, p guard.Pass, n *pending) error {
	select {
	case <-c.cfg.Draining:
		return ErrDraining
	default:
	}
	if effect := p.Effect(); effect.Delay > 0 {
		if n.delayed.IsZero() {
			n.delayed = t.delayedSince(c.cfg.Now())
		}
		err := c.wait(ctx, t, &Deferral{
			// Never past the action's deadline, nor past the end of a rule that delays the call.
			Until:  earlier(earlier(n.delayed.Add(effect.Delay), t.State.Action.Deadline), effect.Until),
			Reason: schemas.WaitRule, Step: t.Step, Rules: effect.Delays, Replaced: p.Replaced(), Decision: p.Decision(),
		}, c.cfg.Hold)
		if err != nil {
			return err
		}
	}
	if c.cfg.Destinations == nil || p.Mocked() {
		return nil
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
		return err
	case held == nil:
		n.booked, n.permit = time.Time{}, granted
		return nil
	case held.Booked:
		n.booked = held.Until
	}
	w := t.State.Waiting
	err = c.wait(ctx, t, &Deferral{
		Until: earlier(held.Until, t.State.Action.Deadline), Reason: held.For, Step: t.Step, Replaced: held.Changed, OnDeferred: held.Deferred,
		Quiet: w != nil && !held.Booked && w.For == held.For && w.Step == t.Step, // but a reserved time is always written
	}, c.cfg.Hold)
	if err == nil { // the time has come
		err = errStale
	}
	return err
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
