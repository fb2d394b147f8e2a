package call

import (
	"context"
	"time"
)

// Rest says that an action has nothing to do until a later time: too long to
// hold a worker's slot for it.
type Rest struct {
	Until time.Time
	For   string // schemas.WaitDelay, schemas.WaitInFlight or schemas.WaitCapacity
}

func (r *Rest) Error() string { return "waiting for " + r.For }

// pause waits, unless somebody asks for the action or the worker to stop.
func (c *Caller) pause(ctx context.Context, stop Stop, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop.Done():
	case <-c.cfg.Draining:
		return errDraining
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
