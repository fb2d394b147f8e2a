package sim_test

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// dice are the random choices of one actor: a client, one delivery of a message, a step
// of the nemesis. Each actor has a stream of its own, made of the run's seed and the
// actor's name, so that what one draws does not depend on which goroutine came first. And
// whatever two actors do, they do at different nanoseconds, for everything on the way to
// the log takes a drawn time: the order of a run is its seed's and not the scheduler's.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func roll(seed uint64, name string) *dice {
	return &dice{rng: rand.New(rand.NewPCG(seed, mix(name)))}
}

func mix(name string, more ...uint64) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	var b [8]byte
	for _, n := range more {
		binary.LittleEndian.PutUint64(b[:], n)
		_, _ = h.Write(b[:])
	}
	return h.Sum64()
}

func (d *dice) chance(p float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Float64() < p
}

func (d *dice) below(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// within is a time between two, to the nanosecond.
func (d *dice) within(from, to time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return from + time.Duration(d.rng.Int64N(int64(to-from)))
}

type diceKey struct{}

func with(ctx context.Context, d *dice) context.Context { return context.WithValue(ctx, diceKey{}, d) }

// of is the dice of whoever a context is for; nil where it is nobody's, as that of a
// feed's own goroutines is.
func of(ctx context.Context) *dice {
	d, _ := ctx.Value(diceKey{}).(*dice)
	return d
}
