package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// Actions of one ordering key stand in a line: each takes a ticket before it is accepted, and
// gives it back once it has ended. Who has the first ticket begins. The order is that of the
// tickets, so that of two requests of which one was answered before the other was sent, the
// first one's action is the first.
//
// A ticket is never believed by itself: one whose action has ended, or has another, is
// removed by whoever comes upon it. One whose action is not there may be on the way to it,
// and is left alone for orphaned. Its action in turn may be late: one that was
// accepted more than tardy behind its ticket does not go by that one, for
// others may have passed it, but takes another at the end of the line. So what dies between any
// two of these steps costs a place, or time, and never has two actions of a key at once.
const (
	tardy    = 10 * time.Second
	orphaned = 3 * tardy
)

const (
	// sweeps is how many tickets one look removes at most.
	sweeps = 64
	// near is how many of a line look again soon, and less often the longer they have waited:
	// they find out for all that the first one was not woken. The others look again later.
	// Each look is a record.
	near      = 8
	lookSoon  = 5 * time.Second
	lookLater = time.Minute
)

// claimInLine is Claim of an action that has an ordering key. One that is there already
// takes no ticket.
func (l *Ledger) claimInLine(ctx context.Context, a schemas.Action) (*State, bool, error) {
	full := l.log.Accepting()
	if full != nil || a.IDSource != schemas.IDGenerated {
		st, err := l.Join(ctx, a)
		switch {
		case !errors.Is(err, fault.ErrNotFound):
			return st, err == nil, err
		case full != nil:
			return nil, false, full
		}
	}
	ticket, err := l.take(ctx, schemas.Ref{Tenant: a.Tenant, Kind: a.Kind, ID: a.ID}, a.OrderingKey)
	if err != nil {
		return nil, false, err
	}
	a.Ticket = ticket
	st, duplicate, err := l.enter(ctx, a)
	if duplicate || err != nil && !errors.Is(err, fault.ErrUnavailable) {
		_ = l.log.Remove(ctx, schemas.TicketStream, ticket) // and if not now, by who comes upon it
	}
	return st, duplicate, err
}

// take puts an action at the end of a line. Where nobody knows whether that was stored it is
// done again: of two tickets the later one counts.
func (l *Ledger) take(ctx context.Context, ref schemas.Ref, key string) (seq uint64, err error) {
	data, err := Encode(schemas.Ticket{ID: ref.ID, Kind: ref.Kind})
	if err != nil {
		return 0, err
	}
	m := schemas.Append{Subject: schemas.TicketSubject(ref.Tenant, key), Data: data}
	for n, pause := 1, firstPause; ; n, pause = n+1, 2*pause {
		seq, err = l.log.Append(ctx, m)
		if !errors.Is(err, fault.ErrUnavailable) || n == writes || !rest(ctx, pause) {
			return seq, err
		}
	}
}

// Turn reports whether it is an action's turn in the line of its ordering key, and if not,
// when to look again at the latest: whoever ends before it wakes it. An action that has lost
// its ticket gets another one, at the end of the line, which is written down.
func (l *Ledger) Turn(ctx context.Context, st *State) (mine bool, again time.Duration, err error) {
	line := schemas.TicketSubject(st.Tenant, st.Action.OrderingKey)
	for range sweeps {
		first, err := l.log.Next(ctx, schemas.TicketStream, line, 1)
		gone := errors.Is(err, fault.ErrNotFound)
		switch {
		case err != nil && !gone:
			return false, 0, err
		case !gone && holds(st, first) && !st.late(first):
			return true, 0, nil
		case !gone && names(st.Ref, first): // of a repeat, or it may have been passed
			err = l.log.Remove(ctx, schemas.TicketStream, first.Seq)
		case gone || first.Seq >= st.Ticket:
			err = l.retake(ctx, st)
		default:
			var stale bool
			if stale, err = l.sweep(ctx, first, st.Waiting != nil); err == nil && !stale {
				return l.behind(ctx, st, line)
			}
		}
		if err != nil {
			return false, 0, err
		}
	}
	return false, lookSoon, nil
}

// First reports whether the first ticket of its line is an action's.
func (l *Ledger) First(ctx context.Context, st *State) (bool, error) {
	first, err := l.log.Next(ctx, schemas.TicketStream, schemas.TicketSubject(st.Tenant, st.Action.OrderingKey), 1)
	if errors.Is(err, fault.ErrNotFound) {
		return true, nil // it has lost its ticket, and is to look again
	}
	return err == nil && holds(st, first), err
}

