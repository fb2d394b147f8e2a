package limits

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"weir/schemas"
)

// NewRate returns a limiter of a rate as it is written everywhere, see schemas.ParseRate, with as
// many requests in a burst as its count. If the text is no rate, it lets nothing pass.
func NewRate(text string) *rate.Limiter {
	count, per, ok := schemas.ParseRate(text)
	if !ok {
		return rate.NewLimiter(0, 0)
	}
	return rate.NewLimiter(rate.Limit(float64(count)/per.Seconds()), count)
}

// LongestWait is the wait of a rate that lets nothing pass.
const LongestWait = time.Hour

// Reserve counts one request, or says how long to wait for the next.
func Reserve(l *rate.Limiter, now time.Time) (wait time.Duration) {
	r := l.ReserveN(now, 1)
	if !r.OK() {
		return LongestWait
	}
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// PerKey limits how many of something each key has at a time. It is safe for concurrent use.
type PerKey[K comparable] struct {
	most int

	mu sync.Mutex
	of map[K]int
}

// NewPerKey returns a limit.
func NewPerKey[K comparable](most int) *PerKey[K] { return &PerKey[K]{most: most, of: map[K]int{}} }

// TryAcquire counts one more of a key until release, which is called once. ok is false where it has as many as
// it may.
func (l *PerKey[K]) TryAcquire(key K) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[key] >= l.most {
		return nil, false
	}
	l.of[key]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.of[key]--; l.of[key] == 0 {
			delete(l.of, key)
		}
	}, true
}

// KeyedMutex admits one caller for each key at a time, and now and then makes one wait for another
// key's. It is safe for concurrent use.
type KeyedMutex [256]chan struct{}

// NewKeyedMutex returns a mutex that is free.
func NewKeyedMutex() *KeyedMutex {
	var m KeyedMutex
	for i := range m {
		m[i] = make(chan struct{}, 1)
	}
	return &m
}

// Lock waits for the key until ctx ends, and holds it until unlock.
func (m *KeyedMutex) Lock(ctx context.Context, key string) (unlock func(), err error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	of := m[h.Sum32()%uint32(len(m))]
	select {
	case of <- struct{}{}:
		return func() { <-of }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
