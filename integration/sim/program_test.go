package sim_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// horizon is how long faults go on; what is asked for is asked for in the first half.
const horizon = 40 * time.Second

// program is all that is decided about a run before it begins. What happens on the way
// is drawn with its odds; see dice.
type program struct {
	seed  uint64
	alone bool // one node over a log that nobody shares, as with the embedded broker
	nodes int
	acts  []act
	steps []step
	odds  odds
}

// act is what the clients of one action do.
type act struct {
	tenant, name string
	sort         string // one of sorts
	keyed        bool   // it is named by an Idempotency-Key
	at           time.Duration
	repeaters    int           // clients that ask for it, all with the same name
	patience     time.Duration // how long they wait for its end before they leave
	content      bool          // they leave for good once it is accepted
	watchers     int
	cuts         int           // how often each watcher is cut off at most
	cancel       time.Duration // when it is asked to stop; 0: never
	conflict     bool          // another payload is tried under its name
	limit        time.Duration // how long it may take
}

// step is one thing that goes wrong at a time of its own.
type step struct {
	at   time.Duration
	what string
	node int
	long time.Duration
}

// odds are how likely a thing goes wrong each time that it could.
type odds struct {
	ackLost, appendLost, copyLate, died, frozen, revoked, replica, readLost, live float64
	twice, afterAck, first, ackMissed                                             float64
	connect, reset, swallow, hang, busy, failed, slow, diedCall, frozenCall       float64
}

// The sorts of actions.
const (
	get   = "GET"
	put   = "PUT"
	post  = "POST"
	keyed = "POST with a key"
	// The entries of these derive a key, and look up an effect with a probe.
	derived = "derived"
	probed  = "probed"
	mocked  = "mocked"
	denied  = "denied"
	held    = "held"
	plan    = "plan"
)

func compose(seed uint64) program {
	r := rand.New(rand.NewPCG(seed, mix("program")))
	p := program{seed: seed, alone: r.IntN(4) == 0, nodes: 1 + r.IntN(3)}
	if p.alone {
		p.nodes = 1
	}
	p.odds = luck(r)
	sorts := []string{get, put, post, post, post, keyed, keyed, derived, probed, probed, mocked, denied, held, plan}
	for i := range 3 + r.IntN(6) {
		a := act{
			tenant: fmt.Sprintf("t%d", i%3), name: fmt.Sprintf("a%d", i), sort: sorts[r.IntN(len(sorts))], keyed: r.IntN(3) == 0,
			at: span(r, 0, horizon/2), repeaters: 1 + r.IntN(2), patience: span(r, 200*time.Millisecond, 20*time.Second),
			content: r.IntN(4) == 0, watchers: r.IntN(2), cuts: r.IntN(4), conflict: r.IntN(6) == 0, limit: actionTime,
		}
		if r.IntN(5) == 0 {
			a.limit = span(r, 500*time.Millisecond, 8*time.Second)
		}
		if a.sort == held { // whom rules hold back is woken in no order: one at most a tenant
			a.tenant = "held-" + a.name
		}
		if r.IntN(4) == 0 {
			a.cancel = a.at + span(r, 0, 6*time.Second)
		}
		p.acts = append(p.acts, a)
	}
	p.steps = nemesis(r, p)
	return p
}

// luck draws which faults a run has at all: where each run has a few of them, more of
// their combinations are seen than where each has a little of everything.
func luck(r *rand.Rand) odds {
	some := func(p float64) float64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return p * r.Float64()
	}
	return odds{
		ackLost: some(.3), appendLost: some(.2), copyLate: some(.15), died: some(.04), frozen: some(.04), revoked: some(.1), replica: some(.5), readLost: some(.05), live: some(.5),
		twice: some(.4), afterAck: some(.4), first: some(.5), ackMissed: some(.3),
		connect: some(.4), reset: some(.3), swallow: some(.3), hang: some(.2), busy: some(.5), failed: some(.3), slow: some(.6), diedCall: some(.2), frozenCall: some(.2),
	}
}

func nemesis(r *rand.Rand, p program) []step {
	whats := []string{"kill", "drain", "drain", "pause", "clock", "deny", "deny", "hold", "lose"}
	var steps []step
	for _, a := range p.acts {
		if a.sort == held && r.IntN(2) == 0 {
			steps = append(steps, step{at: max(0, a.at-span(r, 0, 3*time.Second)), what: "hold", long: span(r, 3*time.Second, 20*time.Second)})
		}
	}
	for range r.IntN(7) {
		s := step{at: span(r, 0, horizon), what: whats[r.IntN(len(whats))], node: r.IntN(p.nodes), long: span(r, 500*time.Millisecond, 25*time.Second)}
		if s.what == "clock" {
			s.long = span(r, -20*time.Second, 20*time.Second)
		}
		steps = append(steps, s)
	}
	return steps
}

func span(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// String is the program as a list that a person can read.
func (p program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes, alone %v, odds %+v\n", p.nodes, p.alone, p.odds)
	for _, a := range p.acts {
		fmt.Fprintf(&b, "  %+v\n", a)
	}
	for _, s := range p.steps {
		fmt.Fprintf(&b, "  %+v\n", s)
	}
	return b.String()
}

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
