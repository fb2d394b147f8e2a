package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// queue is a ledger with lines, under a clock of its own.
type queue struct {
	*ledger.Ledger
	t      *testing.T
	log    *memlog.Log
	now    time.Time
	before func(schemas.Append) error // of each append
}

func newQueue(t *testing.T) *queue {
	t.Helper()
	q := &queue{t: t, now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return q.now }
	q.log = memlog.New(layout, clock, memlog.Hooks{Before: func(m schemas.Append) error {
		if q.before != nil {
			return q.before(m)
		}
		return nil
	}})
	q.Ledger = ledger.New(q.log, layout, clock)
	return q
}

func (q *queue) action(tenant, key, id string) schemas.Action {
	return schemas.Action{
		ID: id, Tenant: tenant, Kind: schemas.KindHTTP, Fingerprint: "f", OrderingKey: key, IDSource: schemas.IDRequest,
		AcceptedAt: q.now, Payload: []byte(`{}`),
	}
}

func (q *queue) claim(key, id string) *ledger.State {
	q.t.Helper()
	st, duplicate, err := q.Claim(q.t.Context(), q.action("t", key, id))
	require.NoError(q.t, err)
	require.False(q.t, duplicate)
	return st
}

// turn asks for a turn, and has the action wait where it is not its.
func (q *queue) turn(st *ledger.State) bool {
	q.t.Helper()
	mine, _, err := q.Turn(q.t.Context(), st)
	require.NoError(q.t, err)
	if !mine && st.Waiting == nil {
		require.NoError(q.t, q.Append(q.t.Context(), st, schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitOrder}}))
	}
	return mine
}

func (q *queue) settle(st *ledger.State) {
	q.t.Helper()
	require.NoError(q.t, q.Append(q.t.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded}}))
}

// leave ends an action and takes it out of its line.
func (q *queue) leave(st *ledger.State) (woke bool) {
	q.t.Helper()
	q.settle(st)
	woke, err := q.Leave(q.t.Context(), st)
	require.NoError(q.t, err)
	return woke
}

// tickets are those of a line.
func (q *queue) tickets(key string) []schemas.Record {
	q.t.Helper()
	all, err := q.log.Range(q.t.Context(), schemas.TicketStream, schemas.TicketSubject("t", key), 1, 1000)
	require.NoError(q.t, err)
	return all
}

// wakes is how often an action was woken.
func (q *queue) wakes(id string) int {
	q.t.Helper()
	ref := schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: id}
	all, err := q.log.Range(q.t.Context(), schemas.LogStream(layout.Partition("t", id)), layout.Subject(ref, schemas.TailWake), 1, 1000)
	require.NoError(q.t, err)
	return len(all)
}

func TestALineGoesInOrder(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	var all []*ledger.State
	partitions := map[int]bool{}
	for i := range 8 {
		id := fmt.Sprintf("a%d", i)
		all = append(all, q.claim("k", id))
		partitions[layout.Partition("t", id)] = true
	}
	require.Greater(t, len(partitions), 1)
	require.True(t, q.turn(q.claim("other", "b")), "another key waits for nobody")
	stranger, _, err := q.Claim(t.Context(), q.action("u", "k", "a0"))
	require.NoError(t, err)
	require.True(t, q.turn(stranger), "another tenant's key is another")
	for i, st := range all {
		for _, later := range all[i+1:] {
			require.False(t, q.turn(later))
		}
		require.True(t, q.turn(st), "it is the turn of number %d", i)
		require.Equal(t, i+1 < len(all), q.leave(st))
		if i+1 < len(all) {
			require.Equal(t, 1, q.wakes(fmt.Sprintf("a%d", i+1)))
		}
	}
	require.Empty(t, q.tickets("k"))
	woke, err := q.Leave(t.Context(), all[0])
	require.NoError(t, err, "a second time")
	require.False(t, woke)
}

// TestOneLeavesFromTheMiddle: it was canceled, say, and keeps nobody.
func TestOneLeavesFromTheMiddle(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	a, b, c := q.claim("k", "a"), q.claim("k", "b"), q.claim("k", "c")
	require.False(t, q.turn(b) || q.turn(c))
	require.False(t, q.leave(b), "who is first does not wait")
	require.False(t, q.turn(c))
	require.True(t, q.turn(a))
	require.True(t, q.leave(a))
	require.True(t, q.turn(c))
}

func TestARepeatTakesNoTicket(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	st := q.claim("k", "a")
	for _, key := range []string{"k", "other"} {
		_, duplicate, err := q.Claim(t.Context(), q.action("t", key, "a"))
		require.NoError(t, err)
		require.True(t, duplicate, "the key is no part of what it is")
	}
	other := q.action("t", "k", "a")
	other.Fingerprint = "g"
	_, _, err := q.Claim(t.Context(), other)
	require.ErrorIs(t, err, fault.ErrConflict)
	unseen := q.action("t", "k", "a") // two requests at once: this one has found nothing
	unseen.IDSource = schemas.IDGenerated
	_, duplicate, err := q.Claim(t.Context(), unseen)
	require.NoError(t, err)
	require.True(t, duplicate)
	require.Len(t, q.tickets("k"), 1)
	require.Empty(t, q.tickets("other"))
	require.True(t, q.turn(st))
}

