package accept

import (
	"net/http"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// Terms are the start and the priority of an action. They are no part of the fingerprint, and a
// request that joins an existing action gets that one's.
type Terms struct {
	// NotBefore is when it begins at the earliest; zero, or past: at once.
	NotBefore time.Time
	// With priority high, workers take the action before the waiting normal ones; empty: normal.
	Priority schemas.Priority
}

// orderingKey is a header of an earlier version.
const orderingKey = "Weir-Ordering-Key"

// ReadHeaders reads the Idempotency-Key of a request, see Key, and the headers that say when its action
// begins.
func ReadHeaders(h http.Header, now time.Time) (key string, t Terms, err error) {
	if key, err = Key(h.Values("Idempotency-Key")); err == nil {
		t, err = ReadTerms(h, now)
	}
	return key, t, err
}

// ReadTerms reads the headers that say when an action begins: Weir-Delay, a duration such as 30s, or
// Weir-Not-Before, an instant of RFC 3339.
func ReadTerms(h http.Header, now time.Time) (t Terms, err error) {
	if len(h.Values(orderingKey)) > 0 { // who asks for an order must not take it for granted
		return t, fault.New(schemas.InvalidRequest, "the header "+orderingKey+" is not supported; leave it out, and send an action once the one before has ended")
	}
	delays, instants := h.Values(schemas.HeaderDelay), h.Values(schemas.HeaderNotBefore)
	switch {
	case len(delays)+len(instants) == 0:
	case len(delays) > 0 && len(instants) > 0:
		return t, fault.New(schemas.InvalidRequest, "send "+schemas.HeaderDelay+" or "+schemas.HeaderNotBefore+", not both")
	case len(delays) == 1:
		d, err := time.ParseDuration(delays[0])
		if err != nil || d < 0 {
			return t, fault.New(schemas.InvalidRequest, "the header "+schemas.HeaderDelay+" must be a duration such as 30s, 5m or 1h30m, once")
		}
		t.NotBefore = now.Add(d).UTC()
	case len(instants) == 1:
		at, err := time.Parse(time.RFC3339, instants[0])
		if err != nil {
			return t, fault.New(schemas.InvalidRequest, "the header "+schemas.HeaderNotBefore+" must be an instant such as 2026-01-31T09:00:00Z, once")
		}
		t.NotBefore = at.UTC()
	default:
		return t, fault.New(schemas.InvalidRequest, "the headers "+schemas.HeaderDelay+" and "+schemas.HeaderNotBefore+" may stand once")
	}
	switch values := h.Values(schemas.HeaderPriority); {
	case len(values) == 0:
	case len(values) > 1 || !schemas.Priority(values[0]).Valid():
		return t, fault.New(schemas.InvalidRequest, "the header "+schemas.HeaderPriority+" must be high or normal, once")
	case schemas.Priority(values[0]) != schemas.PriorityNormal: // which is not written down
		t.Priority = schemas.PriorityHigh
	}
	return t, nil
}

// AtOnce refuses terms where there are none.
func AtOnce(h http.Header) error {
	for _, name := range []string{schemas.HeaderDelay, schemas.HeaderNotBefore, schemas.HeaderPriority} {
		if len(h.Values(name)) > 0 {
			return fault.New(schemas.InvalidRequest, "what this route makes begins at once; leave the header "+name+" out")
		}
	}
	return nil
}

// span returns the beginning and the deadline of an action that may take timeout, of which the
// deadline is no later than until, if that is set. The time counts from the beginning. A zero
// beginning means at once. An action that would begin at its deadline, or whose deadline is
// beyond longest, is refused.
func span(at, now, until time.Time, timeout, longest time.Duration) (begin, deadline time.Time, err error) {
	base := now
	if at.After(now) {
		begin, base = at, at
	}
	deadline = base.Add(timeout)
	if !until.IsZero() && until.Before(deadline) {
		deadline = until.UTC()
	}
	switch latest := now.Add(longest); {
	case begin.IsZero():
		return begin, deadline, nil
	case !begin.Before(deadline):
		return begin, deadline, fault.New(schemas.InvalidRequest, "the action would begin at its deadline, "+deadline.Format(time.RFC3339)+
			", or after it; ask for an earlier beginning or a later deadline")
	case deadline.After(latest):
		return begin, deadline, fault.New(schemas.InvalidRequest, "the action would end after "+latest.Format(time.RFC3339)+
			", the latest deadline that log.history of the configuration allows; ask for a beginning before "+
			latest.Add(-deadline.Sub(begin)).Format(time.RFC3339))
	default:
		return begin, deadline, nil
	}
}
