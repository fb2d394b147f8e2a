package sim_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/egress/stream"
	"weir/ingress/accept"
	"weir/ingress/actions"
	"weir/internal/ledger"
	"weir/internal/retry"
	"weir/processors"
	"weir/processors/call"
	"weir/processors/executor"
	"weir/processors/guard"
	"weir/processors/plans"
	"weir/processors/settle"
	"weir/schemas"
)

// node is one process of Weir with all its rooms, from its start to its death. What it
// does outside of itself goes through its port and the target: a dead node can do
// neither, a paused one not yet.
type node struct {
	w      *world
	slot   int
	name   string
	port   *port
	ctx    context.Context // ends with the process
	cancel context.CancelFunc
	skew   atomic.Int64 // what its clock is ahead, in nanoseconds

	mu       sync.Mutex
	dead     bool
	leaving  bool          // it takes nothing new
	draining chan struct{} // closed by then
	paused   chan struct{} // closed when the node goes on; nil: it runs
	lost     []func()      // tell a feed that it may have missed something

	guard    *guard.Guard
	pipeline *processors.Pipeline
	acceptor *accept.Acceptor
	control  *actions.Control
	feed     *stream.Feed
}

var errDead = errors.New("the node is dead")

// boot starts a node in a slot.
func (w *world) boot(slot int) {
	w.mu.Lock()
	w.boots++
	n := &node{w: w, slot: slot, name: fmt.Sprintf("n%d.%d", slot, w.boots), draining: make(chan struct{})}
	w.mu.Unlock()
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.port = &port{n: n, w: w}
	n.build()
	w.mu.Lock()
	ended := w.ended
	w.nodes[slot] = n
	w.mu.Unlock()
	if ended {
		n.stop()
	}
}

// build wires a node as the program does.
func (n *node) build() {
	w, l := n.w, ledger.New(n.port, layout, n.now)
	n.guard = guard.New(w.policy.Load, &w.book)
	recorder := settle.NewRecorder(n.port, deaf{}, settle.NewSeal([]byte("0123456789abcdef")))
	schedule := retry.Default()
	schedule.Attempts = attempts
	caller := call.New(w.mutant.attempts(l), n.guard, door{w.target, n}, call.Config{
		Worker: n.name, Barrier: n.port.Barrier, Timeout: callTimeout, Margin: callMargin, Schedule: schedule, Draining: n.draining, Now: n.now,
		Rand: func() float64 { return float64(mix(n.name, w.program.seed, uint64(time.Now().UnixNano()))%1000) / 1000 },
	})
	answers := call.Answers{Blobs: l}
	n.pipeline = processors.New(processors.Config{
		Ledger: l, Waker: n.port, Worker: n.name, Alone: w.program.alone, AckWait: ackWait, Now: n.now,
		Kinds: map[schemas.Kind]processors.Kind{
			schemas.KindHTTP: {Executor: executor.New(caller, recorder, answers)}, schemas.KindPlan: {Executor: plans.New(caller, recorder)},
		},
		Caller: caller, Evidence: recorder, Metrics: deaf{}, Barrier: n.port.Barrier,
		DeadLetters: processors.DeadLetters{Sender: n.port, Metrics: deaf{}, Log: slog.New(slog.DiscardHandler)},
	})
	n.acceptor = accept.New(w.mutant.claims(l), accept.Config{
		Barrier: n.port.Barrier, Now: n.now, Deadlines: map[schemas.Kind]time.Duration{schemas.KindHTTP: 2 * time.Minute}, NewID: func() (string, error) { return fmt.Sprintf("made-%d", time.Now().UnixNano()), nil },
	})
	n.control = actions.New(l, actions.Config{Barrier: n.port.Barrier, Stop: w.tell})
	feed, err := stream.Open(n.port, n.port, stream.Config{Layout: layout, Barrier: w.mutant.barrier(n.port.Barrier)})
	if err != nil {
		panic(err) // memory refuses no subscription
	}
	n.feed = feed
}

// tell has every node that can hear stop an action, if it is at it.
func (w *world) tell(ref schemas.Ref) {
	for _, n := range w.snapshot() {
		if !n.isDead() && !n.isPaused() {
			n.pipeline.Stop(ref)
		}
	}
}

func (n *node) now() time.Time { return time.Now().Add(time.Duration(n.skew.Load())) }

func (n *node) isDead() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead
}

func (n *node) isPaused() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.paused != nil
}

// die ends the process. Another comes up in its place.
func (n *node) die(after time.Duration) {
	n.mu.Lock()
	gone := n.dead
	n.dead = true
	n.mu.Unlock()
	if gone {
		return
	}
	n.cancel()
	n.resume() // nothing of it waits any more; it is dead all the same
	n.w.note(n.name + " dies")
	n.w.do(n.feed.Close)
	n.w.do(func() {
		select {
		case <-time.After(after):
			n.w.boot(n.slot)
			n.w.note("another node in the place of " + n.name)
		case <-n.w.over:
		}
	})
}

// stop ends the process at the end of a run.
func (n *node) stop() {
	n.mu.Lock()
	n.dead = true
	n.mu.Unlock()
	n.cancel()
	n.feed.Close()
}

// takes reports whether the process takes what is new.
func (n *node) takes() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.dead && !n.leaving
}

// pause stops the process as SIGSTOP does, until resume.
func (n *node) pause() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead || n.paused != nil {
		return false
	}
	n.paused = make(chan struct{})
	return true
}

func (n *node) resume() {
	n.mu.Lock()
	was := n.paused
	n.paused = nil
	lost := append([]func(){}, n.lost...)
	n.mu.Unlock()
	if was == nil {
		return
	}
	close(was)
	for _, f := range lost {
		f()
	}
}

// held waits while the node is paused. It reports whether it was, and errDead where
// nothing more may be done. What waited goes on a moment after the node does, each thing
// at a time of its own.
func (n *node) held(d *dice) (was bool, err error) {
	for {
		n.mu.Lock()
		dead, paused := n.dead, n.paused
		n.mu.Unlock()
		switch {
		case dead:
			return was, errDead
		case paused == nil:
			return was, nil
		}
		was = true
		<-paused
		time.Sleep(d.within(time.Microsecond, 3*time.Millisecond))
	}
}

// deaf counts nothing.
type deaf struct{}

func (deaf) Settled(schemas.Kind, schemas.Outcome, schemas.Code, time.Duration) {}
func (deaf) EvidenceWritten(string)                                             {}
func (deaf) Denied(schemas.Code)                                                {}
func (deaf) Shadowed(string, bool)                                              {}
func (deaf) DeadLettered(schemas.Code)                                          {}
