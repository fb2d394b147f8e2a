package ledger

import (
	"cmp"
	"context"

	"weir/schemas"
)

// held is the result of an attempt that is in the state and not on the log yet.
type held struct {
	ev    schemas.Event
	write func(context.Context) error
	with  []func(context.Context) (wait func() error, err error)
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
	st.held = &held{ev: ev, write: func(ctx context.Context) error { return l.write(ctx, st, ev) }}
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
	h := s.held
	if h == nil {
		return nil
	}
	s.held = nil
	return h.flight(ctx, func() error { return h.write(ctx) })
}

// flight writes something, and what goes with the result in the same flight. Where that cannot be
// begun, the result is written by itself, so that it is not lost with the rest.
func (h *held) flight(ctx context.Context, write func() error) error {
	var waits []func() error
	var err error
	for _, f := range h.with {
		var wait func() error
		if wait, err = f(ctx); err != nil {
			break
		}
		waits = append(waits, wait)
	}
	if err == nil {
		err = write()
	} else {
		err = cmp.Or(h.write(ctx), err)
	}
	for _, wait := range waits {
		err = cmp.Or(err, wait())
	}
	return err
}

// end writes an action's end, with the result that is held.
func (l *Ledger) end(ctx context.Context, st *State, ev schemas.Event) error {
	h := st.held
	if h == nil {
		return l.write(ctx, st, ev)
	}
	st.held = nil
	ev.Attempted = h.ev.Attempted
	if a := ev.Attempted.Answer; a != nil && a == ev.Settled.Answer {
		brief := *ev.Attempted
		brief.Answer, brief.InResult = &schemas.Answer{Status: a.Status, Hash: a.Hash, JSON: a.JSON}, true
		ev.Attempted = &brief
	}
	return h.flight(ctx, func() error { return l.write(ctx, st, ev) })
}
