package harness

import (
	"context"
	"testing"
)

// Stop is a request to stop, as a call or an executor sees it.
type Stop struct {
	ctx context.Context //nolint:containedctx // it is a stop, and lives for as long
	// Pull makes the request.
	Pull context.CancelFunc
}

// NewStop returns a Stop that nobody has pulled.
func NewStop(t *testing.T) *Stop {
	t.Helper()
	ctx, pull := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(pull)
	return &Stop{ctx, pull}
}

// Requested reports whether it was pulled.
func (s *Stop) Requested() bool { return s.ctx.Err() != nil }

// Done is closed once it was pulled.
func (s *Stop) Done() <-chan struct{} { return s.ctx.Done() }

// AfterFunc calls f once it was pulled.
func (s *Stop) AfterFunc(f func()) (forget func() bool) { return context.AfterFunc(s.ctx, f) }

// NoStop is a request that never comes.
type NoStop struct{}

// Requested is false.
func (NoStop) Requested() bool { return false }

// Done is never closed.
func (NoStop) Done() <-chan struct{} { return nil }

// AfterFunc calls nothing.
func (NoStop) AfterFunc(func()) (forget func() bool) { return func() bool { return true } }
