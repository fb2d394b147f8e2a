package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"weir/internal/problem"
	"weir/schemas"
)

// All gives the events one by one until the action has ended.
func (r *Reader) All(ctx context.Context) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		ticker := time.NewTicker(recheck)
		defer ticker.Stop()
		for {
			items, err := r.Next(ctx, ticker.C)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("follow: %w", err))
				return
			}
			for _, it := range items {
				if !yield(it, nil) {
					return
				}
			}
		}
	}
}

// Wait is Await for an action of another's.
func (f *Feed) Wait(ctx context.Context, ref schemas.Ref) (*Item, error) {
	end, _, err := f.Await(ctx, ref, false, false)
	return end, err
}

// WaitClaimed is Await for an action that the caller has just claimed.
func (f *Feed) WaitClaimed(ctx context.Context, ref schemas.Ref) (*Item, error) {
	end, _, err := f.Await(ctx, ref, true, false)
	return end, err
}

// Topics is how many actions are watched.
func (f *Feed) Topics() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.topics)
}

// Held is how many events wait for a barrier.
func (f *Feed) Held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.held)
}

// Watching is how many watchers an action has.
func (f *Feed) Watching() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.topics {
		n += len(t.readers) + t.waiters
	}
	return n
}

// Serve answers with the events of an action whose kind is not known.
func (f *Feed) Serve(w http.ResponseWriter, r *http.Request, tenant, id string) {
	f.ServeAs(w, r, Dialect{Ref: schemas.Ref{Tenant: tenant, ID: id}, Refuse: problem.Write})
}

// By has streams served otherwise.
func (f *Feed) By(cfg HTTP) { f.cfg.HTTP = cfg.withDefaults() }
