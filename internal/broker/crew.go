package broker

import (
	"slices"
	"sync"
)

// crew is the slots of a kind's new actions in a partition, or of another topic, and the
// feeds that take turns at them: those of the topics' queues, and those of the crowds that
// were handed out of these.
type crew struct {
	mu    sync.Mutex
	slots int
	// spare are the slots that crowds leave to the queues, so that who is no crowd does not
	// wait for calls of those who are.
	spare int
	feeds []*feed
	turn  int // whose turn is next
	// hurried is how many turns in a row high priority has had while others waited.
	hurried int
	busy    int // slots in use
	// crowded is how many of these work for a crowd.
	crowded int
	working sync.WaitGroup // slots in use
}

const (
	// spareShare is the part of the slots that crowds leave alone: an eighth, and one at least
	// where there are two.
	spareShare = 8
	// highTurns is how often in a row high priority goes first.
	highTurns = 7
)

func newCrew(slots int) *crew {
	c := &crew{slots: slots, spare: slots / spareShare}
	if c.spare == 0 && slots > 1 {
		c.spare = 1
	}
	return c
}

// join has a feed take turns with the others.
func (c *crew) join(f *feed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.feeds = append(c.feeds, f)
}

// leave ends a feed's turns. The caller holds mu.
func (c *crew) leave(f *feed) {
	c.feeds = slices.DeleteFunc(c.feeds, func(o *feed) bool { return o == f })
}

// fill puts slots that are free to work. The caller holds mu.
func (c *crew) fill() {
	for c.busy < c.slots {
		f, d := c.next()
		if d == nil {
			return
		}
		c.busy++
		c.working.Go(func() { c.work(f, d) })
	}
}

// work is one slot: it hands a message to a handler, and then what is next.
func (c *crew) work(f *feed, d *delivery) {
	for d != nil {
		f.handle(d)
		c.mu.Lock()
		delete(f.held, d)
		if f.crowd != nil {
			c.crowded--
		}
		f.pull()
		f.running.Done()
		if f, d = c.next(); d == nil {
			c.busy--
		}
		c.mu.Unlock()
	}
}

// next takes what a slot is to work on: the feeds that have something ready take turns, and
// high priority has most of them. The caller holds mu.
func (c *crew) next() (*feed, *delivery) {
	i, high := c.ready(0, func(f *feed) bool { return f.high })
	j, other := c.ready(c.turn, func(f *feed) bool { return !f.high })
	switch {
	case high && (c.hurried < highTurns || !other):
		if c.hurried++; !other {
			c.hurried = 0
		}
		return c.take(i)
	case other:
		c.turn, c.hurried = (j+1)%len(c.feeds), 0
		return c.take(j)
	default:
		return nil, nil
	}
}

// ready is the next one of some feeds, from a place on, that has something which may begin.
func (c *crew) ready(from int, of func(*feed) bool) (place int, ok bool) {
	for n := range c.feeds {
		i := (from + n) % len(c.feeds)
		f := c.feeds[i]
		if of(f) && len(f.backlog) > 0 && (f.crowd == nil || c.crowded < c.slots-c.spare) {
			return i, true
		}
	}
	return 0, false
}

func (c *crew) take(i int) (*feed, *delivery) {
	f := c.feeds[i]
	d := f.backlog[0]
	f.backlog = f.backlog[1:]
	if f.crowd != nil {
		c.crowded++
	}
	f.running.Add(1)
	return f, d
}
