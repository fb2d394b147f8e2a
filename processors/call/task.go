package call

import (
	"context"
	"time"

	"weir/internal/ledger"
	"weir/processors/guard"
	"weir/schemas"
)

// Stop tells a call that somebody asked for its action to stop.
type Stop interface {
	// Requested reports whether the request has come.
	Requested() bool
	// Done is closed when the request comes.
	Done() <-chan struct{}
	// AfterFunc runs f when the request comes, until the returned func is called.
	AfterFunc(f func()) (forget func() bool)
}

// Task is one call of an action: the whole of a single call, or one decision of
// a plan. It belongs to one goroutine.
type Task struct {
	State *ledger.State
	// Step is the index of a plan's decision.
	Step int
	Call schemas.HTTPCall
	// KeyRequired: without an allowlist key, policy denies.
	KeyRequired bool
	// JudgeStatus: a status of 429 or 5xx is a failure that may be retried.
	// Without it, whatever came back ends the call.
	JudgeStatus bool
	Stop        Stop
	// Record leaves the evidence of a finished try. A repeat is the same record.
	Record func(ctx context.Context, t ledger.Try) error
}

// over reports whether there is no point in waiting: the action is to stop, or
// its time is up.
func (t *Task) over(now time.Time) bool {
	d := t.State.Action.Deadline
	return t.canceled() || !d.IsZero() && !now.Before(d)
}

func (t *Task) canceled() bool { return t.State.CancelRequested || t.Stop.Requested() }

// keyExpiry is when a repeat with the call's key must not start any more: the
// entry's time to live after the first attempt.
func (t *Task) keyExpiry(p guard.Pass, now time.Time) time.Time {
	for _, try := range t.State.Tries(t.Step) {
		if !try.KeyExpiresAt.IsZero() {
			return try.KeyExpiresAt
		}
	}
	ttl, _ := p.Permit().IdempotencyTTL()
	return now.Add(ttl).UTC()
}
