package destination

import (
	"context"
	"time"

	"weir/schemas"
)

const (
	// page is how many records are read at once.
	page = 256
	// patience bounds one look at a store.
	patience = 5 * time.Second
)

// follower has everything learned that is in a store, and that comes into it. What it
// brings may be brought twice, and an older write behind a newer one of its key.
type follower struct {
	store Store
	learn func(schemas.Record)
	read  uint64 // everything up to here was read; of one goroutine at a time
	kick  chan struct{}
}

// start returns when everything that is there was learned.
func (f *follower) start(ctx context.Context) (unwatch func(), err error) {
	f.kick = make(chan struct{}, 1)
	// Before the first read, so that nothing falls between.
	unwatch, err = f.store.Watch(f.learn, func() {
		select {
		case f.kick <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	if err := f.catchUp(ctx); err != nil {
		unwatch()
		return nil, err
	}
	return unwatch, nil
}

// follow asks the store again and again for what the watch has missed.
func (f *follower) follow(ctx context.Context, every time.Duration, tell func(ctx context.Context, failed bool)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	out := false
	for {
		select {
		case <-tick.C:
		case <-f.kick:
		case <-ctx.Done():
			return
		}
		bounded, cancel := context.WithTimeout(ctx, patience)
		err := f.catchUp(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if failed := err != nil; failed != out {
			out = failed
			tell(ctx, failed)
		}
	}
}

func (f *follower) catchUp(ctx context.Context) error {
	for {
		records, err := f.store.Read(ctx, f.read, page)
		if err != nil {
			return err
		}
		for _, r := range records {
			f.learn(r)
			f.read = r.Seq
		}
		if len(records) < page {
			return nil
		}
	}
}
