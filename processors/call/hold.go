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
	wait := c.delayLeft(t, p, since)
	switch {
	case wait <= 0:
		return false, nil
	case wait > inline:
		return false, &Deferral{
			Until: c.cfg.Now().Add(wait), Reason: schemas.WaitRule, Step: t.Step, Rules: p.Effect().Delays, Replaced: p.Replaced(), Decision: p.Decision(),
		}
	}
	return true, c.pause(ctx, t.Stop, wait, p.Replaced())
}

// delayLeft is how much longer a call is delayed: never past the action's deadline, nor past the end
// of a rule that delays it, when it must be evaluated again.
func (c *Caller) delayLeft(t *Task, p guard.Pass, since *time.Time) time.Duration {
	if p.Effect().Delay <= 0 {
		return 0
	}
	now := c.cfg.Now()
	if since.IsZero() {
		*since = t.heldSince()
	}
	if since.IsZero() {
		*since = now
	}
	due := since.Add(p.Effect().Delay)
	for _, end := range []time.Time{t.State.Action.Deadline, p.Effect().Until} {
		if !end.IsZero() && end.Before(due) {
			due = end
		}
	}
	return due.Sub(now)
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
