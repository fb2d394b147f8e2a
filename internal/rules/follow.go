package rules

import (
	"bytes"
	"context"
	"time"

	"weir/internal/mirror"
	"weir/schemas"
)

const (
	// page is how many records are read at once. It is small because one may hold
	// schemas.MaxRuleSet bytes, and many are read: all that are kept of each tenant.
	page = 8
	// patience bounds one look at the store.
	patience = 5 * time.Second
)

// Start copies the store and begins to follow it. It returns when the copy is
// whole; on an error nothing runs.
func (k *Keeper) Start(ctx context.Context) error {
	err := k.follower.Start(ctx, func(lost func()) (func(), error) { return k.store.Watch(k.hear, lost) })
	if err != nil {
		k.Stop()
	}
	return err
}

// Stop ends what Start began. It may be called twice, and without Start.
func (k *Keeper) Stop() {
	k.follower.Stop()
	k.mu.Lock() // so that what is still heard has begun its goroutine, or begins none
	k.end()
	k.mu.Unlock()
	k.done.Wait()
}

// catchUp reads the records stored since the last time and applies the newest of each key: before
// it returns the first time, and in goroutines later. Records read before an error count.
func (k *Keeper) catchUp(ctx context.Context) (err error) {
	newest := map[string]schemas.Record{}
	if k.anew.Swap(false) {
		k.read = 0
		for _, tenant := range k.known() { // sets that were not found are read again: they may be gone
			key := schemas.EscapeToken(tenant)
			newest[key] = schemas.Record{Subject: key}
		}
	}
	k.read, err = mirror.Read(ctx, k.store, k.read, page, func(r schemas.Record) { newest[r.Subject] = r })
	k.mu.RLock()
	whole := k.whole
	k.mu.RUnlock()
	for _, r := range newest {
		if whole {
			k.hear(r)
		} else if tenant, ok := k.owner(r); ok {
			k.adopt(ctx, tenant, r, false)
		}
	}
	k.mu.Lock()
	k.whole = whole || err == nil
	k.mu.Unlock()
	return err
}

// hear has one record taken over as it comes from the store, on a goroutine of its
// tenant's: a large set of one delays no other's. Of what is heard meanwhile only
// the newest is taken over.
func (k *Keeper) hear(r schemas.Record) {
	tenant, ok := k.owner(r)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.entry(tenant)
	switch {
	case s.heard == nil || s.heard.Seq < r.Seq:
		s.heard = &r
	case s.heard.Seq > r.Seq || !bytes.Equal(s.heard.Data, r.Data):
		s.ask = true
	}
	if !s.busy && k.life.Err() == nil {
		s.busy = true
		k.done.Go(func() { k.attend(tenant, s) })
	}
}

// attend takes over what is heard of a tenant until nothing is left.
func (k *Keeper) attend(tenant string, s *tenantEntry) {
	for {
		k.mu.Lock()
		r, ask := s.heard, s.ask
		s.heard, s.ask = nil, false
		s.busy = r != nil && k.life.Err() == nil
		k.mu.Unlock()
		if r == nil || k.life.Err() != nil {
			return
		}
		k.adopt(k.life, tenant, *r, ask)
	}
}

// owner is the tenant that a record is of.
func (k *Keeper) owner(r schemas.Record) (tenant string, ok bool) {
	tenant, err := schemas.UnescapeToken(r.Subject)
	if err != nil {
		k.cfg.Logger.Warn("rule set without a tenant", "component", "rules", "seq", r.Seq)
	}
	return tenant, err == nil
}
