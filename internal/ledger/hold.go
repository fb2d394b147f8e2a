package ledger

import (
	"cmp"
	"context"

	"weir/schemas"
)

// held is the result of an attempt that is in the state and not on the log yet.
type held struct {
	ledger *Ledger
	ev     schemas.Event
	with   []func(context.Context) (wait func() error, err error)
}

// Hold puts the result of an attempt into the state that most likely ends the action. The attempt
// is on the log. The result is written within the end, if that is appended next, and else as an
// event of its own before the next one. Until then a crash loses it, as it would have a moment
// before: the attempt is then one without a result.
func (l *Ledger) Hold(ctx context.Context, st *State, ev schemas.Event) error {
	if err := st.Flush(ctx); err != nil {
		return err
	}
	st.result(ev.Attempted)
	st.held = &held{ledger: l, ev: ev}
	return nil
}

// With has f called right before the result that is held goes to the log. What f returns, if
// anything, waits for what it has begun: the Append that writes the result does so, too, and
// returns either's error. It is false where no result is held.
func (s *State) With(f func(context.Context) (wait func() error, err error)) bool {
	if s.held == nil {
		return false
	}
	s.held.with = append(s.held.with, f)
	return true
}

// Flush writes the result that is held, if there is one. fault.ErrFenced means what it means to
// Append.
func (s *State) Flush(ctx context.Context) error {
	if s.held == nil {
		return nil
	}
	return s.held.flight(ctx, s, s.held.ev)
}

// flight writes ev, which is the held result or has it in it, and what goes with it in the same
// flight. Where that cannot be begun, the result is written by itself, so that it is not lost with
// the rest.
func (h *held) flight(ctx context.Context, st *State, ev schemas.Event) error {
	st.held = nil
	var waits []func() error
	var failed error
	for _, f := range h.with {
		wait, err := f(ctx)
		if err != nil {
			ev, failed = h.ev, err
			break
		}
		waits = append(waits, wait)
	}
	err := cmp.Or(h.ledger.write(ctx, st, ev), failed)
	for _, wait := range waits {
		err = cmp.Or(err, wait())
	}
	return err
}
