package sim_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"weir/ingress/accept"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

// mutant is a Weir with one mistake in it, which the simulation has to find.
type mutant string

// The mutants. The empty one is Weir as it is.
const (
	sendsTwice   mutant = "a client that sends again by itself"
	unfenced     mutant = "a log that does not heed the fence"
	noEvidence   mutant = "a settler that does not wait for its evidence"
	twoRecords   mutant = "a recorder that gives a repeat an id of its own"
	repeatsPosts mutant = "a worker that makes every interrupted call again"
	liesNotSent  mutant = "a client that takes a broken connection for one that was never used"
	tooSoon      mutant = "an acceptor that does not wait for the log"
	otherNames   mutant = "an acceptor that names each request anew"
	acksAtOnce   mutant = "a worker that acknowledges what it has not done"
	oneEarly     mutant = "a stream that resumes at what it gave last"
	oneLate      mutant = "a stream that resumes behind what it has not given"
	undeclared   mutant = "a caller that does not write its attempts down"
	unfencedEnd  mutant = "a log that does not heed the fence of an end"
	neverWakes   mutant = "a log that forgets its wake-ups"
	tellsEarly   mutant = "a stream that does not wait for the barrier"
	hastyProbe   mutant = "a worker that takes the first probe without an effect for proof"
	ownKeys      mutant = "a node that derives its own key"
	reloadsEarly mutant = "a reload that is acknowledged before what it denies has begun"
)

// mutants lists them, with the invariants of which each breaks one at least.
func mutants() map[mutant][]string {
	return map[mutant][]string{
		sendsTwice: {"I3", "I4"}, unfenced: {"I2", "I3", "I4"}, noEvidence: {"I6"}, twoRecords: {"I6"}, repeatsPosts: {"I3", "I5"},
		liesNotSent: {"I3", "I5"}, tooSoon: {"I1"}, otherNames: {"I9", "I3"}, acksAtOnce: {"I2", "I11"}, oneEarly: {"I7"}, oneLate: {"I7"},
		undeclared: {"I4", "I3"}, unfencedEnd: {"I2"}, neverWakes: {"I2"}, reloadsEarly: {"I12"}, tellsEarly: {"I13"},
		hastyProbe: {"I3"}, ownKeys: {"I3"},
	}
}

// attempts is the ledger as a caller has it.
func (m mutant) attempts(l *ledger.Ledger) call.Ledger {
	if m == repeatsPosts || m == undeclared || m == hastyProbe {
		return careless{l, m}
	}
	return l
}

type careless struct {
	*ledger.Ledger
	mutant mutant
}

func (c careless) Append(ctx context.Context, st *ledger.State, ev schemas.Event) error {
	switch r := ev.Attempted; {
	case c.mutant == repeatsPosts && r != nil && r.Code == schemas.Interrupted:
		r.Sent, r.RetryAt = false, time.Now().UTC()
	case c.mutant == hastyProbe && r != nil && r.Probe > 0 && r.Status == 404:
		r.Effect, r.RetryAt = schemas.EffectNotApplied, time.Time{}
	case c.mutant == undeclared && ev.Attempt != nil && r == nil:
		st.Attempts = append(st.Attempts, ledger.Attempt{Attempt: *ev.Attempt}) // in its own mind alone
		return nil
	}
	return c.Ledger.Append(ctx, st, ev)
}

// barrier is what a stream waits for.
func (m mutant) barrier(own func(context.Context) error) func(context.Context) error {
	if m == tellsEarly {
		return nil
	}
	return own
}

// claims is the ledger as an acceptor has it.
func (m mutant) claims(l *ledger.Ledger) accept.Ledger {
	if m == tooSoon {
		return earlyReload{l}
	}
	return l
}

type earlyReload struct{ *ledger.Ledger }

func (h earlyReload) Claim(ctx context.Context, a schemas.Action) (*ledger.State, bool, error) {
	if st, err := h.Existing(ctx, a); err == nil {
		return st, true, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout/2)
	go func() {
		defer cancel()
		_, _, _ = h.Ledger.Claim(ctx, a) // it will be there
	}()
	st := &ledger.State{Ref: schemas.Ref{Tenant: a.Tenant, Kind: a.Kind, ID: a.ID}, Action: a, Seq: 1}
	st.Events = []schemas.Event{{Seq: 1, Type: schemas.EventAccepted, Action: &a}}
	return st, false, nil
}

// append is a message as the log takes it.
func (m mutant) append(a schemas.Append) schemas.Append {
	if a.Last > 0 && (m == unfenced || m == unfencedEnd && a.Ends()) {
		a.Guarded = false
	}
	return a
}

// loses reports whether a record never gets to the log.
func (m mutant) loses(topic, id string) bool {
	return m == noEvidence && strings.HasPrefix(topic, schemas.EvidenceRoot) && mix(id)%4 == 0
}

// id is that of a record.
func (m mutant) id(id string) string {
	if m == twoRecords {
		return fmt.Sprintf("%s-%d", id, time.Now().UnixNano())
	}
	return id
}

// lies reports whether a request that may have left is told to have not.
func (m mutant) lies() bool { return m == liesNotSent }

// request is what an acceptor makes of what it is asked.
func (m mutant) request(r accept.Request, d *dice) accept.Request {
	if m == otherNames {
		r.Name.ID = fmt.Sprintf("%s-%d", r.Name.ID, d.below(1_000_000))
	}
	return r
}

// position is where a stream begins for a reader that has come so far.
func (m mutant) position(at uint64) uint64 {
	switch {
	case m == oneEarly && at > 0:
		return at - 1
	case m == oneLate && at > 0:
		return at + 1
	default:
		return at
	}
}
