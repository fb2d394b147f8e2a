package rules

import (
	"bytes"
	"context"
	"sync"
	"time"

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
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	// Before the first read, so that nothing falls between.
	unwatch, err := k.store.Watch(func(r schemas.Record) { k.hear(life, r) }, k.hurry)
	if err != nil {
		end()
		return err
	}
	stop := sync.OnceFunc(func() {
		unwatch()
		k.mu.Lock() // so that whoever still hears something has begun its goroutine, or begins none
		end()
		k.mu.Unlock()
		k.done.Wait()
	})
	if err := k.catchUp(ctx, func(r schemas.Record) { k.copy(ctx, r) }); err != nil {
		stop()
		return err
	}
	k.stop = stop
	k.done.Go(func() { k.follow(life) })
	return nil
}

// Stop ends what Start began. It may be called twice, and without Start.
func (k *Keeper) Stop() { k.stop() }

// hurry has the store asked now.
func (k *Keeper) hurry() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// follow asks the store again and again for what the watch has missed.
func (k *Keeper) follow(ctx context.Context) {
	tick := time.NewTicker(k.cfg.Check)
	defer tick.Stop()
	out := false
	for {
		select {
		case <-tick.C:
		case <-k.kick:
		case <-ctx.Done():
			return
		}
		bounded, cancel := context.WithTimeout(ctx, patience)
		err := k.catchUp(bounded, func(r schemas.Record) { k.hear(ctx, r) })
		cancel()
		if ctx.Err() != nil {
			return
		}
		if failed := err != nil; failed != out {
			out = failed
			k.tell(ctx, failed)
		}
	}
}

func (k *Keeper) tell(ctx context.Context, failed bool) {
	if failed {
		k.cfg.Logger.WarnContext(ctx, "rules out of reach", "component", "rules")
		return
	}
	k.cfg.Logger.InfoContext(ctx, "rules in reach", "component", "rules")
}

// catchUp reads what was stored since the last time, and has the newest of each key
// taken over. What was read before an error counts.
func (k *Keeper) catchUp(ctx context.Context, take func(schemas.Record)) error {
	newest := map[string]schemas.Record{}
	if k.anew.Swap(false) {
		k.read = 0
		for _, tenant := range k.known() { // what is not found is asked for: it may be gone
			key := schemas.EscapeToken(tenant)
			newest[key] = schemas.Record{Subject: key}
		}
	}
	after, err := k.readOn(ctx, newest)
	for _, r := range newest {
		take(r)
	}
	k.read = after
	if err == nil {
		k.mu.Lock()
		k.whole = true
		k.mu.Unlock()
	}
	return err
}

// copy takes one record over before it returns.
func (k *Keeper) copy(ctx context.Context, r schemas.Record) {
	if tenant, ok := k.owner(ctx, r); ok {
		k.adopt(ctx, tenant, r, false)
	}
}

// readOn collects the newest record of each key, to the store's end.
func (k *Keeper) readOn(ctx context.Context, newest map[string]schemas.Record) (after uint64, err error) {
	after = k.read
	for {
		records, err := k.store.Read(ctx, after, page)
		if err != nil {
			return after, err
		}
		for _, r := range records {
			newest[r.Subject], after = r, r.Seq
		}
		if len(records) < page {
			return after, nil
		}
	}
}

// hear has one record taken over as it comes from the store, on a goroutine of its
// tenant's: a large set of one delays no other's. Of what is heard meanwhile only
// the newest is taken over.
func (k *Keeper) hear(ctx context.Context, r schemas.Record) {
	tenant, ok := k.owner(ctx, r)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.seat(tenant)
	switch {
	case s.heard == nil || s.heard.Seq < r.Seq:
		s.heard = &r
	case s.heard.Seq > r.Seq || !bytes.Equal(s.heard.Data, r.Data):
		s.ask = true
	}
	if !s.busy && ctx.Err() == nil {
		s.busy = true
		k.done.Go(func() { k.attend(ctx, tenant, s) })
	}
}

// attend takes over what is heard of a tenant until nothing is left.
func (k *Keeper) attend(ctx context.Context, tenant string, s *seat) {
	for {
		k.mu.Lock()
		r, ask := s.heard, s.ask
		s.heard, s.ask = nil, false
		s.busy = r != nil && ctx.Err() == nil
		k.mu.Unlock()
		if r == nil || ctx.Err() != nil {
			return
		}
		k.adopt(ctx, tenant, *r, ask)
	}
}

// owner is the tenant that a record is of.
func (k *Keeper) owner(ctx context.Context, r schemas.Record) (tenant string, ok bool) {
	tenant, err := schemas.UnescapeToken(r.Subject)
	if err != nil {
		k.cfg.Logger.WarnContext(ctx, "rule set of nobody", "component", "rules", "seq", r.Seq)
	}
	return tenant, err == nil
}
