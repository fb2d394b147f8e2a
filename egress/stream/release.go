package stream

import (
	"context"
	"fmt"
	"log/slog"

	"weir/internal/fault"
	"weir/internal/retry"
)

// hold queues an event for the next barrier. It is called under the lock.
func (f *Feed) hold(it *Item) {
	if len(f.held) >= f.cfg.HeldEvents {
		// The barrier does not keep up. The dropped records are on the log.
		for _, h := range f.held {
			h.topic.held--
		}
		f.held = nil
		f.allBehind()
	}
	it.topic.held++
	f.held = append(f.held, it)
	select {
	case f.notify <- struct{}{}:
	default:
	}
}

// release is the goroutine between the subscription and the watchers: one
// barrier for everything that queued while the last one ran.
func (f *Feed) release() {
	for {
		select {
		case <-f.notify:
		case <-f.ctx.Done():
			return
		}
		f.mu.Lock()
		batch := f.held
		f.held = nil
		f.mu.Unlock()
		if len(batch) == 0 {
			continue
		}
		for err := f.cfg.Barrier(f.ctx); err != nil; err = f.cfg.Barrier(f.ctx) { // or the batch is never shown
			if f.ctx.Err() != nil {
				return
			}
			f.cfg.Logger.ErrorContext(f.ctx, "barrier_failed", slog.String("component", "egress/stream"), slog.Any("err_kind", err))
			retry.Pause(f.ctx, retryPause)
		}
		f.mu.Lock()
		for _, it := range batch {
			t := it.topic
			t.held--
			f.durable[t.stream] = max(f.durable[t.stream], it.Seq)
			t.deliver(it)
		}
		f.mu.Unlock()
	}
}

// Durable returns once a record that was read from the log may be shown. It returns at once for
// records that the feed has already seen after a barrier.
func (f *Feed) Durable(ctx context.Context, stream string, seq uint64) error {
	if f.cfg.Barrier == nil || seq == 0 {
		return nil
	}
	f.mu.Lock()
	known := f.durable[stream] >= seq
	f.mu.Unlock()
	if known {
		return nil
	}
	if err := f.cfg.Barrier(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.durable[stream] = max(f.durable[stream], seq)
	return nil
}
