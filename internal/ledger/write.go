package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/fault"
	"weir/internal/retry"
	"weir/schemas"
)

const (
	// A refused or unacknowledged write is settled by reading the log back. If nothing is stored in
	// its place it is made again, with the same guard, which excludes the copy that may still
	// arrive; up to writes times in all. The pauses start at firstPause and double. They are for a
	// cluster that checks a guard against another pending write before it shows that one.
	writes     = 8
	firstPause = 10 * time.Millisecond
	// overtakes is how often a write is made again at once after another one that it may follow. A
	// slow writer that waited would never win against one that writes all the time.
	overtakes = 256
)

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
		case n == writes || !retry.Pause(ctx, pause):
			return 0, fmt.Errorf("event %d: %w", ev.N, cause)
		default:
			n, pause = n+1, 2*pause
		}
		seq, err = l.log.Append(ctx, m)
	}
	return seq, err
}

// readBack looks for messages stored since a state was read. If m itself was stored and its
// acknowledgement lost, seq is its sequence. Events that ev may follow are folded in, and m is
// changed to follow them. Anything else is fault.ErrFenced.
//
// The stream's leader says how far to read. With a lagging replica, the writer of an event would
// take it for another writer's, and its own attempt for one of a worker that may still be running.
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

// same reports whether a stored message is the one this worker tried to write. No other writer
// produces the same time and content.
func same(r schemas.Record, m schemas.Append) bool {
	return r.Subject == m.Subject && string(r.Data) == string(m.Data)
}

// yields folds in a message between a state and its next event, if the event may follow it anyway.
// A notification changes nothing. After a request to cancel, the result of a finished call and the
// action's end are still valid, but nothing new begins. A request to cancel itself may follow
// anything until the action has ended. A task has no call with a result: the first of its ends
// counts.
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

// follows reports whether an event may follow one that its writer has not seen.
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
