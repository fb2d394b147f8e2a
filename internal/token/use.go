package token

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"weir/internal/fault"
	"weir/schemas"
)

// use is what a token is used for on this node.
type use struct {
	limiter *rate.Limiter

	mu      sync.Mutex
	last    int
	streams map[int]context.CancelFunc
	others  map[int]context.CancelFunc // that are no streams, and are not counted
}

func newUse(l *rate.Limiter) *use {
	return &use{limiter: l, streams: map[int]context.CancelFunc{}, others: map[int]context.CancelFunc{}}
}

// rate is the token's own rate, or the default. A burst may contain as many requests as its count.
func (k *Keeper) rate(t schemas.Token) *rate.Limiter {
	count, per, ok := schemas.ParseRate(t.Rate)
	if !ok {
		if count, per, ok = schemas.ParseRate(k.cfg.Rate); !ok {
			return rate.NewLimiter(0, 0) // a configuration that was not checked: nothing
		}
	}
	return rate.NewLimiter(rate.Limit(float64(count)/per.Seconds()), count)
}

// take counts one request, or says how long to wait for the next.
func (u *use) take(now time.Time) time.Duration {
	r := u.limiter.ReserveN(now, 1)
	if !r.OK() {
		return time.Hour
	}
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// Stream lets the sender of these Authorization headers hold one more event
// stream open, until it calls release. The context that comes back ends sooner
// than ctx when the token expires or is revoked. The request itself was counted
// by Verify. Errors: UNAUTHORIZED, UNAVAILABLE; RATE_LIMITED for one stream too many.
func (k *Keeper) Stream(ctx context.Context, fields []string) (_ context.Context, release func(), err error) {
	h, err := k.find(fields)
	if err != nil {
		return ctx, nil, err
	}
	return k.hold(ctx, h)
}

// While returns a context that ends sooner than ctx when the token of these Authorization headers
// expires or is revoked. It counts nothing. Errors: UNAUTHORIZED, UNAVAILABLE.
func (k *Keeper) While(ctx context.Context, fields []string) (_ context.Context, release func(), err error) {
	h, err := k.find(fields)
	if err != nil {
		return ctx, nil, err
	}
	ctx, end := context.WithCancel(ctx)
	var timer *time.Timer
	if expires := h.token.ExpiresAt; !expires.IsZero() {
		timer = time.AfterFunc(expires.Sub(k.cfg.Now()), end)
	}
	leave := h.use.follow(end)
	release = func() {
		leave()
		if timer != nil {
			timer.Stop()
		}
	}
	if _, err := k.find(fields); err != nil { // it ended between find and follow
		release()
		return ctx, nil, err
	}
	return ctx, release, nil
}

// hold counts one more stream for each of some, which ends with the first of them.
func (k *Keeper) hold(ctx context.Context, all ...*held) (_ context.Context, release func(), err error) {
	ctx, end := context.WithCancel(ctx)
	var undo []func()
	release = func() {
		end()
		for _, f := range undo {
			f()
		}
	}
	for _, h := range all {
		if !h.token.ExpiresAt.IsZero() {
			timer := time.AfterFunc(h.token.ExpiresAt.Sub(k.cfg.Now()), end)
			undo = append(undo, func() { timer.Stop() })
		}
		leave, ok := h.use.enter(end, k.cfg.Streams)
		if !ok {
			release()
			return ctx, nil, fault.New(schemas.RateLimited, "this token holds as many event streams open as it may; close one first")
		}
		undo = append(undo, leave)
		k.mu.RLock()
		again := k.held[h.token.ID]
		k.mu.RUnlock()
		if again == nil || again.gone || !again.token.RevokedAt.IsZero() { // between look and enter
			release()
			return ctx, nil, errUnauthorized()
		}
	}
	return ctx, release, nil
}

// enter counts a stream. leave may be called twice.
func (u *use) enter(cancel context.CancelFunc, most int) (leave func(), ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.streams) >= most {
		return nil, false
	}
	u.last++
	n := u.last
	u.streams[n] = cancel
	return func() {
		cancel()
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.streams, n)
	}, true
}

// follow has cancel called when the token ends. leave may be called twice.
func (u *use) follow(cancel context.CancelFunc) (leave func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last++
	n := u.last
	u.others[n] = cancel
	return func() {
		cancel()
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.others, n)
	}
}

// end ends every stream, and what follows the token.
func (u *use) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, all := range []map[int]context.CancelFunc{u.streams, u.others} {
		for _, cancel := range all {
			cancel()
		}
	}
}

// endStreams ends all streams.
func (k *Keeper) endStreams() {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, h := range k.held {
		h.use.end()
	}
}
