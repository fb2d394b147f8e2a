// Package destination decides which calls may be made now, beyond what policy says: by the rates
// and concurrencies of policy entries, by what destinations have asked for, by their failures,
// and by operators' pauses and pins. All workers of a log share what each of them knows.
package destination

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/limits"
	"weir/internal/mirror"
	"weir/schemas"
)

// Store holds one value a key and numbers the writes to all of them; see broker.Bucket.
type Store interface {
	limits.Bucket
	mirror.Store
}

// Metrics counts what a Limiter does. Entries are names of the policy's.
type Metrics interface {
	// DestinationsLeft says how many destinations of an entry are not called now.
	DestinationsLeft(entry string, asked, open int)
	// CallHeld counts a call that was not let through at once, by what it waits for.
	CallHeld(why string)
	// OperationsInForce says how many operations of each sort are in force.
	OperationsInForce(pauses, pins int)
}

// Config of a Limiter. All but Metrics have defaults.
type Config struct {
	// Worker names this process. Processes that share a store have different names.
	Worker string
	// Notify wakes a deferred action at once; nil: deferred actions wake when they are due.
	Notify func(ctx context.Context, ref schemas.Ref) error
	// Barrier returns when a stored operation survives a crash; nil: it does when it is stored.
	Barrier func(context.Context) error
	// Failures in a row, over all workers, open the breaker of a destination; default 100. A
	// worker shares its own count after an eighth of them, so a few more may happen.
	Failures int
	Logger   *slog.Logger // default: none
	Metrics  Metrics
}

const (
	quotaPrefix    = "of."
	endpointPrefix = "at."
	// patience bounds one look at a store.
	patience = 5 * time.Second
	// check is how often the stores are read beside being watched.
	check = 500 * time.Millisecond
	// storeWithin bounds one write: a call waits for it.
	storeWithin = 2 * time.Second
	// leaseTime is how long the slots of a dead worker stay taken. A living worker renews its own
	// three times in it.
	leaseTime = 10 * time.Second
)

// Limiter is what one process knows of the destinations of all calls. It is safe for concurrent
// use. Workers that share a store rely on each other's clocks: one that is off by a second ends a
// pause by that much too early or too late.
type Limiter struct {
	cfg        Config
	operations Store
	shared     Store // nil: no other process works on this log

	usages limits.Accounts[usage]
	states limits.Accounts[health]
	orders limits.Accounts[holds]
	holds  *limits.Account[holds]
	paused *waiters // calls that operators hold back

	mu        sync.Mutex
	endpoints map[endpointID]*endpoint
	forgot    time.Time         // when endpoints were forgotten last
	quotas    map[string]*quota // by entry

	followers []*mirror.Follower
	running   sync.Mutex
	life      context.Context //nolint:containedctx // from Start to Stop
	end       context.CancelFunc
	done      sync.WaitGroup
}

// New returns a Limiter. operations is where operators' decisions are kept. shared is what
// workers share; nil for a single worker, which keeps all of it in memory until it ends.
func New(operations, shared Store, cfg Config) *Limiter {
	cfg.Failures, cfg.Logger = cmp.Or(cfg.Failures, 100), cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	l := &Limiter{
		cfg: cfg, operations: operations, shared: shared,
		endpoints: map[endpointID]*endpoint{}, quotas: map[string]*quota{}, end: func() {},
	}
	l.usages = limits.Accounts[usage]{
		Readable: func(key string, u usage) bool { return u.V == usageVersion && quotaKey(u.Entry) == key },
		Clone:    cloneUsage, Followed: true, Within: storeWithin,
	}
	l.states = limits.Accounts[health]{
		Readable: func(key string, h health) bool {
			return h.V == healthVersion && endpointKey(h.Entry, h.Destination) == key
		},
		// The map of a health is replaced and never changed.
		Clone: func(h health) health { return h }, Followed: true, Local: true, Within: storeWithin,
	}
	if shared != nil {
		l.usages.Bucket, l.states.Bucket = shared, shared
	}
	l.orders = limits.Accounts[holds]{
		Bucket: operations, Readable: func(_ string, h holds) bool { return h.V == holdsVersion }, Unreadable: ErrUnreadable,
		Clone: func(h holds) holds { return holds{h.V, slices.Clone(h.Operations)} }, Within: patience,
	}
	l.paused = l.newWaiters()
	l.holds = l.orders.Open(holdsKey, holds{V: holdsVersion}, func(_, is *holds) { l.held(is) })
	return l
}

