// Package janitor finds actions that no worker works on although one should: their message was
// lost, or the wake-up that they waited for. It settles nothing itself. It notifies workers, and
// the worker that receives the notification starts the action, goes on with it, or finds its
// deadline passed.
package janitor

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/internal/limits"
	"weir/internal/telemetry"
	"weir/schemas"
)

// Log is where actions and their ends are read.
type Log interface {
	// Page returns messages under filter with a sequence of at least from, oldest first;
	// more says that there are others.
	Page(ctx context.Context, stream, filter string, from uint64, limit, size int) (records []schemas.Record, more bool, err error)
	// Newest is the newest message under filter, or fault.ErrNotFound. It is not late.
	Newest(ctx context.Context, stream, filter string) (schemas.Record, error)
	// Bounds returns the sequences of the oldest and the newest message of a stream.
	Bounds(ctx context.Context, stream string) (first, last uint64, err error)
}

// Notifier notifies workers of an action.
type Notifier interface {
	// Notify wakes it now.
	Notify(ctx context.Context, ref schemas.Ref) error
	// Requeue queues an action again that has not started.
	Requeue(ctx context.Context, ref schemas.Ref) error
}

// Metrics counts notifications. It must not block.
type Metrics interface {
	Overdue(kind schemas.Kind)
}

// Config shapes a Janitor. Layout and Worker are required; zero fields take the default.
type Config struct {
	Layout schemas.Layout
	// Worker names this process in the places.
	Worker string
	// Alone: no other process works on this log, so partitions are not leased.
	Alone bool
	// Every is how often there is a round, and a hold on a partition is renewed; one that
	// was not renewed for three rounds is taken over. Default 5 s.
	Every time.Duration
	// Idle is how long the next record of an action may be overdue: the first after its
	// acceptance, or the one that a wait or an attempt must be followed by. Default 5 s: an action
	// whose message is lost begins within 10 s.
	Idle time.Duration
	// Grace is how long an action may go on after its deadline. Default 15 s: it ends within a
	// minute of its deadline, even if the holder dies.
	Grace time.Duration
	// Most is how many actions of a partition are stored with its position that have not ended.
	// Default 1,024.
	Most    int
	Metrics Metrics
	Log     *slog.Logger // default: none
}

func (c Config) withDefaults() Config {
	c.Every, c.Idle = cmp.Or(c.Every, 5*time.Second), cmp.Or(c.Idle, 5*time.Second)
	c.Grace, c.Most = cmp.Or(c.Grace, 15*time.Second), cmp.Or(c.Most, 1024)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// takeover is how many rounds a hold on a partition outlives its holder.
const takeover = 3

// Janitor scans all partitions, one goroutine each. Several may run on one log: one janitor holds a
// partition at a time, and if two do, an action is only notified twice.
type Janitor struct {
	log       Log
	positions limits.Bucket
	notifier  Notifier
	cfg       Config

	end  context.CancelFunc
	work sync.WaitGroup
}

// New returns a Janitor that does nothing yet. It stores in p how far each partition was looked through,
// and who does it.
func New(l Log, p limits.Bucket, n Notifier, cfg Config) *Janitor {
	return &Janitor{log: l, positions: p, notifier: n, cfg: cfg.withDefaults(), end: func() {}}
}

// Start begins the rounds and returns.
func (j *Janitor) Start(ctx context.Context) {
	ctx, j.end = context.WithCancel(context.WithoutCancel(ctx))
	for p := range j.cfg.Layout.Partitions {
		j.work.Go(func() {
			j.rounds(ctx, &partition{Janitor: j, number: p, key: strconv.Itoa(p), stream: schemas.LogStream(p)})
		})
	}
}

// Stop ends the rounds and waits for them. It may be called twice.
func (j *Janitor) Stop() {
	j.end()
	j.work.Wait()
}

// rounds goes on until ctx ends. The log may be away: then the next round finds it.
func (j *Janitor) rounds(ctx context.Context, p *partition) {
	tick := time.NewTicker(j.cfg.Every)
	defer tick.Stop()
	told := false
	for {
		err := p.round(ctx)
		failed := err != nil && ctx.Err() == nil && !errors.Is(err, fault.ErrFenced) // another node's turn
		if failed && !told {
			j.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "overdue_search_failed",
				slog.Int("partition", p.number), slog.String("err_kind", telemetry.ErrKind(err)))
		}
		told = failed
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
