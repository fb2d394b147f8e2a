package token

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"weir/internal/fault"
	"weir/internal/limits"
	"weir/schemas"
)

// use is what a token is used for on this node.
type use struct {
	limiter *rate.Limiter
	last    atomic.Int64 // when it was last used, in nanoseconds

	mu   sync.Mutex
	ends map[*context.CancelFunc]struct{} // of the streams, and of what else follows the token
}

func newUse(l *rate.Limiter) *use { return &use{limiter: l, ends: map[*context.CancelFunc]struct{}{}} }

// rate is the token's own rate, or the default.
func (k *Keeper) rate(t schemas.Token) *rate.Limiter {
	if _, _, ok := schemas.ParseRate(t.Rate); ok {
		return limits.NewRate(t.Rate)
	}
	return limits.NewRate(k.cfg.Rate)
}

// reserve counts one request, or says how long to wait for the next.
func (u *use) reserve(now time.Time) time.Duration {
	if at := now.UnixNano(); at-u.last.Load() >= int64(time.Second) {
		u.last.Store(at)
	}
	return limits.Reserve(u.limiter, now)
}

// usedEvery is by how much the stored time of a token's last use may be late.
const usedEvery = 5 * time.Minute

// lastUsed is when a token was last used, as far as this node knows.
func (h *held) lastUsed() time.Time {
	at := time.Unix(0, h.use.last.Load()).UTC().Truncate(time.Second)
	if at.Before(h.token.LastUsedAt) || at.Unix() == 0 {
		return h.token.LastUsedAt
	}
	return at
}

// storeUses stores when tokens were last used, where the stored time is late. What cannot be stored, or was
// changed meanwhile, is stored the next time.
func (k *Keeper) storeUses(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now, news := time.Now(), []*held{}
	k.mu.RLock()
	for _, h := range k.held {
		if at := h.lastUsed(); h.valid(false, now) && at.Sub(h.token.LastUsedAt) >= usedEvery {
			next := &held{token: h.token, hash: h.hash, revision: h.revision}
			next.token.LastUsedAt = at
			news = append(news, next)
		}
	}
	k.mu.RUnlock()
	for _, h := range news {
		data, err := encode(h)
		if err == nil {
			h.revision, err = k.store.Put(ctx, h.token.ID, data, h.revision)
		}
		if err == nil {
			k.keep(h.token.ID, h)
		}
	}
}

// Stream lets the sender of a credential hold one more event stream open, until it calls release.
// The context that comes back ends sooner than ctx when the token, or the session, expires or is
// revoked. The request itself was counted by Verify. Errors: UNAUTHORIZED, UNAVAILABLE;
// RATE_LIMITED for one stream too many.
func (k *Keeper) Stream(ctx context.Context, c Credential) (_ context.Context, release func(), err error) {
	return k.hold(ctx, true, c)
}

// While is Stream, and counts nothing.
func (k *Keeper) While(ctx context.Context, c Credential) (_ context.Context, release func(), err error) {
	return k.hold(ctx, false, c)
}

// hold returns a context that ends with a credential. With counted it is a stream of its token, and
// of its session.
func (k *Keeper) hold(ctx context.Context, counted bool, c Credential) (_ context.Context, release func(), err error) {
	token, session, err := k.find(c)
	if err != nil {
		return ctx, nil, err
	}
	ctx, end := context.WithCancel(ctx)
	undo := []func(){end}
	release = sync.OnceFunc(func() {
		for _, f := range undo {
			f()
		}
	})
	for _, h := range []*held{token, session} {
		if h == nil {
			continue
		}
		if !h.token.ExpiresAt.IsZero() {
			timer := time.AfterFunc(time.Until(h.token.ExpiresAt), end)
			undo = append(undo, func() { timer.Stop() })
		}
		if counted {
			leave, ok := k.streams.TryAcquire(h.token.ID)
			if !ok {
				release()
				return ctx, nil, fault.New(schemas.RateLimited, "this token holds as many event streams open as it may; close one first")
			}
			undo = append(undo, leave)
		}
		undo = append(undo, h.use.follow(&end))
		if again := k.get(h.token.ID); again == nil || again.gone || !again.token.RevokedAt.IsZero() { // between look and follow
			release()
			return ctx, nil, errUnauthorized()
		}
	}
	return ctx, release, nil
}

// follow has end called when the token ends, until leave is called.
func (u *use) follow(end *context.CancelFunc) (leave func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ends[end] = struct{}{}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.ends, end)
	}
}

// end ends every stream, and what else follows the token.
func (u *use) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for end := range u.ends {
		(*end)()
	}
}

// endStreams ends what follows any token.
func (k *Keeper) endStreams() {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, h := range k.held {
		h.use.end()
	}
}
