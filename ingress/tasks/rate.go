package tasks

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"weir/internal/limits"
)

// rates counts the requests of each task's token that is in force, and together those of
// all others.
type rates struct {
	now func() time.Time

	mu        sync.Mutex
	held      map[string]*rate.Limiter
	swept     time.Time
	strangers *rate.Limiter // of the tokens that were refused
}

// newRates takes a rate that was checked; another lets nothing pass.
func newRates(text string, now func() time.Time) *rates {
	return &rates{now: now, held: map[string]*rate.Limiter{}, strangers: limits.NewRate(text)}
}

// reserve counts one request of a known token, or returns the wait before the next. An unknown token
// must wait until it may be refused, so that invalid tokens can neither fill the table nor make the
// log read tasks at full speed.
func (r *rates) reserve(key string) (wait time.Duration, known bool) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	l, known := r.held[key]
	if known {
		return limits.Reserve(l, now), true
	}
	return r.strange(now), false
}

// room reports whether a token is known, or one more may be refused now.
func (r *rates) room(key string) bool {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.held[key]
	return known || r.strange(now) <= 0
}

// strange is how long to wait until a token may be refused.
func (r *rates) strange(now time.Time) time.Duration {
	limit, missing := r.strangers.Limit(), 1-r.strangers.TokensAt(now)
	switch {
	case missing <= 0:
		return 0
	case limit <= 0:
		return limits.LongestWait
	default:
		return min(time.Duration(missing/float64(limit)*float64(time.Second))+1, limits.LongestWait)
	}
}

// know has a token's requests counted for itself from now on, this one being the first.
func (r *rates) know(key string) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.held[key]; ok {
		return // it was counted when it came in
	}
	r.sweep(now)
	l := rate.NewLimiter(r.strangers.Limit(), r.strangers.Burst())
	limits.Reserve(l, now)
	r.held[key] = l
}

// refuse counts an invalid token. Concurrent requests may exceed the rest of the budget; the next
// ones wait for it.
func (r *rates) refuse(key string) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.held[key]; !ok { // else it was counted when it came in
		r.strangers.ReserveN(now, 1)
	}
}

// sweepEvery is how often the tokens are dropped that have sent nothing for a while.
const sweepEvery = time.Minute

// sweep drops those that have all their requests to come, as one has that is new.
func (r *rates) sweep(now time.Time) {
	if age := now.Sub(r.swept); age >= 0 && age < sweepEvery {
		return
	}
	maps.DeleteFunc(r.held, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= float64(l.Burst()) })
	r.swept = now
}
