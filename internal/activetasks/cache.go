// Package activetasks is a cache of the tasks that have not ended. It follows the log and is not a source
// of truth: a caller that acts on a task reads the task's own events first.
package activetasks

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weir/internal/mirror"
	folding "weir/internal/task"
	"weir/schemas"
)

// Log is what is followed, see internal/broker.
type Log interface {
	// Bounds are the places of a stream's oldest and newest message, by who has seen every write.
	Bounds(ctx context.Context, stream string) (first, last uint64, err error)
	// Page is up to limit messages under filter from a sequence on, or about as many as have a
	// total size. It may come from a replica without the newest messages.
	Page(ctx context.Context, stream, filter string, from uint64, limit, size int) (records []schemas.Record, more bool, err error)
	// Next is the first message under filter from a sequence on, and misses none that was
	// acknowledged before the call. fault.ErrNotFound: there is none.
	Next(ctx context.Context, stream, filter string, from uint64) (schemas.Record, error)
	Live(subject string, fn func(schemas.Record), lost func()) (stop func(), err error)
	// GetBlob returns the payload of a task that lies aside.
	GetBlob(ctx context.Context, name string) ([]byte, error)
}

// Config of New. All but Layout have defaults.
type Config struct {
	Layout schemas.Layout
	// Check is how often the log is asked for what the feed has missed; default 2 s.
	Check  time.Duration
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Check = cmp.Or(c.Check, 2*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Entry is what the cache knows of a task.
type Entry struct {
	Ref      schemas.Ref
	Accepted time.Time
	Deadline time.Time
	Pool     string
	// Entries are the only entries of the policy that the task may use; empty: all.
	Entries []string
	// Models are patterns of the only models that it may use; empty: all.
	Models   []string
	Leasable bool
	// Lease and Holder are the newest lease's; Leased says that it holds.
	Lease  int
	Holder string
	Leased bool
}

// Cache has the tasks that have not ended. It is safe for concurrent use. Start reads the log to its
// end and begins to follow it.
type Cache struct {
	*mirror.Follower

	log Log
	cfg Config

	mu       sync.Mutex
	lists    map[place][]*task        // the oldest first
	changed  map[string]chan struct{} // by tenant; closed when a task is leasable; absent: no subscriber
	tasks    map[schemas.Ref]*task
	reported map[place]*task // the last one that each holder of leases has reported the end of
	read     []uint64        // of each partition: everything up to here was read from the log
	first    []uint64        // of each partition: what lay before this was dropped by history, and is dropped here
	watch    map[schemas.Ref]map[*watch]struct{}
	aside    map[*task]struct{} // whose orders lie aside and were not read yet
}

// New returns a cache that knows nothing before Start.
func New(l Log, cfg Config) *Cache {
	b := &Cache{
		log: l, cfg: cfg.withDefaults(),
		lists: map[place][]*task{}, changed: map[string]chan struct{}{}, tasks: map[schemas.Ref]*task{}, watch: map[schemas.Ref]map[*watch]struct{}{}, aside: map[*task]struct{}{},
		reported: map[place]*task{},
		read:     make([]uint64, cfg.Layout.Partitions), first: make([]uint64, cfg.Layout.Partitions),
	}
	b.Follower = mirror.New(mirror.Config{
		Component: "activetasks", Check: b.cfg.Check, Patience: patience, Logger: b.cfg.Logger, Look: b.look,
		Watch: func(lost func()) (func(), error) { return l.Live(feedSubject, b.hear, lost) },
	})
	return b
}

// Leasable are the tenant's tasks that a pool's agent could take, the oldest first: those that it may
// take, at most limit, whose deadline has not passed. The cache waits while may looks.
func (b *Cache) Leasable(tenant string, may func(Entry) bool, limit int) []Entry {
	now := time.Now()
	var all []Entry
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.lists[place{tenant: tenant, leasable: true}] {
		if len(all) >= limit {
			break
		}
		if t.over(now) {
			continue
		}
		if e := t.entry(); may(e) {
			all = append(all, e)
		}
	}
	return all
}

// Held is the oldest task of the tenant whose newest lease is in force and held by a token. One whose
// deadline has passed is not.
func (b *Cache) Held(tenant, holder string) (Entry, bool) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.lists[place{tenant: tenant, holder: holder}] {
		if !t.over(now) {
			return t.entry(), true
		}
	}
	return Entry{}, false
}

// Leases is how many tasks a token holds, and the last task whose end it reported, which may have been
// settled; without one that has no id.
func (b *Cache) Leases(tenant, holder string) (held int, last Entry) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.lists[place{tenant: tenant, holder: holder}] {
		if !t.over(now) {
			held++
		}
	}
	if t := b.reported[place{tenant: tenant, holder: holder}]; t != nil {
		last = t.entry()
	}
	return held, last
}

// Changed is closed when a task of the tenant may have become leasable since the call.
func (b *Cache) Changed(tenant string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed[tenant] == nil {
		b.changed[tenant] = make(chan struct{})
	}
	return b.changed[tenant]
}

// Over is closed when a task has ended or its lease is not the one named any more; lease 0 is the holder of the task's own token.
//
// It tells what the cache hears from now on, and what it knows. A task that ended
// before may be forgotten: call it first, and then read whether the task lives.
func (b *Cache) Over(ref schemas.Ref, lease int) (over <-chan struct{}, forget func()) {
	return b.await(ref, &watch{lease: lease, over: make(chan struct{})})
}

// Lost is Over for the holder of a token: it is also closed when another token replaces that one.
func (b *Cache) Lost(t folding.Token) (lost <-chan struct{}, forget func()) {
	return b.await(t.Ref(), &watch{lease: t.Lease, token: &t, over: make(chan struct{})})
}

func (b *Cache) await(ref schemas.Ref, w *watch) (over <-chan struct{}, forget func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tasks[ref]; t != nil && w.ends(t.state) {
		close(w.over)
		return w.over, func() {}
	}
	if b.watch[ref] == nil {
		b.watch[ref] = map[*watch]struct{}{}
	}
	b.watch[ref][w] = struct{}{}
	return w.over, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.unwatch(ref, w)
	}
}

func (b *Cache) unwatch(ref schemas.Ref, w *watch) {
	delete(b.watch[ref], w)
	if len(b.watch[ref]) == 0 {
		delete(b.watch, ref)
	}
}

// insert and remove keep a list in order.
func insert(list []*task, t *task) []*task {
	i, there := slices.BinarySearchFunc(list, t, (*task).compare)
	if there {
		return list
	}
	return slices.Insert(list, i, t)
}

func remove(list []*task, t *task) []*task {
	i, there := slices.BinarySearchFunc(list, t, (*task).compare)
	if !there {
		return list
	}
	return slices.Delete(list, i, i+1)
}

// compare orders tasks by when the log took them. The clocks of the nodes that
// accepted them do not count.
func (t *task) compare(o *task) int {
	return cmp.Or(t.stored.Compare(o.stored), cmp.Compare(t.first, o.first), cmp.Compare(t.Ref.ID, o.Ref.ID))
}
