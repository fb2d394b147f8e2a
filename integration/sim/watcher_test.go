package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/weirtest/history"
)

// watcher reads an action's events from their beginning to their end, cut off now and then.
func (w *world) watcher(ctx context.Context, d *dice, a act) {
	seen, cuts := history.Watched{Tenant: a.tenant, ID: a.ref().ID}, a.cuts
	defer func() {
		w.mu.Lock()
		w.watched = append(w.watched, seen)
		w.mu.Unlock()
	}()
	at := uint64(0)
	for ctx.Err() == nil && !seen.Ended {
		if n := w.any(d); n != nil {
			live := ctx
			cancel := func() {}
			if cuts--; cuts >= 0 {
				live, cancel = context.WithTimeout(ctx, d.within(0, 10*time.Second))
				w.tally.add(readerCut, 1)
			}
			w.follow(live, n, a, &at, &seen)
			cancel()
		}
		rest(ctx, d.within(10*time.Millisecond, 2*time.Second))
	}
}

// follow is one connection of a watcher. What comes from a node that is dead by then did
// not come.
func (w *world) follow(ctx context.Context, n *node, a act, at *uint64, seen *history.Watched) {
	r, err := n.feed.Follow(ctx, a.ref(), w.mutant.position(*at))
	if err != nil {
		if errors.Is(err, fault.ErrGone) || errors.Is(err, stream.ErrBeyond) {
			w.breach(history.Violation{Invariant: "I7", Tenant: a.tenant, Subject: a.name, Detail: fmt.Sprintf("no resuming after %d: %v", *at, err)})
		}
		return
	}
	defer r.Close()
	for {
		items, err := r.Next(ctx, nil)
		if n.isDead() || n.isPaused() {
			return
		}
		for _, it := range items {
			if it.Event.NeedsBarrier() {
				w.safe(a, it.Seq)
			}
			*at = it.Seq
			seen.IDs = append(seen.IDs, it.Seq)
		}
		if errors.Is(err, fault.ErrGone) {
			w.breach(history.Violation{Invariant: "I7", Tenant: a.tenant, Subject: a.name, Detail: fmt.Sprintf("the events after %d are said to be gone", *at)})
		}
		if errors.Is(err, io.EOF) {
			seen.Ended = true
		}
		if err != nil {
			return
		}
	}
}
