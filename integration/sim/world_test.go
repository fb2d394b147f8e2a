package sim_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/policy"
	"weir/internal/weirtest/history"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/rulebook"
	"weir/schemas"
)

var layout = schemas.Layout{Partitions: 2}

// The times of the simulated house. Those of the broker are its own; the others are
// shorter than the defaults, so that a run meets each of them.
const (
	ackWait        = 10 * time.Second
	attemptTimeout = 400 * time.Millisecond // of an append
	window         = 10 * time.Minute       // in which a record's id is known again
	callTimeout    = 5 * time.Second
	callMargin     = 2 * time.Second
	actionTime     = time.Minute
	healTime       = time.Minute // how long behind its deadline an action may end
	attempts       = 3

	// A probe proves that a call had no effect after within: longer than a call, and the step of a clock.
	within = 30 * time.Second
	lookup = "probed/look/" // the path of probes
)

// world is one run: a log, the nodes over it, a consumer, a target, clients, and what goes
// wrong between them. It lives in a bubble of synctest.
type world struct {
	t       *testing.T
	program program
	mutant  mutant
	start   time.Time
	log     *memlog.Log
	queue   *queue
	target  *target
	policy  atomic.Pointer[policy.Policy]
	book    rulebook.Book

	reading sync.Mutex // guards lateBy, over one read
	lateBy  int

	calm   atomic.Bool // nothing goes wrong any more
	over   chan struct{}
	group  sync.WaitGroup // all that the world has started
	people sync.WaitGroup // clients and watchers
	tally  tally

	mu       sync.Mutex
	nodes    []*node
	boots    int
	ended    bool
	ids      map[string]time.Time   // of the records that the window knows
	answered map[schemas.Ref]string // by whom
	synced   map[string]uint64      // what of each stream the device is known to have
	asked    []history.Asked
	watched  []history.Watched
	notes    []string
	revoking []revocation
	odd      []history.Violation // what is seen to be wrong on the way
}

// revocation is a time in which a policy that denies was in force on every node.
type revocation struct{ from, to time.Time }

var (
	permissive = sync.OnceValue(func() *policy.Policy { return compile("http://up.example/") })
	forbidding = sync.OnceValue(func() *policy.Policy { return compile("http://down.example/") })
)

func compile(prefix string) *policy.Policy {
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{
		Name: derived, URLPrefix: prefix + "derived/", Methods: []string{"POST"},
		UpstreamIdempotency: &policy.Idempotency{TTL: time.Hour, Derive: true},
	}, {
		Name: probed, URLPrefix: prefix + "probed/", Methods: []string{"GET", "POST"},
		Contract: policy.Contract{Reconcile: &policy.Reconcile{
			Method: "GET", URL: prefix + lookup + "{request.body.n}", Applied: "response.status == 200", NotApplied: "response.status == 404", Within: within,
		}},
	}, {
		Name: "up", URLPrefix: prefix, Methods: []string{"GET", "PUT", "POST"},
		UpstreamIdempotency: &policy.Idempotency{TTL: time.Hour},
	}}})
	if err != nil {
		panic(err) // it is written above
	}
	return p
}

func newWorld(t *testing.T, p program, m mutant) *world {
	t.Helper()
	w := &world{t: t, program: p, mutant: m, start: time.Now(), over: make(chan struct{}), ids: map[string]time.Time{}, answered: map[schemas.Ref]string{}, synced: map[string]uint64{}}
	w.log = memlog.New(layout, time.Now, memlog.Hooks{Late: func() int { return w.lateBy }})
	w.policy.Store(permissive())
	w.book.Put(t, rules(false)...)
	w.target = &target{w: w}
	w.queue = newQueue(w)
	w.nodes = make([]*node, p.nodes)
	for slot := range w.nodes {
		w.boot(slot)
	}
	return w
}

// rules are the traffic rules: one answers for the target, one may hold calls back.
func rules(hold bool) []schemas.Rule {
	all := []schemas.Rule{rulebook.Mock("m", "http://up.example/mocked/*", 200, `{"mocked":true}`)}
	if hold {
		all = append(all, rulebook.Delay("d", "http://up.example/held/*", 30_000))
	}
	return all
}

// run carries the program out, lets the world heal, and gives what is left of it.
func (w *world) run() history.Run {
	w.do(w.wakeups)
	for _, a := range w.program.acts {
		w.enact(a)
	}
	for i, s := range w.program.steps {
		w.do(func() { w.strike(s, roll(w.program.seed, fmt.Sprintf("step %d", i))) })
	}
	time.Sleep(horizon)
	w.heal()
	limit := w.start.Add(horizon + 2*actionTime + healTime)
	idle := make(chan struct{})
	w.do(func() {
		w.people.Wait()
		close(idle)
	})
	for !w.settled(idle) && time.Now().Before(limit) {
		time.Sleep(time.Second)
	}
	backlog := w.queue.waiting()
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	close(w.over) // whoever still waits gives up
	w.people.Wait()
	w.queue.close()
	for _, n := range w.snapshot() {
		n.stop()
	}
	w.group.Wait()
	r := w.harvest(backlog)
	time.Sleep(2 * actionTime) // what a node that is gone still means to wake is due by then
	return r
}

// do runs something of the world's.
func (w *world) do(f func()) { w.group.Go(f) }

// settled reports whether everybody has heard what they asked for, and nothing is left
// to be done.
func (w *world) settled(idle <-chan struct{}) bool {
	select {
	case <-idle:
		return w.queue.idle()
	default:
		return false
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.calm.Store(true)
	w.note("the faults are over")
	w.rule(false)
	w.mu.Lock()
	w.policy.Store(permissive())
	nodes := append([]*node(nil), w.nodes...)
	w.mu.Unlock()
	for _, n := range nodes {
		n.skew.Store(0)
		n.resume()
	}
}

// wakeups has the log make the wake-ups that are due, as late as the server does.
func (w *world) wakeups() {
	for {
		select {
		case <-w.over:
			return
		case <-time.After(250 * time.Millisecond):
			_, _ = w.log.Due(context.Background(), time.Now())
		}
	}
}

// snapshot is the nodes that there are.
func (w *world) snapshot() []*node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*node(nil), w.nodes...)
}

// any is one of the nodes that live; nil where none does.
func (w *world) any(d *dice) *node {
	var live []*node
	for _, n := range w.snapshot() {
		if n.takes() {
			live = append(live, n)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return live[d.below(len(live))]
}

// odds are those in force: none once the faults are over.
func (w *world) odds() odds {
	if w.calm.Load() {
		return odds{}
	}
	return w.program.odds
}

// took counts a branch, and notes it for whoever reads a failed run.
func (w *world) took(branch, who string) {
	w.tally.add(branch, 1)
	w.note(who + ": " + branch)
}

// mostNotes bounds what is noted of a run.
const mostNotes = 400

func (w *world) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.notes) < mostNotes {
		w.notes = append(w.notes, fmt.Sprintf("  %7.3fs %s", time.Since(w.start).Seconds(), what))
	}
}

// breach notes a promise that is seen to be broken on the way.
func (w *world) breach(v history.Violation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.odd = append(w.odd, v)
}
