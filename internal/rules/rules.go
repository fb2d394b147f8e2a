// Package rules keeps the rule sets of all tenants. It follows their store, compiles a set when
// it is first asked for, and writes a new one only if it replaces the one that the writer had read.
package rules

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/fault"
	"weir/internal/mirror"
	"weir/internal/traffic"
	"weir/schemas"
)

// Store is where the sets are kept.
type Store interface {
	mirror.Store
	// Get is the key's newest write, as the store's leader has it;
	// fault.ErrNotFound: there is none.
	Get(ctx context.Context, key string) (schemas.Record, error)
	// Next is the first write of the key behind a write that is still kept;
	// fault.ErrNotFound: there is none.
	Next(ctx context.Context, key string, after uint64) (schemas.Record, error)
	// Barrier returns once what was put would survive.
	Barrier(ctx context.Context) error
}

// Config of a Keeper. All have defaults.
type Config struct {
	// Check is how often the store is asked whether the copy is whole, beside
	// being followed; default 500 ms.
	Check  time.Duration
	Logger *slog.Logger // default: none
}

func (c Config) withDefaults() Config {
	c.Check = cmp.Or(c.Check, 500*time.Millisecond)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Snapshot is a tenant's set at one time.
type Snapshot struct {
	// Doc is never changed; a tenant without a stored set has an empty one in which
	// GlobalActive holds.
	Doc schemas.RuleSet
	// Revision is 0 for a set that was never written.
	Revision uint64
	Etag     string
	Set      *traffic.Set
}

// Keeper knows every tenant's rule set. It is safe for concurrent use. Start copies the store and
// begins to follow it.
type Keeper struct {
	*mirror.Follower

	store Store
	cfg   Config
	open  func(tenant string, r schemas.Record) (Snapshot, error)

	mu      sync.RWMutex
	sets    map[string]*loadedSet // by tenant
	doubted map[string]bool       // tenants of which a record came late: the leader must be asked
	whole   bool                  // the store was read to its end at least once

	read uint64      // everything up to here was read from the store; only of look
	anew atomic.Bool // the store is no longer the one that was read
}

// New returns a Keeper over a store. Before Start nothing is in force: InForce
// gives an error.
func New(s Store, cfg Config) *Keeper {
	k := &Keeper{store: s, cfg: cfg.withDefaults(), open: open, sets: map[string]*loadedSet{}, doubted: map[string]bool{}}
	k.Follower = mirror.New(mirror.Config{
		Component: "rules", Check: k.cfg.Check, Patience: patience, Logger: k.cfg.Logger, Store: s, Learn: k.hear, Look: k.look,
	})
	return k
}

// errUnread: it is not known yet whether a tenant has rules.
var errUnread = errors.New("the rule sets were not read yet")

// InForce is the set that calls of a tenant go by now, nil for a tenant without
// one, and a channel that is closed when another comes into force; nil without a
// set. An error says that the stored set cannot be read: calls must not go out as if
// there were none. It asks memory alone, and compiles a set that was not asked for yet.
func (k *Keeper) InForce(tenant string) (set *traffic.Set, replaced <-chan struct{}, err error) {
	k.mu.RLock()
	h, whole := k.sets[tenant], k.whole
	k.mu.RUnlock()
	switch {
	case !whole:
		return nil, nil, errUnread
	case h == nil || !h.stored:
		return nil, nil, nil
	}
	s, err := h.snapshot()
	if err != nil {
		return nil, nil, err
	}
	return s.Set, h.replaced, nil
}

// Newest is the tenant's set as the store's leader has it. It is in force on this node when Newest
// returns, unless a newer one is. That holds also if it is older than the previous one, as in a
// store restored from a backup. ErrUnreadable means that the stored set must not be overwritten.
func (k *Keeper) Newest(ctx context.Context, tenant string) (Snapshot, error) {
	key, was := schemas.EscapeToken(tenant), k.holds(tenant)
	r, err := k.store.Get(ctx, key)
	if errors.Is(err, fault.ErrNotFound) {
		r, err = schemas.Record{Subject: key}, nil
	}
	if err != nil {
		return Snapshot{}, err
	}
	h, _ := k.learn(tenant, r, was, nil)
	return h.snapshot()
}

// After is the first set that was written behind a revision and is still kept;
// fault.ErrNotFound: there is none.
func (k *Keeper) After(ctx context.Context, tenant string, revision uint64) (Snapshot, error) {
	for {
		r, err := k.store.Next(ctx, schemas.EscapeToken(tenant), revision)
		if err != nil {
			return Snapshot{}, err
		}
		if len(r.Data) > 0 { // otherwise the set was deleted: no rules
			h, _ := k.learn(tenant, r, nil, nil)
			return h.snapshot()
		}
		revision = r.Seq
	}
}

// Put writes doc in the place of the set with a revision, and fills in V, Tenant and
// Previous, and At where it is zero. fault.ErrFenced: another was written meanwhile;
// fault.ErrTooLarge: it is over schemas.MaxRuleSet, or no message can hold it;
// ErrUnreadable: it would not compile. Nothing was written then. After any other
// error it may have been. When it returns without an error the set would survive
// what the durability promises, and is in force on this node.
func (k *Keeper) Put(ctx context.Context, tenant string, doc schemas.RuleSet, revision uint64) (Snapshot, error) {
	doc.V, doc.Tenant, doc.Previous = schemas.RuleSetVersion, tenant, revision
	if doc.At.IsZero() {
		doc.At = time.Now().UTC()
	}
	value, err := encode(doc)
	if err != nil {
		return Snapshot{}, err
	}
	if len(value) > schemas.MaxRuleSet {
		return Snapshot{}, fault.ErrTooLarge
	}
	r := schemas.Record{Subject: schemas.EscapeToken(tenant), Data: value}
	opened, err := k.open(tenant, r)
	if err != nil {
		return Snapshot{}, err // an unreadable set stops every call of the tenant
	}
	was := k.holds(tenant)
	if r.Seq, err = k.store.Put(ctx, r.Subject, value, revision); err != nil {
		return Snapshot{}, err
	}
	opened = opened.at(r.Seq)
	h, _ := k.learn(tenant, r, was, &opened)
	if err := k.store.Barrier(ctx); err != nil {
		return Snapshot{}, err
	}
	return h.snapshot()
}

// Reset puts an empty set, in which GlobalActive holds, in the place of a tenant's
// newest where that cannot be read, whatever it was. fault.ErrFenced: it can be
// read, or another was written meanwhile; nothing was written then. Otherwise it is
// as Put.
func (k *Keeper) Reset(ctx context.Context, tenant, by string) (Snapshot, error) {
	damaged, err := k.Newest(ctx, tenant)
	switch {
	case err == nil:
		return Snapshot{}, fault.ErrFenced
	case !errors.Is(err, ErrUnreadable):
		return Snapshot{}, err
	}
	return k.Put(ctx, tenant, schemas.RuleSet{GlobalActive: true, By: by}, damaged.Revision)
}
