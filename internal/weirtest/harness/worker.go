package harness

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/telemetry"
	"weir/internal/weirtest/memlog"
	"weir/processors"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// Policy is a policy that a test exchanges.
type Policy struct{ now atomic.Pointer[policy.Policy] }

// Enforce puts a policy with some entries in force.
func (p *Policy) Enforce(t *testing.T, entries ...policy.Entry) {
	t.Helper()
	p.Put(t, policy.Config{Entries: entries})
}

// Put puts a policy in force.
func (p *Policy) Put(t *testing.T, cfg policy.Config) {
	t.Helper()
	compiled, err := policy.Compile(cfg)
	require.NoError(t, err)
	p.now.Store(compiled)
}

// InForce is the policy in force.
func (p *Policy) InForce() *policy.Policy { return p.now.Load() }

// metrics counts for all workers: it has a thousand series, and no test of a worker reads one.
var metrics = telemetry.NewMetrics() //nolint:gochecknoglobals // as above

// Recorder leaves evidence in a log.
func Recorder(log *memlog.Log) *settle.Recorder {
	return settle.NewRecorder(log, metrics, settle.NewSeal([]byte("0123456789abcdef")))
}

// NoBarrier waits for nothing.
func NoBarrier(context.Context) error { return nil }

// Worker is what a pipeline is made of.
type Worker struct {
	Name    string
	Alone   bool // there is no other worker
	Log     *memlog.Log
	Ledger  *ledger.Ledger
	Waker   processors.Waker                // default: the log
	Barrier func(ctx context.Context) error // default: none
	Caller  *call.Caller
	// Kinds makes what the pipeline knows of the kinds.
	Kinds func(*settle.Recorder) map[schemas.Kind]processors.Kind
}

// Pipeline makes a pipeline, as a new process does.
func (w Worker) Pipeline() *processors.Pipeline {
	if w.Waker == nil {
		w.Waker = w.Log
	}
	if w.Barrier == nil {
		w.Barrier = NoBarrier
	}
	recorder := Recorder(w.Log)
	return processors.New(processors.Config{
		Ledger: w.Ledger, Waker: w.Waker, Worker: w.Name, Alone: w.Alone, Kinds: w.Kinds(recorder), Caller: w.Caller, Evidence: recorder, Metrics: metrics,
		DeadLetters: processors.DeadLetters{Sender: w.Log, Metrics: metrics, Log: slog.New(slog.DiscardHandler)}, Barrier: w.Barrier,
	})
}
