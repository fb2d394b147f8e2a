package processors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"weir/internal/fault"
	"weir/internal/telemetry"
	"weir/schemas"
)

// WorkerConfig is what a Worker needs besides its collaborators.
type WorkerConfig struct {
	Partitions int
	// Topics name the work of a partition.
	Topics func(partition int) []string
	// Record returns the message of the log, and how often it was delivered.
	Record func(m *message.Message) (rec schemas.Record, deliveries uint64)
	// NakAfter sets when a refused message is redelivered.
	NakAfter func(m *message.Message, d time.Duration)
	// DrainTimeout bounds how long Stop waits for running work. It should be longer than the
	// subscriber's, whose end cuts the work off.
	DrainTimeout time.Duration
	Log          *slog.Logger
}

// Worker drives the pipeline with Watermill's router: one handler a topic, each with many messages in flight.
type Worker struct {
	router   *message.Router
	pipeline *Pipeline
	cfg      WorkerConfig
	done     chan struct{}
}

// NewWorker returns a Worker that takes its messages from sub.
func NewWorker(p *Pipeline, sub message.Subscriber, cfg WorkerConfig) (*Worker, error) {
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: cfg.DrainTimeout}, watermill.NopLogger{})
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	w := &Worker{router: router, pipeline: p, cfg: cfg, done: make(chan struct{})}
	for partition := range cfg.Partitions {
		for _, topic := range cfg.Topics(partition) {
			router.AddConsumerHandler(topic, topic, sub, w.handle)
		}
	}
	return w, nil
}

// Start begins to take messages and returns when every handler is subscribed.
func (w *Worker) Start(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() {
		defer close(w.done)
		// The router's context ends handlers' contexts; a drain must not.
		failed <- w.router.Run(context.WithoutCancel(ctx))
	}()
	select {
	case <-w.router.Running():
		return nil
	case err := <-failed:
		return fmt.Errorf("worker: %w", err)
	case <-ctx.Done():
		return errors.Join(ctx.Err(), w.router.Close())
	}
}

// Stop accepts no more messages, waits for running work and returns. Unstarted messages go back to
// the log. It may be called twice.
func (w *Worker) Stop() error {
	late := time.AfterFunc(w.cfg.DrainTimeout, w.pipeline.running.end)
	defer late.Stop()
	err := w.router.Close()
	<-w.done
	w.pipeline.running.drain()
	w.pipeline.early.stop()
	return err
}

// poisonAfter is the delivery from which on a panic is considered the message's fault.
const poisonAfter = 5

// handle runs the pipeline on one message and turns its error into the message's disposition: nil
// acknowledges it, anything else redelivers it after a delay. A message that panics repeatedly
// becomes a dead letter.
func (w *Worker) handle(m *message.Message) error {
	rec, deliveries := w.cfg.Record(m)
	ctx := m.Context() // ends with the drain's patience, not with its beginning
	start := time.Now()
	err := w.run(ctx, rec, deliveries, nil)
	if errors.Is(err, errPanic) && deliveries >= poisonAfter {
		err = w.run(ctx, rec, deliveries, &fault.Terminal{Code: schemas.Poison, Reason: "the worker panicked on it again and again"})
	}
	ack, after := fault.Disposition(err)
	if ack {
		return nil
	}
	w.cfg.NakAfter(m, after)
	level := slog.LevelWarn
	if later, ok := errors.AsType[*fault.RetryAfter](err); ok && later.Cause == nil {
		level = slog.LevelDebug // expected: the action is running here
	}
	ref, _, _ := schemas.ParseSubject(rec.Subject)
	w.cfg.Log.LogAttrs(ctx, level, "message_redelivered",
		slog.String("kind", string(ref.Kind)), slog.Uint64("seq", rec.Seq), slog.Uint64("count", deliveries),
		slog.Int64("duration_ms", time.Since(start).Milliseconds()), slog.String("err_kind", telemetry.ErrKind(err)))
	return err
}

var errPanic = errors.New("the handler panicked")

// run works on a message, or dead-letters it if poison is set. A panic becomes errPanic, and does not
// end the process.
func (w *Worker) run(ctx context.Context, rec schemas.Record, deliveries uint64, poison *fault.Terminal) (err error) {
	defer func() {
		if recover() != nil {
			w.cfg.Log.LogAttrs(ctx, slog.LevelError, "handler_panicked", slog.Uint64("seq", rec.Seq), slog.Uint64("count", deliveries),
				slog.String("at", telemetry.Panicking()))
			err = errPanic
		}
	}()
	if poison != nil {
		return w.pipeline.DeadLetter(ctx, rec, poison)
	}
	return w.pipeline.Handle(ctx, rec, deliveries <= 1)
}
