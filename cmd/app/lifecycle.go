package app

import (
	"context"
	"errors"
	"slices"
)

// stack holds what must be undone, in the order in which it was done. A failed
// New and an ordinary Stop unwind the same stack.
type stack struct {
	undo []func(context.Context) error
}

// push registers the teardown of something that was just made.
func (s *stack) push(f func(context.Context) error) { s.undo = append(s.undo, f) }

// unwind undoes everything, the last first, and leaves the stack empty.
func (s *stack) unwind(ctx context.Context) error { return s.unwindTo(ctx, 0) }

// depth is how much there is to undo.
func (s *stack) depth() int { return len(s.undo) }

// unwindTo undoes what was done since the stack had a depth.
func (s *stack) unwindTo(ctx context.Context, depth int) error {
	var errs []error
	for _, undo := range slices.Backward(s.undo[depth:]) {
		errs = append(errs, undo(ctx))
	}
	s.undo = s.undo[:depth]
	return errors.Join(errs...)
}