// TestATicketIsLeftBehind by what died before it was accepted, right behind its end, or in a
// repeat: none of them keeps the others for long.
func TestATicketIsLeftBehind(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.before = func(m schemas.Append) error {
		if strings.HasSuffix(m.Subject, ".lost."+string(schemas.TailAccepted)) {
			q.before = func(schemas.Append) error { return fault.ErrUnavailable } // it is dead
			return fault.ErrUnavailable
		}
		return nil
	}
	lost := q.action("t", "k", "lost")
	lost.IDSource = schemas.IDGenerated
	_, _, err := q.Claim(t.Context(), lost)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	q.before = nil
	require.Len(t, q.tickets("k"), 1)

	ended, repeated, waiter := q.claim("k", "ended"), q.claim("k", "repeated"), q.claim("k", "waiter")
	require.False(t, q.turn(ended), "it may be accepted yet")
	q.now = q.now.Add(29 * time.Second)
	require.False(t, q.turn(ended))
	require.Equal(t, 0, q.wakes("lost"), "what is written for it would keep it from being accepted")
	q.now = q.now.Add(2 * time.Second)
	require.True(t, q.turn(ended))
	q.settle(ended) // and its worker dies
	require.False(t, q.turn(waiter))
	require.Len(t, q.tickets("k"), 2)

	_, err = q.log.Append(t.Context(), schemas.Append{Subject: schemas.TicketSubject("t", "k"), Data: []byte(`{"id":"repeated","kind":"http"}`)})
	require.NoError(t, err)
	last := q.claim("k", "last")
	require.True(t, q.turn(repeated))
	q.leave(repeated)
	require.True(t, q.turn(waiter))
	require.True(t, q.leave(waiter) || q.turn(last), "it is passed over")
	require.True(t, q.turn(last))
}

// TestAcceptedLate: what was accepted so late that others may have passed its ticket goes to
// the end of the line, and begins beside nobody.
func TestAcceptedLate(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	var next *ledger.State
	q.before = func(m schemas.Append) error {
		if strings.HasSuffix(m.Subject, ".a."+string(schemas.TailAccepted)) {
			q.before, q.now = nil, q.now.Add(11*time.Second)
			next = q.claim("k", "b")
		}
		return nil
	}
	late, err := q.Load(t.Context(), q.claim("k", "a").Ref) // as a worker reads it
	require.NoError(t, err)
	require.False(t, q.turn(late))
	require.True(t, q.turn(next))
	require.False(t, q.turn(late))
	require.True(t, q.leave(next))
	read, err := q.Load(t.Context(), late.Ref)
	require.NoError(t, err)
	require.Equal(t, late.Ticket, read.Ticket, "its new place is written down")
	require.NotEqual(t, late.Action.Ticket, read.Ticket)
	require.True(t, q.turn(read))
	require.False(t, q.leave(read))
	require.Empty(t, q.tickets("k"))
}

// TestTheTicketsAreLost, all of them, and their sequences begin anew: then the order is that in
// which workers look, and still one begins at a time.
func TestTheTicketsAreLost(t *testing.T) {
	t.Parallel()
	for name, anew := range map[string]bool{"gone": false, "others have their numbers": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t)
			for i := range 3 { // so that there is room for others before them
				q.leave(q.claim("k", fmt.Sprintf("x%d", i)))
			}
			all := []*ledger.State{q.claim("k", "a"), q.claim("k", "b"), q.claim("k", "c")}
			for _, r := range q.tickets("k") {
				require.NoError(t, q.log.Remove(t.Context(), schemas.TicketStream, r.Seq))
			}
			if anew {
				for i := range all { // as if the stream had been made again
					all[i].Ticket, all[i].Action.Ticket = 1000, 1000
				}
			}
			require.True(t, q.turn(all[2]))
			require.False(t, q.turn(all[0]) || q.turn(all[1]))
			require.True(t, q.leave(all[2]))
			require.False(t, q.turn(all[1]))
			require.True(t, q.turn(all[0]))
			q.leave(all[0])
			require.True(t, q.turn(all[1]))
		})
	}
}

// TestWhoIsFirstIsWokenAgain by those behind it, where its wake-up was lost.
func TestWhoIsFirstIsWokenAgain(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	a, b, c := q.claim("k", "a"), q.claim("k", "b"), q.claim("k", "c")
	require.False(t, q.turn(b) || q.turn(c))
	q.settle(a)
	require.NoError(t, q.log.Remove(t.Context(), schemas.TicketStream, a.Ticket)) // and nobody is woken
	require.False(t, q.turn(c))
	require.Equal(t, 1, q.wakes("b"))
	mine, err := q.First(t.Context(), b)
	require.NoError(t, err)
	require.True(t, mine)
	mine, err = q.First(t.Context(), c)
	require.NoError(t, err)
	require.False(t, mine)
}

// TestWhoIsFarBehindLooksSeldom.
func TestWhoIsFarBehindLooksSeldom(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	var again []time.Duration
	for i := range 12 {
		_, d, err := q.Turn(t.Context(), q.claim("k", fmt.Sprintf("a%d", i)))
		require.NoError(t, err)
		again = append(again, d)
	}
	require.Zero(t, again[0])
	require.Equal(t, 5*time.Second, again[7])
	require.Equal(t, time.Minute, again[8])
}
