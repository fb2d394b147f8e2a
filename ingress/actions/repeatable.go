package actions

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// anew ends the refusals of a redrive that a person can overrule by a request of its own.
const anew = "send a new request if the call must be made a second time"

// repeatable refuses to redrive an action, if a repeat may make a call take effect twice: it has
// not ended, it has succeeded, a call took effect, or it is unknown whether one did. keyed says that
// the new action must send the idempotency keys of this one. redriven is the id of its redrive.
func repeatable(st *ledger.State, redriven string, now time.Time) (keyed bool, err error) {
	refuse := func(format string, args ...any) (bool, error) {
		return false, fault.New(schemas.Conflict, fmt.Sprintf(format, args...))
	}
	switch {
	case st.Settled == nil:
		return false, fault.New(schemas.InFlight, "the action has not ended yet; redrive it once it has")
	case st.Settled.Outcome == schemas.OutcomeSucceeded:
		return refuse("the action succeeded, so there is nothing to redrive; %s", anew)
	case st.SupersededBy != "" && st.SupersededBy != redriven:
		return refuse("a repeat of its request has begun %s; redrive that action instead", st.SupersededBy)
	case st.Settled.Outcome != schemas.OutcomeUnknown:
	case st.Resolution == nil:
		return refuse("it is unknown whether the call took effect: check the target and record the result with POST /v1/actions/%s/resolve, "+
			"or weir actions resolve %s; if it had no effect, redrive the action then", url.PathEscape(st.ID), st.ID)
	case st.Resolution.Effect != schemas.EffectNotApplied:
		return refuse("the call took effect, as its resolution says, and a redrive would make it a second time; %s", anew)
	}
	if st.Action.KeySeed != "" {
		if keyed = true; !now.Before(st.Action.KeyExpiresAt) {
			return refuse("the target may have forgotten the idempotency key of an earlier attempt; %s", anew)
		}
	}
	for _, t := range st.Attempts {
		effect := effectOf(t, st.Resolution)
		switch {
		case effect == "", t.Probe == 0 && (t.Class == schemas.ClassSafe || t.Class == schemas.ClassIdempotent):
		case t.Class != schemas.ClassKeyed:
			return refuse("%s, and a redrive could make it a second time; %s", effect, anew)
		case !now.Before(t.KeyExpiresAt):
			return refuse("%s, and the target may have forgotten its idempotency key; %s", effect, anew)
		default:
			keyed = true
		}
	}
	return keyed, nil
}

// effectOf says why an attempt may have had an effect, or that a probe has shown one; empty: neither.
// For an attempt without an answer, a probe and a person's word count.
func effectOf(t ledger.Attempt, word *schemas.Resolution) string {
	r := t.Result
	switch {
	case r != nil && r.Effect == schemas.EffectApplied:
		return "a probe has shown that a call took effect"
	case t.Probe > 0, t.NotApplied:
		return ""
	case r != nil && !r.Sent, t.Mocked(), r != nil && r.Status >= http.StatusBadRequest:
		return ""
	case r != nil && r.Status > 0:
		return fmt.Sprintf("the target answered a call with status %d, so it took effect", r.Status)
	case word != nil:
		return ""
	default:
		return "a call was sent and not answered, so it may have taken effect"
	}
}
