// Package retry says whether a call may be made again and when. But for Pause it keeps no
// state and reads no clock: attempts are counted by the action's own events,
// and time and chance are arguments.
package retry

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// Schedule is how often and how far apart a call is made. The zero value makes
// one attempt and waits for nothing; Default is what the executor promises.
type Schedule struct {
	// Attempts counts all attempts, the first one too.
	Attempts int
	// Base is the wait after the first attempt; each further wait doubles it.
	Base time.Duration
	// Cap bounds the doubling. Jitter comes on top of it.
	Cap time.Duration
	// Jitter is the largest share of a wait that chance may add to it. It only
	// adds, so that the waits without it are the shortest there are.
	Jitter float64
}

// Default is three attempts, 200 ms and then 400 ms apart, a quarter of
// jitter. A larger budget would go on doubling up to 2 s.
func Default() Schedule {
	return Schedule{Attempts: 3, Base: 200 * time.Millisecond, Cap: 2 * time.Second, Jitter: 0.25}
}

// Delay is the wait between the attempt with this number, counted from 1, and
// the next. rnd in [0,1) is the caller's chance; values outside are cut. An
// upstream's own wish wins where it is longer, to the nanosecond and whatever
// its length: whether it fits before the deadline is the caller's to check.
func (s Schedule) Delay(attempt int, rnd float64, retryAfter time.Duration) time.Duration {
	wait := min(s.Base, s.Cap)
	for i := 1; i < attempt && wait < s.Cap; i++ {
		wait = min(2*wait, s.Cap)
	}
	if rnd > 0 { // false for NaN too
		wait += time.Duration(float64(wait) * s.Jitter * min(rnd, 1))
	}
	return max(wait, retryAfter)
}

// Retryable reports whether a call that ended this way may be made again. call
// is nil when a complete answer with this status came back. on are the statuses after which a call
// is repeated; nil: 429 and 5xx. It says nothing of the budget, the deadline or the life of an
// idempotency key.
//
// What provably never left may be repeated whatever its class. After that the
// class decides: once is never repeated, not even on an answer that says to
// try again.
func Retryable(class schemas.Class, status int, on []int, call *fault.Call) bool {
	if call == nil {
		if on != nil {
			return class.Repeatable() && slices.Contains(on, status)
		}
		return class.Repeatable() && (status == 429 || status >= 500 && status <= 599)
	}
	return Transport(call.Code) && (!call.Sent || class.Repeatable())
}

// Transport reports whether a code says that the way to the upstream failed,
// which time may heal. An answer that broke a limit would break it again. A name
// that does not resolve is not asked for twice: the resolver has asked its
// servers more than once already, and a name that has no address in one moment
// and another address in the next is what rebinding looks like.
func Transport(code schemas.Code) bool {
	switch code {
	case schemas.UpstreamConnect, schemas.UpstreamTLS, schemas.UpstreamTimeout,
		schemas.UpstreamReset, schemas.UpstreamProtocol, schemas.UpstreamTruncated, schemas.Interrupted:
		return true
	default:
		return false
	}
}

// Kind names what an attempt ended with: a status or, without a whole answer, a code. The label is set
// for a status only. What happened before a connection stood counts as connect.
func Kind(status int, code schemas.Code) (kind, label string) {
	switch code {
	case "":
		return "status", strconv.Itoa(status)
	case schemas.UpstreamTimeout:
		return "timeout", ""
	case schemas.UpstreamDNS, schemas.UpstreamConnect, schemas.UpstreamTLS:
		return "connect", ""
	default:
		return "other", ""
	}
}

// Outcome is the same for schemas.RetryRecord: {"status":503}, "timeout", "connect", or
// {"other":CODE} for any other failure.
func Outcome(status int, code schemas.Code) json.RawMessage {
	switch kind, label := Kind(status, code); kind {
	case "status":
		return json.RawMessage(`{"status":` + label + `}`)
	case "other":
		return json.RawMessage(`{"other":` + strconv.Quote(string(code)) + `}`)
	default:
		return json.RawMessage(`"` + kind + `"`)
	}
}

// Pause waits; false says that ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
