package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/schemas"
)

// branch opens the feed of a crowd beside that of its queue, whose output and slots it
// shares. It ends by leave, or with the queue's.
func (f *feed) branch(ctx context.Context, c crowd) (*feed, error) {
	if err := f.makeCrowd(ctx, c); err != nil {
		return nil, err
	}
	one := &feed{
		s: f.s, stream: f.stream, durable: schemas.CrowdQueue(c.Slot), kind: f.kind, config: c.consumer(f.config),
		subject: pullSubject(f.stream, schemas.CrowdQueue(c.Slot)), out: f.out, crowd: &c, crew: f.crew, running: f.running,
		handlers: f.handlers, cancel: func() {}, held: make(map[*delivery]struct{}),
		ended: f.ended, abort: f.abort, halted: make(chan struct{}), gone: make(chan struct{}),
	}
	f.crew.mu.Lock()
	closing := f.closing
	if !closing {
		f.crew.feeds = append(f.crew.feeds, one)
	}
	f.crew.mu.Unlock()
	if closing {
		return nil, errClosed
	}
	if err := one.open(); err != nil {
		one.leave()
		return nil, err
	}
	go one.attend(f.gone) //nolint:contextcheck // it lives as long as its queue's feed
	return one, nil
}

// makeCrowd makes a crowd's consumer, in the place of an earlier one of its slot.
func (f *feed) makeCrowd(ctx context.Context, c crowd) error {
	name := schemas.CrowdQueue(c.Slot)
	err := f.s.b.made(ctx, func(ctx context.Context) error {
		found, err := f.s.b.js.Consumer(ctx, f.stream, name)
		switch {
		case err == nil && c.is(found.CachedInfo().Config, f.config):
			return nil
		case err == nil:
			if err := f.s.b.js.DeleteConsumer(ctx, f.stream, name); err != nil && !isGone(err) {
				return err
			}
		case !isGone(err):
			return err
		}
		_, err = f.s.b.js.CreateOrUpdateConsumer(ctx, f.stream, c.consumer(f.config))
		return err
	})
	if err != nil {
		return fmt.Errorf("consumer %s of %s: %w", name, f.stream, wrap(err))
	}
	return nil
}

// leave ends a crowd's feed: what has not begun goes back, and what is with handlers stays
// with them.
func (f *feed) leave() {
	f.crew.mu.Lock()
	f.shut()
	f.crew.leave(f)
	f.crew.mu.Unlock()
	if f.sub != nil {
		_ = f.sub.Drain() // a connection that is closed has ended it
	}
}

// attend keeps a crowd's feed alive as supervise does a queue's: until it was left and
// holds nothing more, or the queue's is gone.
func (f *feed) attend(gone <-chan struct{}) {
	defer close(f.gone)
	beat := time.NewTicker(f.beatEvery())
	defer beat.Stop()
	watch := time.NewTicker(f.s.cfg.Heartbeat)
	defer watch.Stop()
	ended := (<-chan struct{})(f.ended)
	for {
		select {
		case <-beat.C:
			if f.beats(); f.idle() {
				return
			}
		case <-watch.C:
			f.watch()
		case <-ended:
			f.leave()
			ended = nil
		case <-gone:
			return
		case <-f.s.b.life.Done():
			return
		}
	}
}

// idle reports whether a feed that was left holds nothing more.
func (f *feed) idle() bool {
	f.crew.mu.Lock()
	defer f.crew.mu.Unlock()
	return f.closing && len(f.held) == 0
}

// pass puts a message aside that may be a crowd's. The caller holds the crew's mutex.
func (f *feed) pass(d *delivery) {
	f.passing = append(f.passing, d)
	if !f.passes {
		f.passes = true
		go f.passOver()
	}
}

// passOver acknowledges what lies aside as far as it is a crowd's, by a record that was read
// since it came; the rest is worked on. Where the record cannot be read it is all worked on:
// a message that two consumers give out does no harm, and one that none gives out is lost.
func (f *feed) passOver() {
	for {
		f.crew.mu.Lock()
		batch := f.passing
		f.passing = nil
		if len(batch) == 0 {
			f.passes = false
			f.crew.mu.Unlock()
			return
		}
		f.crew.mu.Unlock()
		table, err := f.crowds.fresh(f.handlers)
		passed := 0
		f.crew.mu.Lock()
		for _, d := range batch {
			switch {
			case err == nil && table.has(f.durable, d.record.Subject, d.record.Seq):
				delete(f.held, d)
				d.ack()
				passed++
			case f.closing:
				delete(f.held, d)
				d.giveBack()
			default:
				f.backlog = append(f.backlog, d)
			}
		}
		f.crew.fill()
		f.pull()
		f.crew.mu.Unlock()
		f.s.b.cfg.Metrics.PassedOver(passed)
	}
}

// isGone reports whether the server says that a consumer is not there.
func isGone(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerNotFound)
}
