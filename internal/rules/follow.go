package rules

import (
	"context"
	"strings"
	"sync"
	"time"

	"weir/schemas"
)

const (
	// page is how many records are read at once. It is small because one may hold
	// schemas.MaxRuleSet bytes.
	page = 64
	// patience bounds one look at the store.
	patience = 5 * time.Second
)

// Start copies the store and begins to follow it. It returns when the copy is
// whole; on an error nothing runs.
func (k *Keeper) Start(ctx context.Context) error {
	// Before the first read, so that nothing falls between.
	unwatch, err := k.store.Watch(func(r schemas.Record) { k.hear(ctx, r) }, k.hurry)
	if err != nil {
		return err
	}
	if err := k.catchUp(ctx); err != nil {
		unwatch()
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	k.stop = sync.OnceFunc(func() { unwatch(); end(); k.done.Wait() })
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
		err := k.catchUp(bounded)
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

// catchUp reads what was stored since the last time. Of each key only the newest is
// compiled. What was read before an error counts.
func (k *Keeper) catchUp(ctx context.Context) error {
	newest := map[string]schemas.Record{}
	after, err := k.readOn(ctx, newest)
	for _, r := range newest {
		k.hear(ctx, r)
	}
	k.read = after
	if err == nil {
		k.mu.Lock()
		k.whole = true
		k.mu.Unlock()
	}
	return err
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

// hear takes one record over as it comes from the store.
func (k *Keeper) hear(ctx context.Context, r schemas.Record) {
	tenant, err := schemas.UnescapeToken(r.Subject)
	if err != nil { // no tenant's
		k.cfg.Logger.WarnContext(ctx, "rule set of nobody", "component", "rules", "seq", r.Seq)
		return
	}
	k.learn(ctx, tenant, r)
}

// learn puts a record in force unless a newer one of its key is, and says what is
// in it. It never goes back: an answer may be older than what was heard meanwhile.
func (k *Keeper) learn(ctx context.Context, tenant string, r schemas.Record) *held {
	h, replaced := k.take(ctx, tenant, r)
	if replaced {
		k.cfg.Changed(tenant)
	}
	return h
}

func (k *Keeper) take(ctx context.Context, tenant string, r schemas.Record) (h *held, replaced bool) {
	k.learning.Lock()
	defer k.learning.Unlock()
	k.mu.RLock()
	old := k.held[tenant]
	k.mu.RUnlock()
	if old != nil && old.snapshot.Revision == r.Seq {
		return old, false
	}
	h = &held{stored: len(r.Data) > 0, replaced: make(chan struct{})}
	h.snapshot, h.err = open(tenant, r)
	h.snapshot.Revision = r.Seq
	if r.Seq == 0 || old != nil && old.snapshot.Revision > r.Seq {
		return h, false
	}
	if h.err != nil {
		_, kind, _ := strings.Cut(h.err.Error(), ": ")
		k.cfg.Logger.WarnContext(ctx, "rule set not readable", "component", "rules", "tenant", tenant, "seq", r.Seq, "err_kind", kind)
	}
	k.mu.Lock()
	k.held[tenant] = h
	k.mu.Unlock()
	if old != nil {
		close(old.replaced)
	}
	return h, true
}
