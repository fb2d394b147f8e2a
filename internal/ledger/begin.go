package ledger

import (
	"context"

	"weir/schemas"
)

// Sender is a Log whose writer may do something else while it writes.
type Sender interface {
	// Send is Append as far as it can be done without waiting. What it returns waits for
	// the rest, and is to be called once.
	Send(ctx context.Context, m schemas.Append) (wait func(context.Context) (uint64, error))
}

// Begin is Append that leaves the waiting for later: to the next Append of the state, or
// to Await, which then has its error. Until then the event is not in the state, and
// nobody may be shown anything that follows from it. Where the log is no Sender,
// it is Append.
func (l *Ledger) Begin(ctx context.Context, st *State, ev schemas.Event) error {
	sender, ok := l.log.(Sender)
	if !ok {
		return l.Append(ctx, st, ev)
	}
	if err := st.Await(ctx); err != nil {
		return err
	}
	m, err := l.next(st, &ev)
	if err != nil {
		return err
	}
	wait := sender.Send(ctx, m)
	st.begun = func(ctx context.Context) error {
		seq, err := wait(ctx)
		return l.written(ctx, st, &ev, m, seq, err)
	}
	return nil
}

// Await waits for the event that was begun, if there is one. fault.ErrFenced means what
// it means to Append.
func (s *State) Await(ctx context.Context) error {
	if s.begun == nil {
		return nil
	}
	begun := s.begun
	s.begun = nil
	return begun(ctx)
}
