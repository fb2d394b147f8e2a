// Package destination knows which calls may be made now, beyond what policy says: the
// rates and the numbers of calls at a time that its entries grant, the destinations that
// asked to be left alone or failed too often, and what operators hold back. All workers of
// a log go by the same: what one of them finds out, or uses up, the others heed.
package destination

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"weir/schemas"
)

// Store holds one value a key and numbers the writes to all of them. In its records
// Subject is the key and Seq the number of the write; without Data the key is gone.
type Store interface {
	// Put stores a value if the key's newest write is last, 0 for none.
	// fault.ErrFenced says that it is not.
	Put(ctx context.Context, key string, value []byte, last uint64) (uint64, error)
	// Get is the key's newest write; fault.ErrNotFound: there is none.
	Get(ctx context.Context, key string) (schemas.Record, error)
	// Read returns up to limit records behind a write, oldest first. Fewer than limit
	// says that there were no more when it was called.
	Read(ctx context.Context, after uint64, limit int) ([]schemas.Record, error)
	// Watch calls fn for what is stored from now on, and lost when some may be missing.
	Watch(fn func(schemas.Record), lost func()) (stop func(), err error)
}

// Metrics counts what the Book does. Entries are names of the policy's.
type Metrics interface {
	// DestinationsLeft says how many destinations of an entry are left alone now.
	DestinationsLeft(entry string, asked, open int)
	// CallHeld counts a call that was not let through at once, by what it waits for.
	CallHeld(why string)
	// OperationsInForce says how many there are of each sort.
	OperationsInForce(pauses, pins int)
}

// Config of a Book. All have defaults.
type Config struct {
	// Worker names this process; no two that share a store have the same name.
	Worker string
	// Nudge has an action looked at again at once; nil: those that rest wake when they
	// are due.
	Nudge func(ctx context.Context, ref schemas.Ref) error
	// Failures in a row after which a destination is left alone, over all workers;
	// default 100. A worker tells the others of its own after an eighth of them, so that
	// a few more may happen.
	Failures int
	// Quarantine is for how long, before one call is let through to see; default 10 s.
	Quarantine time.Duration
	// Longest is the longest time that a destination may ask to be left alone for: a
	// longer wish counts as none, but for the action that it was told. Default 5 min.
	Longest time.Duration
	// Lease is how long what a dead worker had taken of an entry's concurrency stays
	// taken; default 10 s. Three times in it a living one takes it anew.
	Lease time.Duration
	// Check is how often the stores are asked whether the copies are whole, beside being
	// followed; default 500 ms.
	Check time.Duration
	// Now is the clock; default time.Now. Workers that share a store go by each other's
	// clocks: one that is off by a second ends a pause by that much too early or too late.
	Now     func() time.Time
	Logger  *slog.Logger // default: none
	Metrics Metrics      // nil: nobody counts
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&c.Quarantine, 10*time.Second)
	set(&c.Longest, 5*time.Minute)
	set(&c.Lease, 10*time.Second)
	set(&c.Check, 500*time.Millisecond)
	if c.Failures <= 0 {
		c.Failures = 100
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Book is what one process knows of the destinations of all calls. It is safe for
// concurrent use.
type Book struct {
	cfg    Config
	shared Store // nil: no other process works on this log
	orders *orders

	mu     sync.Mutex
	places map[placeID]*place
	forgot time.Time        // when places were forgotten last
	gates  map[string]*gate // by entry

	wakers wakers
	done   sync.WaitGroup
	stop   func()
}

// New returns a Book. operations is where operators' decisions are kept; shared is what
// workers tell each other, nil where there is but one: it keeps all of it in memory, and
// forgets it when it ends.
func New(operations, shared Store, cfg Config) *Book {
	b := &Book{
		cfg: cfg.withDefaults(), shared: shared, stop: func() {},
		places: map[placeID]*place{}, gates: map[string]*gate{},
	}
	b.wakers.nudge = cfg.Nudge
	b.orders = newOrders(operations, b)
	return b
}

// Start copies the stores and begins to follow them. It returns when the copies are
// whole; on an error nothing runs.
func (b *Book) Start(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	b.wakers.start(life)
	var unwatch []func()
	stop := sync.OnceFunc(func() {
		for _, f := range unwatch {
			f()
		}
		end()
		b.done.Wait()
		b.wakers.done.Wait()
	})
	for _, f := range []*follower{
		{store: b.orders.store, learn: b.orders.learn},
		{store: b.shared, learn: b.learn},
	} {
		if f.store == nil {
			continue
		}
		off, err := f.start(ctx)
		if err != nil {
			stop()
			return err
		}
		unwatch = append(unwatch, off)
		b.done.Go(func() { f.follow(life, b.cfg.Check, b.tell) })
	}
	b.done.Go(func() { b.keep(life) })
	b.stop = stop
	return nil
}

// Stop ends what Start began. It may be called twice, and without Start.
func (b *Book) Stop() { b.stop() }

func (b *Book) tell(ctx context.Context, failed bool) {
	if failed {
		b.cfg.Logger.WarnContext(ctx, "destinations out of reach", "component", "destination")
		return
	}
	b.cfg.Logger.InfoContext(ctx, "destinations in reach", "component", "destination")
}

func (b *Book) held(why string) {
	if b.cfg.Metrics != nil {
		b.cfg.Metrics.CallHeld(why)
	}
}
