package call

import "time"

// Rest says that an action has nothing to do until a later time: too long to
// hold a worker's slot for it.
type Rest struct {
	Until time.Time
	For   string // schemas.WaitDelay or schemas.WaitInFlight
}

func (r *Rest) Error() string { return "waiting for " + r.For }
