package sim_test

import (
	"context"
	"time"
)

// strike has one thing go wrong, and ends it.
func (w *world) strike(s step, d *dice) {
	time.Sleep(s.at + d.within(0, time.Millisecond))
	n := w.snapshot()[s.node]
	switch s.what {
	case "kill":
		w.took(diedIdle, n.name)
		n.die(s.long / 3)
	case "drain":
		n.drain(s.long / 10)
	case "pause":
		if n.pause() {
			w.paused(n, s.long)
		}
	case "clock":
		if !n.isDead() {
			n.skew.Store(int64(s.long))
			w.took(clockStepped, n.name)
		}
	case "deny":
		w.deny(s.long)
	case "hold":
		w.rule(true)
		time.Sleep(s.long)
		w.rule(false)
	case "lose":
		n.mu.Lock()
		lost := append([]func(){}, n.lost...)
		n.mu.Unlock()
		for _, f := range lost {
			f()
		}
	}
}

// drain stops a node as SIGTERM does: it begins nothing new, has its work cut off when its
// patience is over, and ends.
func (n *node) drain(patience time.Duration) {
	n.mu.Lock()
	again := n.dead || n.leaving
	n.leaving = true
	n.mu.Unlock()
	if again {
		return
	}
	n.w.note(n.name + " drains")
	close(n.draining)
	n.feed.EndStreams()
	time.Sleep(patience)
	n.cancel()
	time.Sleep(time.Second)
	n.die(patience)
}

// freeze pauses a node at what it does now.
func (n *node) freeze(d *dice) {
	long := d.within(100*time.Millisecond, 25*time.Second)
	if n.pause() {
		n.w.do(func() { n.w.paused(n, long) })
	}
}

// paused has a node that was paused go on in time.
func (w *world) paused(n *node, long time.Duration) {
	w.note(n.name + " is paused")
	time.Sleep(long)
	if n.isPaused() {
		w.note(n.name + " goes on")
		if long > ackWait {
			w.took(pausedLong, n.name)
		}
	}
	n.resume()
}

// deny puts a policy in force that denies all, and takes it back. From the time when every
// node has said that it goes by it, no call may begin.
func (w *world) deny(long time.Duration) {
	if w.calm.Load() || !w.policy.CompareAndSwap(permissive(), forbidding()) {
		return
	}
	w.note("the policy denies")
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	for _, n := range w.snapshot() {
		if w.mutant != reloadsEarly && n.guard.Settle(ctx) != nil {
			break // one has not said so
		}
	}
	acknowledged := ctx.Err() == nil
	from := time.Now()
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.policy.CompareAndSwap(forbidding(), permissive()) && acknowledged {
		w.revoking = append(w.revoking, revocation{from, time.Now()})
	}
	w.tally.add(revoked, 1)
}

// revoke has another policy come into force while a call is about to be made.
func (w *world) revoke(d *dice, o odds) {
	if d.chance(o.revoked) {
		long := d.within(50*time.Millisecond, 2*time.Second)
		w.do(func() { w.deny(long) })
		time.Sleep(d.within(time.Microsecond, 20*time.Millisecond))
	}
}

// rule has the traffic rules hold calls back, or not.
func (w *world) rule(hold bool) {
	if w.calm.Load() && hold {
		return
	}
	w.book.Put(w.t, rules(hold)...)
	w.note(map[bool]string{true: "the rules hold calls back", false: "the rules hold nothing back"}[hold])
}
