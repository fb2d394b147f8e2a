package rules

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"

	"weir/schemas"
)

// tenantEntry is a tenant's place in a Keeper. Its members are the Keeper's lock's.
type tenantEntry struct {
	// taking is held while one record is taken over, so that it is opened once. It
	// comes before the Keeper's lock.
	taking sync.Mutex

	held *loadedSet
	// expected are sets that this node is just writing, by their stored bytes: who
	// hears of one need not open it.
	expected map[digest]Snapshot
	heard    *schemas.Record // the newest that waits to be taken over
	ask      bool            // the order of received records is unknown: ask the leader
	busy     bool            // a goroutine takes over what was heard
}

type digest = [sha256.Size]byte

// loadedSet is what is known of a tenant's set. It is replaced, never changed.
type loadedSet struct {
	snapshot Snapshot
	digest   digest // of what is stored
	err      error  // why it cannot be read
	stored   bool   // the key has a value
	replaced chan struct{}
}

// set is what is held; nil: nothing was ever heard.
func (s *tenantEntry) set() *loadedSet {
	if s == nil {
		return nil
	}
	return s.held
}

// entry needs the lock for writing.
func (k *Keeper) entry(tenant string) *tenantEntry {
	s := k.entries[tenant]
	if s == nil {
		s = &tenantEntry{expected: map[digest]Snapshot{}}
		k.entries[tenant] = s
	}
	return s
}

func (k *Keeper) holds(tenant string) *loadedSet {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.entries[tenant].set()
}

// known are the tenants that have a set.
func (k *Keeper) known() (tenants []string) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for tenant, s := range k.entries {
		if s.held != nil && s.held.stored {
			tenants = append(tenants, tenant)
		}
	}
	return tenants
}

// expect says what is in a value that is about to be stored, until forget is called.
func (k *Keeper) expect(tenant string, value []byte, opened Snapshot) (forget func()) {
	d := sha256.Sum256(value)
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.entry(tenant)
	s.expected[d] = opened
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(s.expected, d)
	}
}

// adopt is learn for what was heard. Where that is older than what is held it came
// late, or the store is no longer the one that was followed: the leader is asked. Ask
// says that it has to be in any case.
func (k *Keeper) adopt(ctx context.Context, tenant string, r schemas.Record, ask bool) {
	if _, older := k.learn(ctx, tenant, r, nil); !older && !ask {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := k.Newest(ctx, tenant); err != nil && !errors.Is(err, ErrUnreadable) {
		k.anew.Store(true) // the next look at the store asks again
	}
}

// learn puts a record in force unless the held one is as new, and returns the result. older reports
// that it was not put in force. was is the set held before the leader was asked; with it, the
// record comes from the leader and counts even if it is older, unless another record arrived
// meanwhile.
func (k *Keeper) learn(ctx context.Context, tenant string, r schemas.Record, was *loadedSet) (h *loadedSet, older bool) {
	h, replaced, older := k.take(ctx, tenant, r, was)
	if replaced {
		k.cfg.Changed(tenant)
	}
	return h, older
}

func (k *Keeper) take(ctx context.Context, tenant string, r schemas.Record, was *loadedSet) (h *loadedSet, replaced, older bool) {
	k.mu.Lock()
	s := k.entry(tenant)
	k.mu.Unlock()
	s.taking.Lock()
	defer s.taking.Unlock()
	h = &loadedSet{digest: sha256.Sum256(r.Data), stored: len(r.Data) > 0, replaced: make(chan struct{})}
	k.mu.RLock()
	old := s.held
	opened, expected := s.expected[h.digest]
	k.mu.RUnlock()
	if old != nil && old.snapshot.Revision == r.Seq && old.digest == h.digest {
		return old, false, false
	}
	if expected {
		h.snapshot = opened.at(r.Seq)
	} else {
		h.snapshot, h.err = k.open(tenant, r)
		h.snapshot.Revision = r.Seq
	}
	back := old != nil && r.Seq <= old.snapshot.Revision
	switch {
	case back && old != was:
		return h, false, true
	case old == nil && r.Seq == 0: // to have been asked for makes no set
		return h, false, false
	}
	k.replace(ctx, tenant, s, h, back)
	return h, true, false
}

// replace puts h in force.
func (k *Keeper) replace(ctx context.Context, tenant string, s *tenantEntry, h *loadedSet, back bool) {
	if h.err != nil {
		_, kind, _ := strings.Cut(h.err.Error(), ": ")
		k.cfg.Logger.WarnContext(ctx, "rule set not readable", "component", "rules", "tenant", tenant, "seq", h.snapshot.Revision, "err_kind", kind)
	}
	if old := k.holds(tenant); old != nil && old.stored && !h.stored { // Weir deletes none
		k.cfg.Logger.WarnContext(ctx, "rule set deleted", "component", "rules", "tenant", tenant, "seq", h.snapshot.Revision)
	}
	if back {
		k.cfg.Logger.WarnContext(ctx, "rule set older than before", "component", "rules", "tenant", tenant, "seq", h.snapshot.Revision)
	}
	k.mu.Lock()
	old := s.held
	s.held = h
	k.mu.Unlock()
	if old != nil {
		close(old.replaced)
	}
	if back { // and so may those of other tenants be
		k.anew.Store(true)
		k.follower.Notify()
	}
}