// Leave gives an ended action's ticket back and wakes who is next, where that one has found
// that it has to wait. It reports whether it did. It may be called again.
func (l *Ledger) Leave(ctx context.Context, st *State) (woke bool, err error) {
	line := schemas.TicketSubject(st.Tenant, st.Action.OrderingKey)
	next, err := l.log.Next(ctx, schemas.TicketStream, line, st.Ticket)
	if err == nil && holds(st, next) {
		err = l.log.Remove(ctx, schemas.TicketStream, next.Seq)
	}
	for n := 0; err == nil && n < sweeps; n++ {
		if next, err = l.log.Next(ctx, schemas.TicketStream, line, 1); err != nil {
			break
		}
		var first *State
		var stale bool
		if first, stale, err = l.holder(ctx, next, l.Load); err != nil { // a replica might not show yet that it waits
			break
		}
		if !stale {
			return l.rouse(ctx, first)
		}
		err = l.log.Remove(ctx, schemas.TicketStream, next.Seq)
	}
	if errors.Is(err, fault.ErrNotFound) {
		err = nil // nobody is left
	}
	return false, err
}

// rouse has an action looked at that waits for its turn, and says whether it does. Nothing is
// written for one that is not there: it could not be accepted any more.
func (l *Ledger) rouse(ctx context.Context, st *State) (bool, error) {
	if st == nil || st.Waiting == nil || st.Waiting.For != schemas.WaitOrder {
		return false, nil
	}
	return true, l.Nudge(ctx, st.Ref)
}

// behind is when an action looks again that is not the first.
func (l *Ledger) behind(ctx context.Context, st *State, line string) (mine bool, again time.Duration, err error) {
	own, err := l.log.Next(ctx, schemas.TicketStream, line, st.Ticket)
	switch {
	case errors.Is(err, fault.ErrNotFound), err == nil && !holds(st, own):
		return false, lookSoon, l.retake(ctx, st)
	case err != nil:
		return false, 0, err
	}
	// Which answer it gets does not matter much: this only spares the log a long line's looks.
	before, _, err := l.log.Page(ctx, schemas.TicketStream, line, 1, near, pageSize)
	if err == nil && len(before) == near && before[near-1].Seq < st.Ticket {
		return false, lookLater, nil
	}
	return false, min(max(lookSoon, l.now().Sub(st.Stored)/4), lookLater), err
}

// retake gives an action that has lost its ticket another one.
func (l *Ledger) retake(ctx context.Context, st *State) error {
	seq, err := l.take(ctx, st.Ref, st.Action.OrderingKey)
	if err != nil {
		return err
	}
	return l.Append(ctx, st, schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitOrder, Ticket: seq}})
}

// sweep removes the first ticket of a line where it is nobody's any more, and reports that.
// Where it is somebody's who waits although nobody is before it, that one is woken, if again.
func (l *Ledger) sweep(ctx context.Context, first schemas.Record, again bool) (stale bool, err error) {
	st, stale, err := l.holder(ctx, first, func(ctx context.Context, ref schemas.Ref) (*State, error) {
		return l.Glance(ctx, ref.Tenant, ref.ID)
	})
	switch {
	case err != nil:
		return false, err
	case stale:
		return true, l.log.Remove(ctx, schemas.TicketStream, first.Seq)
	case again:
		_, err = l.rouse(ctx, st)
	}
	return false, err
}

// holder is the action that a ticket is of, as far as it is there; stale: the ticket is
// nobody's any more.
func (l *Ledger) holder(ctx context.Context, r schemas.Record, look func(context.Context, schemas.Ref) (*State, error)) (st *State, stale bool, err error) {
	ref, ok := ticketOf(r)
	if !ok {
		return nil, true, nil
	}
	old := l.now().Sub(r.Time) > orphaned
	st, err = look(ctx, ref)
	if err == nil && st.Settled == nil && st.Ticket != r.Seq {
		st, err = l.Load(ctx, st.Ref) // it may have another by now
	}
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return nil, old, nil
	case errors.Is(err, fault.ErrGone):
		return nil, true, nil
	case err != nil:
		return nil, false, err
	case st.Settled != nil, st.Ticket > r.Seq:
		return nil, true, nil
	case st.Ticket < r.Seq: // of a repeat, or its worker is about to write it down
		return nil, old, nil
	}
	return st, false, nil
}

// late reports whether an action was accepted so long after it took this ticket, by the log's
// clock, that others may have passed it.
func (s *State) late(r schemas.Record) bool {
	return s.Ticket == s.Action.Ticket && s.Stored.Sub(r.Time) > tardy
}

// holds reports whether a ticket is the one that an action has.
func holds(st *State, r schemas.Record) bool { return r.Seq == st.Ticket && names(st.Ref, r) }

func names(ref schemas.Ref, r schemas.Record) bool {
	of, ok := ticketOf(r)
	return ok && of == ref
}

// ticketOf is whose ticket a record is.
func ticketOf(r schemas.Record) (ref schemas.Ref, ok bool) {
	var t schemas.Ticket
	tenant, err := schemas.TicketTenant(r.Subject)
	if err != nil || json.Unmarshal(r.Data, &t) != nil || !schemas.ValidActionID(t.ID) {
		return ref, false
	}
	return schemas.Ref{Tenant: tenant, Kind: t.Kind, ID: t.ID}, true
}
