package call

import (
	"context"
	"slices"
	"time"

	"weir/processors/guard"
	"weir/schemas"
)

// waitForDelay waits for as long as traffic rules delay a step's next call, counted from since, which it
// sets when the delay begins. It waits in the worker's slot; if the wait is longer than inline, the
// error is *Rest. waited reports that it has waited. Then everything must be evaluated again,
// because a change of the rules, a stop and the action's deadline also end the wait.
func (c *Caller) waitForDelay(ctx context.Context, t *Task, p guard.Pass, since *time.Time, inline time.Duration) (waited bool, err error) {
	effect := p.Effect()
	if effect.Delay <= 0 {
		return false, nil
	}
	now := c.cfg.Now()
	if since.IsZero() {
		*since = t.heldSince()
	}
	if since.IsZero() {
		*since = now
	}
	due := since.Add(effect.Delay)
	// Never past the action's deadline, nor past the end of a rule that delays the call.
	for _, end := range []time.Time{t.State.Action.Deadline, effect.Until} {
		if !end.IsZero() && end.Before(due) {
			due = end
		}
	}
	switch wait := due.Sub(now); {
	case wait <= 0:
		return false, nil
	case wait > inline:
		return false, &Deferral{
			Until: now.Add(wait), Reason: schemas.WaitRule, Step: t.Step, Rules: effect.Delays, Replaced: p.Replaced(), Decision: p.Decision(),
		}
	default:
		return true, await(ctx, wait, t.Stop.Done(), c.cfg.Draining, p.Replaced())
	}
}

// heldSince is when rules began to delay the step's next call, according to the log; zero: unknown.
func (t *Task) heldSince() (since time.Time) {
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
