package call

import (
	"context"
	"time"
)

// Rest says that an action has nothing to do until a later time: too long to
// hold a worker's slot for it.
type Rest struct {
	Until time.Time
	For   string // schemas.WaitDelay, schemas.WaitInFlight, schemas.WaitCapacity, schemas.WaitRule or schemas.WaitAgent
	// Quiet: the log is not told, for it says already what the action waits for.
	Quiet bool
	// Step is whose call the traffic rules Rules hold back, and Replaced is closed
	// when other rules come into force, which may not.
	Step     int
	Rules    []string
	Replaced <-chan struct{}
}

func (r *Rest) Error() string { return "waiting for " + r.For }

// pause waits, unless somebody asks for the action or the worker to stop, or what
// is waited for has changed.
func (c *Caller) pause(ctx context.Context, stop Stop, d time.Duration, changed <-chan struct{}) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-stop.Done():
	case <-c.cfg.Draining:
		return errDraining
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