// Start copies the stores and begins to follow them. It returns when the copies are whole; on an
// error nothing runs.
func (l *Limiter) Start(ctx context.Context) error {
	l.running.Lock()
	l.life, l.end = context.WithCancel(context.WithoutCancel(ctx))
	l.running.Unlock()
	err := l.follow(ctx, l.operations)
	if err == nil && l.shared != nil {
		err = l.follow(ctx, l.shared)
	}
	if err != nil {
		l.Stop()
		return err
	}
	l.background(l.keep)
	return nil
}

func (l *Limiter) follow(ctx context.Context, s Store) error {
	f := mirror.New(mirror.Config{Component: "destination", Check: check, Patience: patience, Logger: l.cfg.Logger, Store: s, Learn: l.learn})
	l.followers = append(l.followers, f)
	return f.Start(ctx)
}

// Stop ends what Start began. It may be called twice, and without Start.
func (l *Limiter) Stop() {
	for _, f := range l.followers {
		f.Stop()
	}
	l.running.Lock() // so that background begins nothing after this
	l.end()
	l.running.Unlock()
	l.done.Wait()
}

// background runs f between Start and Stop; at other times it does nothing.
func (l *Limiter) background(f func(ctx context.Context)) {
	l.running.Lock()
	defer l.running.Unlock()
	if l.life != nil && l.life.Err() == nil {
		l.done.Go(func() { f(l.life) })
	}
}

// learn takes over a value that this process or another has stored. A value that cannot be read
// changes nothing.
func (l *Limiter) learn(r schemas.Record) {
	switch {
	case r.Subject == holdsKey:
		h, ok := l.orders.Decode(r)
		if !ok && len(r.Data) > 0 {
			l.cfg.Logger.Warn("operations_unreadable", "component", "destination", "err_kind", "damaged")
			return
		}
		l.holds.Learn(h, r.Seq)
	case strings.HasPrefix(r.Subject, quotaPrefix):
		if u, ok := l.usages.Decode(r); ok {
			if q := l.quota(u.Entry); q.account.Learn(u, r.Seq) {
				q.wake()
			}
		}
	default:
		if h, ok := l.states.Decode(r); ok {
			l.endpoint(h.Entry, h.Destination).account.Learn(h, r.Seq)
		}
	}
}

// keep renews the leases, gives back slots that are not used, and counts.
func (l *Limiter) keep(ctx context.Context) {
	tick := time.NewTicker(leaseTime / 3)
	defer tick.Stop()
	for over := false; !over; { // the last round is after the end
		select {
		case <-tick.C:
			l.count()
		case <-ctx.Done():
			over = true
		}
		if l.shared != nil {
			for _, q := range values(l, l.quotas) {
				q.renew(context.WithoutCancel(ctx))
			}
		}
	}
}

// values copies the values of a map of the Limiter's.
func values[K comparable, V any](l *Limiter, of map[K]V) []V {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(of))
}

// count reports how many destinations of each entry are not called.
func (l *Limiter) count() {
	asked, open := map[string]int{}, map[string]int{}
	for _, e := range values(l, l.endpoints) {
		v, left := e.account.Value().view(time.Now())
		open[v.Entry] += 0
		switch {
		case left && v.State == schemas.DestinationAsked:
			asked[v.Entry]++
		case left:
			open[v.Entry]++
		}
	}
	for entry := range open {
		l.cfg.Metrics.DestinationsLeft(entry, asked[entry], open[entry])
	}
}
