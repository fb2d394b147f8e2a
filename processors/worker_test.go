package processors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/harness"
	"weir/processors"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// inbox is a subscriber whose messages a test writes.
type inbox chan *message.Message

// Subscribe gives them until ctx ends, as the broker's does.
func (i inbox) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for {
			select {
			case m := <-i:
				out <- m
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func (inbox) Close() error { return nil }

// again gives every message for the one record, which was delivered so often, and tells when it is to
// come again.
type again struct {
	rec   schemas.Record
	after chan time.Duration
	times uint64
}

// gated performs once it is let, and then ends with an error.
type gated struct {
	begun chan struct{}
	end   chan error
}

func (g gated) Execute(context.Context, *ledger.State, call.Stop) (settle.Outcome, error) {
	g.begun <- struct{}{}
	return settle.Outcome{}, <-g.end
}

// employed is a worker of a pipeline whose actions an executor executes.
func (h *env) employed(t *testing.T, e processors.Executor, mail inbox, d again, drain time.Duration, log io.Writer) (*processors.Worker, *processors.Pipeline) {
	t.Helper()
	pipeline := h.worker(t, "w")
	pipeline.Kinds = map[schemas.Kind]processors.Kind{schemas.KindHTTP: {Executor: e}}
	w, err := processors.NewWorker(pipeline, mail, processors.WorkerConfig{
		Partitions: 1, Topics: func(int) []string { return []string{"new"} },
		Record:       func(*message.Message) (schemas.Record, uint64) { return d.rec, d.times },
		NakAfter:     func(_ *message.Message, after time.Duration) { d.after <- after },
		DrainTimeout: drain, Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	require.NoError(t, err)
	require.NoError(t, w.Start(t.Context()))
	return w, pipeline
}

// TestWhatComesAgainByPlanIsNoWarning: a message that meets its action under way,
// as after every cancel, is told to those who debug. What a fault delays is told to all.
func TestWhatComesAgainByPlanIsNoWarning(t *testing.T) {
	t.Parallel()
	h := newEnv()
	rec := h.accept(t, schemas.HTTPCall{Method: "GET", URL: "http://up.example/x"})
	executor := gated{begun: make(chan struct{}), end: make(chan error)}
	mail, delivery := make(inbox), again{rec: rec, after: make(chan time.Duration, 1), times: 1}
	log := &capture.Buffer{}
	w, _ := h.employed(t, executor, mail, delivery, time.Minute, log)
	first, second := message.NewMessage("1", nil), message.NewMessage("2", nil)
	mail <- first
	<-executor.begun
	mail <- second
	<-second.Nacked()
	require.Equal(t, 10*time.Second, <-delivery.after, "the action is under way")
	executor.end <- fault.ErrUnavailable
	<-first.Nacked()
	require.Equal(t, time.Second, <-delivery.after)
	require.NoError(t, w.Stop())

	for i, want := range []string{"DEBUG", "WARN"} {
		var line struct {
			Level string `json:"level"`
			Msg   string `json:"msg"`
		}
		require.NoError(t, json.Unmarshal(bytes.Split(log.Bytes(), []byte("\n"))[i], &line))
		require.Equal(t, "message_redelivered", line.Msg)
		require.Equal(t, want, line.Level)
	}
}

// panics panics with content of the call.
type panics struct{}

func (panics) Execute(context.Context, *ledger.State, call.Stop) (settle.Outcome, error) {
	panic("AGWCANARY-PANIC")
}

// TestAPanicIsLoggedWithoutItsValue: the log, the dead letter and the end of the action
// do not hold what a handler panicked with.
func TestAPanicIsLoggedWithoutItsValue(t *testing.T) {
	t.Parallel()
	h := newEnv()
	rec := h.accept(t, schemas.HTTPCall{Method: "GET", URL: "http://up.example/x"})
	mail, log, delivery := make(inbox), &capture.Buffer{}, again{rec: rec, after: make(chan time.Duration, 1), times: 100}
	w, _ := h.employed(t, panics{}, mail, delivery, time.Minute, log)
	h.refuse = func(schemas.Append) error { panic("AGWCANARY-PANIC") }
	m := message.NewMessage("1", nil)
	mail <- m
	<-m.Nacked()
	require.Equal(t, time.Second, <-delivery.after, "its dead letter panics too")
	h.refuse = nil
	m = message.NewMessage("1", nil)
	mail <- m
	<-m.Acked()
	require.NoError(t, w.Stop())
	require.Contains(t, log.String(), "handler_panicked")
	require.NotContains(t, log.String(), "AGWCANARY")

	dead := harness.Dead(t, h.log)
	require.Len(t, dead, 1)
	require.NotContains(t, string(dead[0].Data), "AGWCANARY")
	st := h.state(t)
	require.Equal(t, schemas.Poison, st.Settled.Code)
	require.NotContains(t, string(st.Settled.Result)+st.Settled.Message, "AGWCANARY")
}
