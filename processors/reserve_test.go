package processors_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/harness"
	"weir/processors"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// TestReserve: what this process executes without a message is executed once; the message that
// comes meanwhile comes again, and finds it done. What was released is the message's.
func TestReserve(t *testing.T) {
	t.Parallel()
	h := newEnv()
	w := h.worker(t, "w")
	ends := 0
	w.Ended = func(context.Context, *ledger.State) { ends++ }
	execute, release := w.Reserve(first)
	rec := h.accept(t, schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"})
	harness.Later(t, w.Handle(t.Context(), rec, true), 2*time.Second)
	require.Zero(t, h.sent)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // its client is gone
	execute(ctx)
	require.Equal(t, 1, h.sent)
	release()
	require.NoError(t, w.Handle(t.Context(), rec, false))
	require.Equal(t, 1, h.sent)
	require.Equal(t, 1, ends, "it is told once")
	require.NoError(t, w.Handle(t.Context(), rec, false))
	require.Equal(t, 2, ends, "another worker may have died")
	require.Equal(t, schemas.OutcomeSucceeded, harness.Load(t, h.ingressLedger(), first).Settled.Outcome)

	h = newEnv()
	w = h.worker(t, "w")
	_, release = w.Reserve(first)
	rec = h.accept(t, schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"})
	release()
	require.NoError(t, w.Handle(t.Context(), rec, true))
	require.Equal(t, 1, h.sent)
}

// TestReservedBehindOthers: the log does not show the action at once, and another writes to it first.
func TestReservedBehindOthers(t *testing.T) {
	t.Parallel()
	h := newEnv()
	w := h.worker(t, "w")
	execute, _ := w.Reserve(first)
	h.accept(t, schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"})
	once := true
	h.refuse = func(schemas.Append) error {
		if !once {
			return nil
		}
		once = false
		var st *ledger.State
		h.Apart(func() { st = harness.Load(t, h.ingressLedger(), first) })
		harness.Append(t, h.ingressLedger(), st, schemas.Event{Type: schemas.EventCancel})
		return fault.ErrFenced
	}
	h.late = time.Now().Add(300 * time.Millisecond)
	execute(t.Context())
	require.Equal(t, schemas.OutcomeCanceled, harness.Load(t, h.ingressLedger(), first).Settled.Outcome)
	require.Zero(t, h.sent)
}

// waiting is an executor that ends with its context.
type waiting struct {
	processors.Executor
	begun chan struct{}
}

func (p waiting) Execute(ctx context.Context, _ *ledger.State, _ call.Stop) (settle.Outcome, error) {
	close(p.begun)
	<-ctx.Done()
	return settle.Outcome{}, ctx.Err()
}

// TestReservedAtAStop: a worker that stops waits for what it executes, as long as its drain lasts,
// and executes nothing more.
func TestReservedAtAStop(t *testing.T) {
	t.Parallel()
	h := newEnv()
	executor := waiting{begun: make(chan struct{})}
	w, pipeline := h.employed(t, executor, make(inbox), again{}, 50*time.Millisecond, io.Discard)
	execute, _ := pipeline.Reserve(first)
	h.accept(t, schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"})
	done := make(chan struct{})
	go func() {
		defer close(done)
		execute(t.Context())
	}()
	<-executor.begun
	require.NoError(t, w.Stop())
	<-done
	execute, _ = pipeline.Reserve(first)
	execute(t.Context()) // executor would panic
}

// TestStop: a stop reaches what this process executes, before any word of it is on the log.
func TestStop(t *testing.T) {
	t.Parallel()
	h := newEnv()
	w := h.worker(t, "w")
	execute, _ := w.Reserve(first)
	h.accept(t, schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"})
	w.Stop(first)
	execute(t.Context())
	require.Equal(t, schemas.OutcomeCanceled, harness.Load(t, h.ingressLedger(), first).Settled.Outcome)
	require.Zero(t, h.sent)
}
