package runs

import (
	"context"
	"errors"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// How long an event of an agent waits for a log that does not answer.
const (
	logPatience = 10 * time.Second
	logPause    = 200 * time.Millisecond
)

// progress writes one event of the agent to the log. A stop does not tear it: it
// is either written or known not to be. An event that the log does not take ends
// the call: the run is over for Weir, and what the agent did is not known. That is
// written down at once if it can be, rather than when the attempt expires.
func (m *Remote) progress(ctx context.Context, st *ledger.State, p schemas.RunProgress) error {
	doc, err := ledger.Encode(p)
	if err != nil {
		return &fault.Call{Code: schemas.UpstreamProtocol, Sent: true, Cause: err}
	}
	// With its time fixed, a repeat is the same record, and is found where it lies.
	ev := schemas.Event{Type: schemas.EventProgress, Data: doc, Time: time.Now().UTC()}
	steady := context.WithoutCancel(ctx)
	for end := time.Now().Add(logPatience); ; {
		err := m.ledger.Append(steady, st, ev)
		switch {
		case err == nil && st.CancelRequested:
			return &fault.Call{Code: schemas.Canceled, Sent: true}
		case err == nil:
			return nil
		case !errors.Is(err, fault.ErrUnavailable) || !time.Now().Before(end):
			return errLost
		}
		if err := pause(ctx, logPause); err != nil {
			return cutOff(err)
		}
	}
}

// cutOff is the end of a call that a stop or its time ended while an event of it
// waited for the log: that end is known, and written down as any other if the log is
// there again by then.
func cutOff(err error) error {
	code := schemas.Canceled
	if errors.Is(err, context.DeadlineExceeded) {
		code = schemas.UpstreamTimeout
	}
	return &fault.Call{Code: code, Sent: true, Cause: err}
}

// errLost does not hold the log's error: it is the call that ends by it.
var errLost = &fault.Call{Code: schemas.Interrupted, Sent: true, Cause: errors.New("the log did not take an event of the agent")}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
