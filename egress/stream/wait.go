package stream

import (
	"context"
	"errors"
	"sync"
	"time"

	"weir/schemas"
)

// ErrBegun is why Await returns before the end: the answer has begun to arrive, and is read from
// the log from now on.
var ErrBegun = errors.New("the answer has begun")

// Expect makes the feed keep an action's terminal event from now on, until
// release. Who is about to claim an id calls it before the claim is published;
// the answer then needs no read of the log, however fast the action settles.
// release may be called twice.
func (f *Feed) Expect(ref schemas.Ref) (release func()) {
	filter := f.cfg.Layout.All(ref)
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topic(ref, filter)
	f.topics[t.key] = t
	t.pins++
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		t.pins--
		f.drop(t)
	})
}

// Await returns the action's terminal event once it may be shown. It reads the log once and then
// uses the feed, so it works for long settled and for queued actions. It waits for an unclaimed id
// until ctx ends. If claimed is set, the caller has just claimed the action under an Expect that is
// still held: then the log is not read unless the feed lost records. With part, the error is
// ErrBegun once a part of an answer is on the log. Other errors are ctx's, or ErrClosed.
//
// alone reports that at the time of giving up, this node had no other waiting caller for the
// action's end or events. Later callers do not count: of two that give up, one was the last.
func (f *Feed) Await(ctx context.Context, ref schemas.Ref, claimed, part bool) (end *Item, alone bool, err error) {
	filter := f.cfg.Layout.All(ref)
	f.mu.Lock()
	t := f.topic(ref, filter)
	f.topics[t.key] = t
	t.waiters++
	claimed = claimed && t.pins > 0
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		t.waiters--
		alone = f.drop(t)
	}()
	timer := time.NewTimer(recheck)
	defer timer.Stop()
	// ask: the log is read, because the feed does not have the end if it came before, or after a loss.
	for ask, last, losses := !claimed, false, 0; ; {
		f.mu.Lock()
		end, begun, missed := t.outcome, part && t.begun, t.losses > losses
		losses = t.losses
		if t.changed == nil {
			t.changed = make(chan struct{})
		}
		changed := t.changed
		f.mu.Unlock()
		if end == nil && (missed || ask) {
			if end, err = f.readOutcome(ctx, t); err != nil {
				timer.Reset(retryPause) // the log is away: the feed may still bring it
			}
		}
		switch {
		case end != nil:
			return end, false, nil
		case begun:
			return nil, false, ErrBegun
		case last:
			return nil, false, ErrClosed
		}
		ask = true
		select {
		case <-changed:
			ask = false
		case <-timer.C:
			timer.Reset(recheck)
		case <-f.waits.Done(): // the log is read a last time
			last = true
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// readOutcome reads the terminal event from the log; nil where there is none yet.
func (f *Feed) readOutcome(ctx context.Context, t *topic) (*Item, error) {
	rec, ok, err := f.end(ctx, t)
	if !ok || err != nil {
		if err == nil && rec.Delta() {
			f.mu.Lock()
			t.begin()
			f.mu.Unlock()
		}
		return nil, err
	}
	if err := f.Durable(ctx, t.stream, rec.Seq); err != nil {
		return nil, err
	}
	return f.item(t, rec), nil
}
