// Package mirror keeps copies in memory in step with what the log stores: it hears of news, and
// reads what it may have missed.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// Reader reads what is stored; see broker.Bucket.
type Reader interface {
	// Read calls take for all records after a write, oldest first, and returns the number of the
	// last one. Records taken before an error count.
	Read(ctx context.Context, after uint64, take func(schemas.Record)) (last uint64, err error)
}

// Store holds one value per key and numbers the writes to all of them; see broker.Bucket. In its
// records Subject is the key and Seq the number of the write; without Data the key is gone.
type Store interface {
	Reader
	// Put stores a value if the key's newest write is last, 0 for none, and returns its number.
	// fault.ErrFenced says that it is not; fault.ErrTooLarge that no message can hold the value.
	Put(ctx context.Context, key string, value []byte, last uint64) (uint64, error)
	// Watch calls fn for what is stored from now on, and lost when some of that may be missing.
	Watch(fn func(schemas.Record), lost func()) (stop func(), err error)
}

// Config of a Follower. It has Store and Learn, or Watch and Look.
type Config struct {
	// Component is whose copy it is, for the log.
	Component string
	// Check is how often Look is called beside Notify, and Patience bounds one such call.
	Check, Patience time.Duration
	Logger          *slog.Logger
	// Learn takes over a record of Store. Each comes at least once, and an older one may come after a
	// newer one.
	Store Store
	Learn func(schemas.Record)
	// Watch begins to hear of news, and calls lost when some may be missing. Default: Learn does.
	Watch func(lost func()) (stop func(), err error)
	// Look takes over what was stored since its last call. Calls do not overlap. Default: Learn does.
	Look func(ctx context.Context) error
	// Looked is called after each Look with its begin and its result; default: nothing is.
	Looked func(begun time.Time, err error)
}

// Follower calls Look at intervals and when it is notified, and logs when that begins to fail and
// when it works again.
type Follower struct {
	cfg    Config
	notify chan struct{}
	ended  chan struct{}
	stop   func()

	mu   sync.Mutex
	next *look // has not begun; nil: no caller waits for it
}

// look is a call of Look that callers wait for.
type look struct {
	done chan struct{}
	err  error
}

// New returns a Follower.
func New(cfg Config) *Follower {
	if cfg.Watch == nil {
		cfg.Watch = func(lost func()) (func(), error) { return cfg.Store.Watch(cfg.Learn, lost) }
	}
	if cfg.Look == nil {
		read := uint64(0)
		cfg.Look = func(ctx context.Context) (err error) {
			read, err = cfg.Store.Read(ctx, read, cfg.Learn)
			return err
		}
	}
	return &Follower{cfg: cfg, notify: make(chan struct{}, 1), ended: make(chan struct{}), stop: func() {}}
}

// Start begins to watch, so that no news is missed, and then calls Look. It returns when the copy
// is whole; on an error nothing runs.
func (f *Follower) Start(ctx context.Context) error {
	unwatch, err := f.cfg.Watch(f.Notify)
	if err != nil {
		return err
	}
	if err := f.look(ctx); err != nil {
		unwatch()
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { f.run(life) })
	f.stop = sync.OnceFunc(func() { unwatch(); end(); done.Wait(); close(f.ended) })
	return nil
}

// Stop ends what Start began. It may be called twice, and without Start.
func (f *Follower) Stop() { f.stop() }

// Notify has Look called now. It does not wait for it.
func (f *Follower) Notify() {
	select {
	case f.notify <- struct{}{}:
	default:
	}
}

// errStopped: nothing is followed any more.
var errStopped = errors.New("the copy is not kept any more")

// CatchUp returns after a call of Look that began after it: the copy then has all that was stored
// before. Callers at the same time share one. Before Start it waits for that.
func (f *Follower) CatchUp(ctx context.Context) error {
	f.mu.Lock()
	if f.next == nil {
		f.next = &look{done: make(chan struct{})}
	}
	l := f.next
	f.mu.Unlock()
	f.Notify()
	err := errStopped
	select {
	case <-l.done:
		return l.err
	case <-f.ended:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
}

// look calls Look, for those too who wait for that.
func (f *Follower) look(ctx context.Context) error {
	f.mu.Lock()
	l := f.next
	f.next = nil
	f.mu.Unlock()
	begun := time.Now()
	err := f.cfg.Look(ctx)
	if f.cfg.Looked != nil {
		f.cfg.Looked(begun, err)
	}
	if l != nil {
		l.err = err
		close(l.done)
	}
	return err
}

func (f *Follower) run(ctx context.Context) {
	tick := time.NewTicker(f.cfg.Check)
	defer tick.Stop()
	for failed := false; ; {
		select {
		case <-tick.C:
		case <-f.notify:
		case <-ctx.Done():
			return
		}
		bounded, cancel := context.WithTimeout(ctx, f.cfg.Patience)
		err := f.look(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if (err != nil) == failed {
			continue
		}
		level, what := slog.LevelInfo, "store_reachable"
		if failed = !failed; failed {
			level, what = slog.LevelWarn, "store_unreachable"
		}
		f.cfg.Logger.Log(ctx, level, what, "component", f.cfg.Component) //nolint:sloglint // one of the two above
	}
}
