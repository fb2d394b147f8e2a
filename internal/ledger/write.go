package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// A write that was refused or not acknowledged is settled by reading the log back,
// and made again where nothing stands in its place: the guard, which is the same,
// keeps out the copy that may still be on its way. It is made writes times at most.
// The pauses between, from firstPause on and each twice as long, are for what a
// cluster holds a guard against before it shows it: another write on its way.
const (
	writes     = 8
	firstPause = 10 * time.Millisecond
)

// overtakes is how often a write is made again at once because something came between
// that it may follow: who writes seldom would never be first where another writes all the
// time, if it waited.
const overtakes = 256

// claim writes the accepted event, or finds the action that has its name.
func (l *Ledger) claim(ctx context.Context, st *State, ev schemas.Event, m schemas.Append) (*State, bool, error) {
	ours := false // a copy may be stored, or on its way
	for n, pause := 1, firstPause; ; n, pause = n+1, 2*pause {
		seq, err := l.log.Append(ctx, m)
		full := errors.Is(err, fault.ErrFull)
		switch {
		case err == nil:
			st.apply(schemas.Record{Seq: seq, Time: ev.Time}, ev)
			return st, false, nil
		case errors.Is(err, fault.ErrUnavailable):
			ours = true
		case !full && !errors.Is(err, fault.ErrFenced):
			return nil, false, err
		}
		found, duplicate, missing := l.attach(ctx, *ev.Action, ours)
		switch {
		case !errors.Is(missing, fault.ErrNotFound):
			return found, duplicate, missing
		case full && !ours:
			return nil, false, err // a full log refuses new actions, and knows the old ones
		case full || n == writes || !rest(ctx, pause):
			return nil, false, fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
		}
	}
}

// written folds an event in that was written behind a state, once it is known to be
// stored: seq and err are what the first write came to. ev and m are changed with what
// came between that the event may follow.
func (l *Ledger) written(ctx context.Context, st *State, ev *schemas.Event, m schemas.Append, seq uint64, err error) error {
	if err != nil {
		seq, err = l.insist(ctx, st, ev, m, err)
	}
	if err != nil {
		return err
	}
	st.apply(schemas.Record{Seq: seq, Time: ev.Time}, *ev)
	return nil
}

// insist goes on where a write was refused or not acknowledged.
func (l *Ledger) insist(ctx context.Context, st *State, ev *schemas.Event, m schemas.Append, err error) (seq uint64, _ error) {
	n, pause, overtaken := 1, firstPause, 0
	for errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrFenced) {
		cause, before := err, m.Last
		if seq, err = l.readBack(ctx, st, ev, &m, cause); seq != 0 || err != nil {
			return seq, err
		}
		switch {
		case m.Last > before && overtaken < overtakes && ctx.Err() == nil:
			overtaken++
		case n == writes || !rest(ctx, pause):
			return 0, fmt.Errorf("event %d: %w", ev.N, cause)
		default:
			n, pause = n+1, 2*pause
		}
		seq, err = l.log.Append(ctx, m)
	}
	return seq, err
}

// readBack looks for what was stored since a state was read. It may be m itself,
// whose acknowledgement was lost: seq is its place. What ev may follow is folded in,
// and m made to stand behind it. Anything else is fault.ErrFenced.
//
// The stream's leader says how far to read. A replica that is late would have the
// writer of an event take it for another's, and one's own attempt for that of a
// worker which may be at it still.
func (l *Ledger) readBack(ctx context.Context, st *State, ev *schemas.Event, m *schemas.Append, cause error) (seq uint64, err error) {
	newest, err := l.log.Newest(ctx, l.stream(st.Ref), m.Guard)
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return 0, nil // the history was dropped, or a leader is late that has just become one
	case err != nil:
		return 0, fmt.Errorf("%w: %w", cause, err)
	case newest.Seq <= st.Seq:
		return 0, nil
	case same(newest, *m):
		return newest.Seq, nil
	}
	var newer []schemas.Record
	err = l.until(ctx, st.Ref, st.Seq, newest.Seq, func(r schemas.Record) error {
		newer = append(newer, r)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", cause, err)
	}
	for _, r := range newer {
		if same(r, *m) {
			return r.Seq, nil
		}
		if !l.yields(st, r, ev.Type) {
			return 0, fault.ErrFenced
		}
		ev.N = st.N + 1
		if m.Data, err = Encode(ev); err != nil {
			return 0, err
		}
	}
	m.Last = st.Seq
	return 0, nil
}

// same says that a message is the one that was to be written. No other writer makes it:
// it holds the time, and what is the worker's own.
func same(r schemas.Record, m schemas.Append) bool {
	return r.Subject == m.Subject && string(r.Data) == string(m.Data)
}

// yields folds in a message that came between a state and its next event, if the
// event may stand after it all the same. A nudge says nothing. A request to
// cancel does not unmake what a call brought, so that, its result and the action's
// end still stand; but nothing new is begun after it by a writer who has not seen it.
// And a request to cancel may be made whatever an action is at, until it has ended: who
// asks for a stop does not race with the worker that is to be stopped. A task has no call
// that could have brought something: of its ends the first one written counts.
func (l *Ledger) yields(st *State, r schemas.Record, next schemas.EventType) bool {
	if r.Notifies() {
		st.Seq = r.Seq
		return true
	}
	_, _, section := schemas.Split(r.Subject)
	between, err := Decode(r.Data)
	if err != nil || schemas.SectionOf(between.Type) != section || !follows(st.Kind, next, between.Type) {
		return false
	}
	st.apply(r, between)
	return true
}

// follows reports whether an event may stand behind one that its writer has not seen.
func follows(kind schemas.Kind, next, between schemas.EventType) bool {
	if next == schemas.EventCancel {
		switch between {
		case schemas.EventStarted, schemas.EventAttempt, schemas.EventAttempted, schemas.EventWaiting, schemas.EventProgress, schemas.EventDelta:
			return true
		default: // it has ended, or was asked to already; or a task is another's to stop now
			return false
		}
	}
	if between != schemas.EventCancel {
		return false
	}
	switch next {
	case schemas.EventSettled:
		return kind != schemas.KindTask
	case schemas.EventAttempted, schemas.EventProgress, schemas.EventDelta:
		return true
	default:
		return false
	}
}

// rest waits; false says that ctx ended first.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
