package rules

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/schemas"
)

// patience bounds one look at the store.
const patience = 5 * time.Second

// loadedSet is a tenant's set as last read. It is compiled when it is first asked for.
type loadedSet struct {
	revision uint64
	digest   [sha256.Size]byte // of the stored bytes
	stored   bool              // the key has a value
	replaced chan struct{}
	snapshot func() (Snapshot, error)
	opened   atomic.Pointer[Snapshot] // the snapshot, if this node has written it
}

// load takes over a record. A set that cannot be read is logged once: as soon as it is known, or, for a rule that
// does not compile, when it is first asked for.
func (k *Keeper) load(tenant string, r schemas.Record, opened *Snapshot) *loadedSet {
	h := &loadedSet{revision: r.Seq, digest: sha256.Sum256(r.Data), stored: len(r.Data) > 0, replaced: make(chan struct{})}
	h.opened.Store(opened)
	h.snapshot = sync.OnceValues(func() (Snapshot, error) {
		if s := h.opened.Load(); s != nil {
			return *s, nil
		}
		s, err := k.open(tenant, r)
		if err != nil {
			_, kind, _ := strings.Cut(err.Error(), ": ")
			k.cfg.Logger.Warn("rule_set_unreadable", "component", "rules", "tenant", tenant, "seq", r.Seq, "err_kind", kind)
		}
		s.Revision = r.Seq
		return s, err
	})
	return h
}

func (k *Keeper) holds(tenant string) *loadedSet {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.sets[tenant]
}

// learn puts a record in force unless the held one is as new, and returns the result. older reports
// that it was not put in force. was is the set held before the leader was asked; with it, the
// record comes from the leader and counts even if it is older, unless another record arrived
// meanwhile. opened is the record's snapshot; nil: it is not compiled yet.
func (k *Keeper) learn(tenant string, r schemas.Record, was *loadedSet, opened *Snapshot) (h *loadedSet, older bool) {
	h = k.load(tenant, r, opened)
	k.mu.Lock()
	old := k.sets[tenant]
	back := old != nil && h.revision <= old.revision
	same := old != nil && h.revision == old.revision && h.digest == old.digest
	older = !same && back && old != was
	if same || older || old == nil && h.revision == 0 { // to have been asked for makes no set
		k.mu.Unlock()
		if same {
			if h = old; opened != nil {
				h.opened.Store(opened)
			}
		}
		return h, older
	}
	k.sets[tenant] = h
	k.mu.Unlock()
	if old != nil {
		if old.stored && !h.stored { // Weir deletes none
			k.cfg.Logger.Warn("rule_set_deleted", "component", "rules", "tenant", tenant, "seq", r.Seq)
		}
		close(old.replaced)
	}
	if _, err := decode(tenant, r.Data); err != nil && h.stored && opened == nil {
		_, _ = h.snapshot() // it logs why
	}
	if back { // and so may those of other tenants be
		k.cfg.Logger.Warn("rule_set_rolled_back", "component", "rules", "tenant", tenant, "seq", r.Seq)
		k.anew.Store(true)
		k.Notify()
	}
	return h, false
}

// look applies the newest record of each key that was stored since the last time, and asks the
// leader about records that came late. Records read before an error count.
func (k *Keeper) look(ctx context.Context) (err error) {
	newest := map[string]schemas.Record{}
	if k.anew.Swap(false) {
		k.read = 0
		k.mu.RLock()
		for tenant, h := range k.sets { // a set that is not found again may be gone
			if key := schemas.EscapeToken(tenant); h.stored {
				newest[key] = schemas.Record{Subject: key}
			}
		}
		k.mu.RUnlock()
	}
	k.read, err = k.store.Read(ctx, k.read, func(r schemas.Record) { newest[r.Subject] = r })
	for _, r := range newest {
		k.hear(r)
	}
	k.mu.Lock()
	k.whole = k.whole || err == nil
	doubted := slices.Collect(maps.Keys(k.doubted))
	clear(k.doubted)
	k.mu.Unlock()
	for _, tenant := range doubted {
		if _, err := k.Newest(ctx, tenant); err != nil && !errors.Is(err, ErrUnreadable) {
			k.doubt(tenant) // the next look at the store asks again
		}
	}
	return err
}

// hear takes over one record as it comes from the store. If it is older than the held one, it came
// late, or the store is no longer the one that was followed: the leader must be asked.
func (k *Keeper) hear(r schemas.Record) {
	tenant, err := schemas.UnescapeToken(r.Subject)
	if err != nil {
		k.cfg.Logger.Warn("rule_set_without_tenant", "component", "rules", "seq", r.Seq)
		return
	}
	if _, older := k.learn(tenant, r, nil, nil); older {
		k.doubt(tenant)
		k.Notify()
	}
}

func (k *Keeper) doubt(tenant string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doubted[tenant] = true
}
