package stream

import (
	"context"
	"errors"
	"time"

	"weir/schemas"
)

// Outcome is the end of an action, and its position on the log.
type Outcome struct {
	Seq     uint64
	N       int
	Settled *schemas.Settled
}

// Expect makes the feed keep an action's terminal event from now on, until
// release. Who is about to claim an id calls it before the claim is published;
// the answer then needs no read of the log, however fast the action settles.
// release may be called twice.
func (f *Feed) Expect(ref schemas.Ref) (release func()) {
	filter := f.cfg.Layout.All(ref)
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topic(ref, filter)
	t.pins++
	released := false
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if released {
			return
		}
		released = true
		t.pins--
		f.drop(t)
	}
}

// Await returns the action's end once it may be shown. It reads the log once and then uses the
// feed, so it works for long settled and for queued actions. It waits for an unclaimed id until ctx
// ends. If claimed is set, the caller has just claimed the action under an Expect that is still
// held: then the log is not read unless the feed lost records. The error is ctx's, or ErrClosed.
//
// alone reports that at the time of giving up, this node had no other waiting caller for the
// action's end or events. Later callers do not count: of two that give up, one was the last.
func (f *Feed) Await(ctx context.Context, ref schemas.Ref, claimed bool) (end Outcome, alone bool, err error) {
	w := f.watch(ref, awaits)
	defer func() { alone = f.unregister(w) }()
	end, err = f.wait(ctx, w, claimed)
	return end, false, err
}

// ErrBegun is why AwaitPart returns before the end: the answer has begun to arrive, and is read from
// the log from now on.
var ErrBegun = errors.New("the answer has begun")

// AwaitPart is Await that returns ErrBegun once a part of an answer is on the log.
func (f *Feed) AwaitPart(ctx context.Context, ref schemas.Ref, claimed bool) (end Outcome, alone bool, err error) {
	w := f.watch(ref, begins)
	defer func() { alone = f.unregister(w) }()
	end, err = f.wait(ctx, w, claimed)
	return end, false, err
}

func (f *Feed) wait(ctx context.Context, w *watcher, claimed bool) (Outcome, error) {
	end, behind, pinned := f.peek(w)
	ask := behind || !claimed || !pinned
	timer := time.NewTimer(recheck)
	defer timer.Stop()
	for end == nil {
		if ask {
			var err error
			if end, err = f.readOutcome(ctx, w.topic); end != nil {
				break
			} else if err != nil {
				timer.Reset(retryPause) // the log is away: the feed may still bring it
			}
		}
		if w.parts && f.begun(w.topic) {
			return Outcome{}, ErrBegun
		}
		select {
		case <-w.wake:
			end, ask, _ = f.peek(w)
		case <-timer.C:
			timer.Reset(recheck)
			ask = true
		case <-ctx.Done():
			return Outcome{}, ctx.Err()
		case <-f.waits.Done():
			if end, _ = f.readOutcome(ctx, w.topic); end == nil {
				return Outcome{}, ErrClosed
			}
		}
	}
	return *end, nil
}

// peek returns what the feed knows. behind means that it may have missed something since the topic
// was made, pinned that Expect made the topic or joined it.
func (f *Feed) peek(w *watcher) (end *Outcome, behind, pinned bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := w.topic
	behind = w.behind || (t.lost && w.first)
	w.behind, w.first = false, false
	return t.outcome, behind, t.pins > 0
}

// begun reports whether a part of an answer has arrived.
func (f *Feed) begun(t *topic) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return t.begun
}

// readOutcome reads the terminal event from the log; nil where there is none yet.
func (f *Feed) readOutcome(ctx context.Context, t *topic) (*Outcome, error) {
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
	return f.item(t.ref, rec).outcome(), nil
}
