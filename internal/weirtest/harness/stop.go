package harness

import (
	"context"
	"testing"

	"weir/processors/call"
)

// Stop is a request to stop, as a call or an executor sees it.
type Stop struct {
	call.Stop

	// Pull makes the request.
	Pull context.CancelFunc
}

// NewStop returns a Stop that nobody has pulled.
func NewStop(t *testing.T) *Stop {
	t.Helper()
	ctx, pull := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(pull)
	return &Stop{call.Stop{Context: ctx}, pull}
}

// NoStop is a request that never comes.
func NoStop() call.Stop { return call.Stop{Context: context.Background()} }
