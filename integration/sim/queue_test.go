package sim_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// queue is the log's durable consumer: it gives each accepted action and each wake-up to
// a node until one of them has acknowledged it. A message whose node gives no sign of
// life for the acknowledgement wait goes to another, though the first may still be at it.
type queue struct {
	w      *world
	forget func()

	mu    sync.Mutex
	open  map[string]bool      // messages
	alive map[schemas.Ref]bool // actions that have not ended
	shut  bool
}

func newQueue(w *world) *queue {
	q := &queue{w: w, open: map[string]bool{}, alive: map[schemas.Ref]bool{}}
	forget, err := w.log.Live(schemas.LiveLog+".>", q.arrived, nil)
	if err != nil {
		panic(err) // memory refuses no subscription
	}
	q.forget = forget
	return q
}

func (q *queue) arrived(r schemas.Record) {
	ref, section, err := schemas.ParseSubject(r.Subject)
	if err != nil {
		return
	}
	key := fmt.Sprintf("%s/%d", r.Stream, r.Seq)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case section == schemas.SectionAccepted:
		q.alive[ref] = true
	case r.Ends():
		delete(q.alive, ref)
	}
	if q.shut || section != schemas.SectionAccepted && section != schemas.SectionWake {
		return
	}
	q.open[key] = true
	q.w.do(func() {
		q.serve(&parcel{q: q, rec: r, name: ref.ID + "." + string(section), dice: roll(q.w.program.seed, "message "+key)})
		q.mu.Lock()
		delete(q.open, key)
		q.mu.Unlock()
	})
}

func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open)
}

// idle reports whether there is nothing to be done, now or later.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open) == 0 && len(q.alive) == 0
}

func (q *queue) close() {
	q.forget()
	q.mu.Lock()
	q.shut = true
	q.mu.Unlock()
}

func (q *queue) ended() bool {
	select {
	case <-q.w.over:
		return true
	default:
		return false
	}
}

// parcel is one message until it is acknowledged.
type parcel struct {
	q     *queue
	rec   schemas.Record
	name  string
	dice  *dice
	count atomic.Int64
}

// delivery is a message while a node has it.
type delivery struct {
	stale atomic.Bool // another node has the message by now
	done  chan error
}

type deliveryKey struct{}

// superseded reports whether a context is that of a node whose message is another's.
func superseded(ctx context.Context) bool {
	d, _ := ctx.Value(deliveryKey{}).(*delivery)
	return d != nil && d.stale.Load()
}

// serve delivers a message until it is acknowledged, and sometimes once more.
func (q *queue) serve(p *parcel) {
	again := false
	for !q.ended() {
		after, acked := p.round()
		switch {
		case !acked:
		case p.dice.chance(q.w.odds().ackMissed):
			q.w.took(ackMissed, p.name)
			after = ackWait
		case !again && p.dice.chance(q.w.odds().afterAck):
			q.w.took(afterAck, p.name)
			again, after = true, p.dice.within(time.Millisecond, 20*time.Second)
		default:
			return
		}
		time.Sleep(after)
	}
}

// round is one delivery, or two at once. It says when the message comes again.
func (p *parcel) round() (after time.Duration, acked bool) {
	time.Sleep(p.dice.within(50*time.Microsecond, 5*time.Millisecond))
	n := p.q.w.any(p.dice)
	if n == nil {
		return 300 * time.Millisecond, false
	}
	if p.dice.chance(p.q.w.odds().twice) {
		p.second()
	}
	d := p.give(n)
	if p.q.w.mutant == acksAtOnce {
		return 0, true
	}
	beat := time.NewTicker(ackWait / 3)
	defer beat.Stop()
	for heard := time.Now(); ; {
		select {
		case err := <-d.done:
			if n.isDead() {
				d.done = nil // nobody hears of it
				continue
			}
			ack, after := fault.Disposition(err)
			if after == 0 && !ack {
				after = time.Second
			}
			return after, ack
		case <-beat.C:
			switch {
			case !n.isDead() && !n.isPaused():
				heard = time.Now()
			case time.Since(heard) >= ackWait:
				d.stale.Store(true)
				if !n.isDead() {
					p.q.w.took(overtaken, p.name+" of "+n.name)
				}
				return 0, false
			}
		case <-p.q.w.over:
			return 0, true
		}
	}
}

// second has another delivery of the message on its way beside this one.
func (p *parcel) second() {
	after, n := p.dice.within(0, 3*time.Second), p.q.w.any(p.dice)
	if n == nil {
		return
	}
	p.q.w.do(func() {
		time.Sleep(after)
		if !n.isDead() && !p.q.ended() {
			p.q.w.took(twice, p.name)
			p.give(n)
		}
	})
}

// give hands the message to a node.
func (p *parcel) give(n *node) *delivery {
	count := p.count.Add(1)
	first := count == 1
	if !first && p.dice.chance(p.q.w.odds().first) {
		p.q.w.took(firstAgain, p.name)
		first = true
	}
	d := &delivery{done: make(chan error, 1)}
	actor := roll(p.q.w.program.seed, fmt.Sprintf("%s/%d on %s, %d", p.rec.Stream, p.rec.Seq, n.name, count))
	ctx := context.WithValue(with(n.ctx, actor), deliveryKey{}, d)
	p.q.w.do(func() { d.done <- p.handle(ctx, n, first) })
	return d
}

// handle keeps a panic from ending the simulation where a mutant makes logs that no worker writes; the
// worker of the product does so always.
func (p *parcel) handle(ctx context.Context, n *node, first bool) (err error) {
	defer func() {
		if p.q.w.mutant == "" {
			return
		}
		if r := recover(); r != nil {
			err = fmt.Errorf("the worker panicked: %v", r)
		}
	}()
	return n.pipeline.Handle(ctx, p.rec, first)
}
