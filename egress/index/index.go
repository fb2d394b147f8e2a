// Package index answers questions about many actions: lists with filters, counts and
// figures over time. It keeps them in an SQLite file that is derived from the log. The file
// may be deleted at any time.
package index

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/telemetry"
	"weir/schemas"
)

// Config shapes an Index. Zero fields but Layout take the default.
type Config struct {
	Layout schemas.Layout // required
	// Path is the file. Default: one in a temporary directory, which is removed when the
	// index is closed.
	Path string
	// Wait is how long an answer waits for what the log holds by then. Default 3 s.
	Wait time.Duration
	// Every is how often the index reads on without a request. Default 10 s.
	Every time.Duration
	// Looks bounds how many actions one page looks at whose filters no SQL index answers.
	// Default 20,000.
	Looks int
	Log   *slog.Logger // default: none
}

// Index is safe for concurrent use. The file is opened when it is first needed.
type Index struct {
	log     stream.Log
	durable stream.Durable
	cfg     Config
	own     string // a temporary directory for the file; empty: none

	using sync.RWMutex // readers of the file hold it, so that it is not closed meanwhile
	file  *store       // nil: not open
	asked atomic.Int64 // the time of the last request, in nanoseconds

	life  context.Context //nolint:containedctx // the index's own, ended by Close
	end   context.CancelFunc
	work  sync.WaitGroup
	begin sync.Once
	poke  chan struct{}
}

// New returns an index that reads nothing yet. It stores no record that is not yet durable.
func New(log stream.Log, durable stream.Durable, cfg Config) *Index {
	cfg.Wait = cmp.Or(cfg.Wait, 3*time.Second)
	cfg.Every = cmp.Or(cfg.Every, 10*time.Second)
	cfg.Looks = cmp.Or(cfg.Looks, 20_000)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	x := &Index{log: log, durable: durable, cfg: cfg, poke: make(chan struct{}, 1)}
	x.life, x.end = context.WithCancel(context.Background())
	return x
}

// Start begins to read in the background. Without it the index reads only on request.
func (x *Index) Start() {
	x.begin.Do(func() { x.work.Go(x.background) })
}

// Close stops the background work, waits for it, and closes the file. It may be called twice.
func (x *Index) Close() {
	x.end()
	x.work.Wait()
	x.using.Lock()
	defer x.using.Unlock()
	if x.file != nil {
		_ = x.file.db.Close() // records that are lost are read again
		x.file = nil
	}
	if x.own != "" {
		_ = os.RemoveAll(x.own)
	}
}

// open opens the file unless it is open.
func (x *Index) open() (err error) {
	x.using.Lock()
	defer x.using.Unlock()
	switch {
	case x.life.Err() != nil:
		return errors.New("the index is closed")
	case x.file != nil:
		return nil
	case x.cfg.Path == "":
		if x.own, err = os.MkdirTemp("", "weir-index-"); err != nil {
			return err
		}
		x.cfg.Path = filepath.Join(x.own, "actions.db")
	}
	x.file, err = openStore(x.life, x.cfg.Path, x.cfg.Layout)
	return err
}

// hold opens the file if needed, and keeps it open while do runs. If the file is damaged, or of another
// version or log, hold discards it: the next call builds it anew.
func (x *Index) hold(ctx context.Context, do func(s *store) error) error {
	var s *store
	err := func() error {
		x.using.RLock()
		defer x.using.RUnlock()
		for x.file == nil {
			x.using.RUnlock()
			err := x.open()
			x.using.RLock()
			if err != nil {
				return err
			}
		}
		s = x.file
		return do(s)
	}()
	if !spoiled(err) {
		return err
	}
	x.using.Lock()
	defer x.using.Unlock()
	if x.file == s { // no other call has done so
		if s != nil {
			x.cfg.Log.InfoContext(ctx, "index_rebuilt", slog.String("component", "egress/index"), slog.String("err_kind", telemetry.ErrKind(err)))
			_ = s.db.Close()
		}
		x.file = nil
		err = errors.Join(err, Discard(x.cfg.Path))
	}
	return err
}

// with runs do on the file after the index has read what the log holds, or after Wait.
func (x *Index) with(ctx context.Context, do func(s *store, fresh schemas.Freshness) error) error {
	x.asked.Store(time.Now().UnixNano())
	var err error
	for range 3 {
		err = x.hold(ctx, func(s *store) error {
			fresh, err := x.refresh(ctx, s)
			if err != nil {
				return err
			}
			return do(s, fresh)
		})
		if !spoiled(err) {
			break
		}
	}
	var known *fault.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, fault.ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	return errors.Join(fault.ErrUnavailable, err) // its text may hold a path
}
