package stream

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"weir/internal/fault"
)

// heldItem is an event that may not be shown yet.
type heldItem struct {
	topic *topic
	item  *Item
}

// hold queues an event for the next barrier. It is called under the lock.
func (f *Feed) hold(t *topic, it *Item) {
	if len(f.held) >= f.cfg.HeldEvents {
		// The barrier does not keep up. What is dropped here is on the log.
		for _, h := range f.held {
			h.topic.held--
		}
		clear(f.held)
		f.held = f.held[:0]
		f.allBehind()
	}
	t.held++
	f.held = append(f.held, heldItem{t, it})
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// release is the goroutine between the subscription and the watchers: one
// barrier for everything that queued while the last one ran.
func (f *Feed) release() {
	for {
		select {
		case <-f.kick:
		case <-f.ctx.Done():
			return
		}
		for f.releaseBatch() {
		}
	}
}

func (f *Feed) releaseBatch() (more bool) {
	f.mu.Lock()
	batch := f.held
	if len(batch) > 0 {
		f.held, f.spare = f.spare, nil
	}
	f.mu.Unlock()
	if len(batch) == 0 {
		return false
	}
	if !f.pass() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range batch {
		h.topic.held--
		f.durable[h.topic.stream] = max(f.durable[h.topic.stream], h.item.Seq)
		h.topic.deliver(h.item, f.cfg)
	}
	clear(batch)
	f.spare = batch[:0]
	return true
}

// pass waits for a barrier. It tries for as long as the feed is open: a batch
// whose barrier failed is never shown.
func (f *Feed) pass() bool {
	for {
		err := f.cfg.Barrier(f.ctx)
		if err == nil {
			return true
		}
		if f.ctx.Err() != nil {
			return false
		}
		f.cfg.Logger.ErrorContext(f.ctx, "barrier_failed", slog.String("component", "egress/stream"), slog.Any("err_kind", err))
		if !f.pause(f.ctx) {
			return false
		}
	}
}

// pause waits out Retry; false says that ctx or the feed ended first.
func (f *Feed) pause(ctx context.Context) bool { return f.rest(ctx, f.cfg.Retry) }

// until is ctx, ended with the feed if that is sooner. done ends it.
func (f *Feed) until(ctx context.Context) (until context.Context, done func()) {
	until, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(f.ctx, cancel)
	return until, func() {
		stop()
		cancel()
	}
}

func (f *Feed) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-f.ctx.Done():
		return false
	}
}

// Durable returns once a record that was read from the log may be shown. What
// the feed has already seen past a barrier costs nothing.
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
