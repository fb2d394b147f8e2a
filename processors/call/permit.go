package call

import (
	"context"
	"time"

	"weir/internal/ledger"
	"weir/internal/limits/destination"
	"weir/schemas"
)

// learn reports the result of an attempt to its destination, and until when it wants no calls: 429
// always means that, 503 only with Retry-After. All calls wait as long as a retry would. A wait
// beyond the action's deadline is ignored.
func (c *Caller) learn(ctx context.Context, t *Task, permit *destination.Permit, try *ledger.Attempt) {
	if permit == nil || try.Mocked() {
		return
	}
	res, wish := try.Result, time.Duration(0)
	if res.Answer != nil {
		wish = res.Answer.RetryAfter
	}
	switch {
	case res.Code == "" && (res.Status == statusTooMany || res.Status == statusUnavailable && wish > 0):
		until := c.cfg.Now().Add(wish)
		switch d := t.State.Action.Deadline; {
		case !res.RetryAt.IsZero():
			until = res.RetryAt
		case wish <= 0 || !d.IsZero() && until.After(d):
			until = c.cfg.Now().Add(c.schedule(t, c.guard.Contract(try.LastWord().Entry)).Base)
		}
		permit.Asked(ctx, until)
	case res.NoMemory:
		// The answer was not read to the end: that proves nothing about the target.
	case res.Code == schemas.UpstreamTimeout && res.Duration < c.cfg.Timeout:
		// The caller's own deadline was shorter: that proves nothing about the target.
	case Faulty(res):
		permit.Failed(ctx)
	case res.Status != 0:
		permit.Succeeded(ctx)
	}
}

const (
	statusTooMany     = 429
	statusUnavailable = 503
)

// Faulty reports whether an attempt failed because of its target, and not because of the call.
func Faulty(res *schemas.Attempted) bool {
	if res.NoMemory {
		return false
	}
	switch res.Code {
	case "":
		return res.Status >= 500
	case schemas.UpstreamDNS, schemas.UpstreamConnect, schemas.UpstreamTLS, schemas.UpstreamTimeout,
		schemas.UpstreamReset, schemas.UpstreamProtocol, schemas.UpstreamTruncated:
		return true
	default:
		return false
	}
}
