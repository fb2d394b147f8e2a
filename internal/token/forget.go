package token

import (
	"context"
	"time"

	"weir/schemas"
)

// keep is how long a token is still shown after its end. It is the same on all nodes; each node
// forgets by its own clock without coordination.
const keep = 30 * 24 * time.Hour

// tidyEvery is how often what need not be kept any more is dropped.
const tidyEvery = time.Hour

// done reports whether a token can be dropped: its keep time has passed, or it was a session and
// has ended.
func (h *held) done(now time.Time) bool {
	return past(h.token, now) || h.session && statusAt(h.token, now) != active
}

// past reports whether a token ended so long ago that it counts as unknown.
// It does not come back: neither an expiry nor a revocation is ever undone.
func past(t schemas.Token, now time.Time) bool {
	end := t.ExpiresAt
	if end.IsZero() || (!t.RevokedAt.IsZero() && t.RevokedAt.Before(end)) {
		end = t.RevokedAt
	}
	return !end.IsZero() && now.Sub(end) >= keep
}

// shown reports whether a token can be seen at all.
func (h *held) shown(now time.Time) bool { return !h.gone && !h.session && !past(h.token, now) }

// tidy drops what is past, now and then, and stores when tokens were last used.
func (k *Keeper) tidy(ctx context.Context) {
	tick := time.NewTicker(usedEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		if n%int(tidyEvery/usedEvery) == 0 {
			if err := k.forget(ctx); err != nil && ctx.Err() == nil {
				k.cfg.Logger.WarnContext(ctx, "token_cleanup_failed", "component", "token")
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !k.cfg.Reads {
			k.storeUses(ctx)
		}
	}
}

// forget drops what is past from the store, where this node may, and then from memory. What cannot
// be dropped is tried again the next time; it is not shown meanwhile. Records that cannot be read
// stay: another version may know what they are.
func (k *Keeper) forget(ctx context.Context) error {
	now := time.Now()
	old := map[string]*held{}
	k.mu.RLock()
	for id, h := range k.held {
		if !h.gone && h.done(now) {
			old[id] = h
		}
	}
	k.mu.RUnlock()
	for id, h := range old {
		if err := k.drop(ctx, id, h); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) drop(ctx context.Context, id string, h *held) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if !k.cfg.Reads {
		if err := k.store.Forget(ctx, id, h.revision); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held[id] == h {
		delete(k.held, id)
	}
	return nil
}
