package call

import (
	"context"
	"errors"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// Deferral is the error for an action that has nothing to do until a later time, which is too long
// to occupy a worker's slot.
type Deferral struct {
	Until  time.Time
	Reason string // a reason from the list of deferrals
	// Quiet: nothing is written, because the log already has the reason to wait.
	Quiet bool
	// Step is the step whose call the traffic rules Rules delay. Replaced is closed when other
	// rules take effect, which may not delay it.
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

// Pause waits in the worker's slot, unless the action must stop or its deadline has passed. A
// draining worker gives the action back with ErrDraining.
func Pause(ctx context.Context, st *ledger.State, d time.Duration, stop Stop, draining <-chan struct{}) error {
	return await(ctx, Within(st, d), stop.Done(), draining, nil)
}

// ErrDraining gives a message back: this worker begins nothing new, and the next worker continues
// from the log.
var ErrDraining = &fault.RetryAfter{Cause: errors.New("the worker is draining")}

// await waits until d has passed, a stop of the action or of the worker is requested, or the awaited
// state has changed; a nil channel never is.
func await(ctx context.Context, d time.Duration, stop, draining, changed <-chan struct{}) error {
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
