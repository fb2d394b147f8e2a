// Package index answers questions about many actions: lists with filters, counts and
// figures over time. It is read off the log into a file that may be thrown away at any
// time, and is never asked what is true: the log is.
package index

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"weir/egress/status"
	"weir/internal/fault"
	"weir/internal/telemetry"
	"weir/schemas"
)

// Log is what the index is read from.
type Log interface {
	// Last is the newest record under a filter, for the status of an action that has not
	// ended. It may be late.
	Last(ctx context.Context, stream, filter string) (schemas.Record, error)
	// Page returns records under a filter with a sequence of at least from, oldest first,
	// and none behind the one that makes them as large as size. It may be late.
	Page(ctx context.Context, stream, filter string, from uint64, limit, size int) (records []schemas.Record, more bool, err error)
	// Next is the first record under a filter with a sequence of at least from, or
	// fault.ErrNotFound. It is not late.
	Next(ctx context.Context, stream, filter string, from uint64) (schemas.Record, error)
	Bounds(ctx context.Context, stream string) (first, last uint64, err error)
}

// Config shapes an Index. Zero fields but Layout take the default.
type Config struct {
	Layout schemas.Layout // required
	// Path is the file. Default: one in a directory of its own for temporary files, which
	// goes when the index is closed.
	Path string
	// Wait is how long an answer waits for what the log holds by then. Default 3 s.
	Wait time.Duration
	// Every is how often the index reads on while nobody asks. Default 10 s.
	Every time.Duration
	// Rest is how many times as long as a batch took the index rests behind it while
	// nobody asks. Default 19: it takes a twentieth of one processor. Below 0: none.
	Rest int
	// Looks bounds how many actions one page looks at whose filters no table of the file
	// answers, and Words how many statuses it reads from the log. Default 20,000 and 2,000.
	Looks int
	Words int
	// Now is the clock; default time.Now.
	Now func() time.Time
	Log *slog.Logger // default: none
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&c.Wait, 3 * time.Second}, {&c.Every, 10 * time.Second}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	for _, n := range []struct {
		v   *int
		def int
	}{{&c.Looks, 20_000}, {&c.Words, 2_000}} {
		if *n.v <= 0 {
			*n.v = n.def
		}
	}
	if c.Rest == 0 {
		c.Rest = 19
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Index is safe for concurrent use. The file is opened when it is first needed.
type Index struct {
	log     Log
	actions status.Actions
	durable status.Durable
	cfg     Config

	mu     sync.Mutex
	file   *store // nil: not open
	closed bool
	asked  time.Time // when somebody last did
	stand  []standing
	oldest map[int]time.Time // the oldest record of each partition

	parts   []*partition
	opening sync.Mutex   // one opens
	using   sync.RWMutex // the file: closing it waits for who reads it
	writing sync.Mutex   // one writes
	words   map[string]int64

	life  context.Context //nolint:containedctx // the index's own, ended by Close
	end   context.CancelFunc
	work  sync.WaitGroup
	begin sync.Once
	poke  chan struct{}
}

// New returns an index that reads nothing yet. It shows nothing before durable says so,
// and keeps nothing either.
func New(log Log, actions status.Actions, durable status.Durable, cfg Config) *Index {
	x := &Index{log: log, actions: actions, durable: durable, cfg: cfg.withDefaults(), words: map[string]int64{}, oldest: map[int]time.Time{}, poke: make(chan struct{}, 1)}
	for p := range cfg.Layout.Partitions {
		x.parts = append(x.parts, newPartition(p))
	}
	x.stand = make([]standing, len(x.parts))
	x.life, x.end = context.WithCancel(context.Background())
	return x
}

// Start begins to read on now and then. Without it the index reads when it is asked.
func (x *Index) Start() {
	x.begin.Do(func() { x.work.Go(x.background) })
}

// Close ends what is under way, waits for it, and closes the file. It may be called twice.
func (x *Index) Close() {
	x.end()
	x.work.Wait()
	x.using.Lock()
	defer x.using.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.file != nil {
		x.file.close()
		x.file = nil
	}
}

// errClosed is the answer of an index that is closed.
var errClosed = errors.New("the index is closed")

// open is the file, opened where it is not: for all who wait for it, whoever came first.
func (x *Index) open() (*store, error) {
	x.opening.Lock()
	defer x.opening.Unlock()
	x.mu.Lock()
	file, closed := x.file, x.closed
	x.mu.Unlock()
	if closed || file != nil {
		if closed {
			return nil, errClosed
		}
		return file, nil
	}
	file, err := openStore(x.life, x.cfg.Path, x.cfg.Layout)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	x.file = file
	x.mu.Unlock()
	return file, nil
}

// reopen throws a file away that is not to be gone on with, unless somebody has done so.
// The caller holds no partition and does not read the file.
func (x *Index) reopen(old *store) error {
	x.using.Lock()
	defer x.using.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.file != old || x.closed {
		return nil
	}
	x.file.close()
	x.file = nil
	clear(x.words)
	clear(x.oldest)
	for i, p := range x.parts { // nobody holds one: who does reads the file
		*p = *newPartition(i)
		x.stand[i] = standing{}
	}
	if x.cfg.Path == "" {
		return nil
	}
	return Discard(x.cfg.Path)
}

// with has do work on the file, once the index has read what the log holds or wait is
// over. A file that turns out to be damaged, or another log's, is built anew.
func (x *Index) with(ctx context.Context, do func(ctx context.Context, s *store, lag lag) error) error {
	x.mu.Lock()
	x.asked = x.cfg.Now()
	x.mu.Unlock()
	var err error
	for range 3 {
		var s *store
		s, err = x.once(ctx, do)
		if err == nil || s == nil || !spoiled(err) {
			break
		}
		x.cfg.Log.InfoContext(ctx, "index built anew", slog.String("component", "egress/index"), slog.String("err_kind", telemetry.ErrKind(err)))
		if err := x.reopen(s); err != nil {
			return unavailable(err)
		}
	}
	return unavailable(err)
}

// unavailable leaves what has a meaning for the asker, and makes the rest a fault of the
// index: its text may hold a path.
func unavailable(err error) error {
	var known *fault.Error
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, fault.ErrUnavailable), errors.Is(err, context.Canceled):
		return err
	default:
		return errors.Join(fault.ErrUnavailable, err)
	}
}

func (x *Index) once(ctx context.Context, do func(ctx context.Context, s *store, lag lag) error) (*store, error) {
	s, err := x.open()
	if err != nil {
		return nil, err
	}
	return s, x.holding(s, func() error {
		lag, err := x.refresh(ctx, s)
		if err != nil {
			return err
		}
		return do(ctx, s, lag)
	})
}

// holding keeps a file from being closed while something is done with it.
func (x *Index) holding(s *store, do func() error) error {
	x.using.RLock()
	defer x.using.RUnlock()
	x.mu.Lock()
	current := x.file == s
	x.mu.Unlock()
	if !current { // thrown away between
		return errStale
	}
	return do()
}

// lag is how far the index is behind the log.
type lag struct {
	asOf   time.Time
	behind uint64
	silent map[int]bool // partitions that did not answer
}
