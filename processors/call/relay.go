package call

import (
	"context"
	"errors"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// How long an event of a call waits for a log that does not take it.
const (
	logPatience = 10 * time.Second
	logPause    = 200 * time.Millisecond
)

// Events is where Relay writes.
type Events interface {
	Append(ctx context.Context, st *ledger.State, ev schemas.Event) error
}

// Relay writes an event of a call before the call's end. A stop does not interrupt it: the event is
// either written or known to be missing. Its errors are *fault.Call, by which the call ends:
// ErrStopped, with the event written; UPSTREAM_TOO_LARGE; the error of CutOff, if it waited for the
// log when ctx ended; and INTERRUPTED if the log has not accepted the event. The other side's
// result is then unknown, which is recorded at once if possible, and not when the attempt expires.
func Relay(ctx context.Context, l Events, st *ledger.State, ev schemas.Event) error {
	ev.Time = time.Now().UTC() // with its time fixed, a repeat is the same record, and is found where it lies
	steady := context.WithoutCancel(ctx)
	for end := time.Now().Add(logPatience); ; {
		err := l.Append(steady, st, ev)
		switch {
		case err == nil && st.CancelRequested:
			return ErrStopped
		case err == nil:
			return nil
		case errors.Is(err, fault.ErrTooLarge):
			return &fault.Call{Code: schemas.UpstreamTooLarge, Sent: true, Cause: err}
		case !errors.Is(err, fault.ErrUnavailable) || !time.Now().Before(end):
			return errLost
		}
		if err := Await(ctx, logPause, nil, nil, nil); err != nil {
			return CutOff(err)
		}
	}
}

// CutOff is the end of a call that a stop or its time ended while an event of it waited
// for the log: that end is known, and written down as any other if the log is there again
// by then.
func CutOff(err error) error {
	code := schemas.Canceled
	if errors.Is(err, context.DeadlineExceeded) {
		code = schemas.UpstreamTimeout
	}
	return &fault.Call{Code: code, Sent: true, Cause: err}
}

// ErrStopped ends a call whose action must stop, according to the log.
var ErrStopped = &fault.Call{Code: schemas.Canceled, Sent: true, Cause: errors.New("the action must stop")}

// errLost does not hold the log's error: it is the call that ends by it.
var errLost = &fault.Call{Code: schemas.Interrupted, Sent: true, Cause: errors.New("the log did not take an event of the call")}
