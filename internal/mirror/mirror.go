// Package mirror keeps copies in memory in step with what the log stores: it hears of news, and
// reads what it may have missed.
package mirror

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"weir/schemas"
)

// Reader reads what is stored; see broker.Bucket.
type Reader interface {
	// Read calls take for all records after a write, oldest first, and returns the number of the
	// last one. Records taken before an error count.
	Read(ctx context.Context, after uint64, take func(schemas.Record)) (last uint64, err error)
}

// Config of a Follower.
type Config struct {
	// Component is whose copy it is, for the log.
	Component string
	// Check is how often Look is called beside Notify, and Patience bounds one such call.
	Check, Patience time.Duration
	Logger          *slog.Logger
	// Look takes over what was stored since its last call. Calls do not overlap.
	Look func(ctx context.Context) error
}

// Follower calls Look at intervals and when it is notified, and logs when that begins to fail and
// when it works again.
type Follower struct {
	cfg    Config
	notify chan struct{}
	stop   func()
}

// New returns a Follower.
func New(cfg Config) *Follower {
	return &Follower{cfg: cfg, notify: make(chan struct{}, 1), stop: func() {}}
}

// Start begins to watch, so that no news is missed, and then calls Look. It returns when the copy
// is whole; on an error nothing runs. Watch should call lost when some news may be missing.
func (f *Follower) Start(ctx context.Context, watch func(lost func()) (stop func(), err error)) error {
	unwatch, err := watch(f.Notify)
	if err != nil {
		return err
	}
	if err := f.cfg.Look(ctx); err != nil {
		unwatch()
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { f.run(life) })
	f.stop = sync.OnceFunc(func() { unwatch(); end(); done.Wait() })
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
		err := f.cfg.Look(bounded)
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
