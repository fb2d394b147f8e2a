package broker

import "sync"

// crew is the slots of one topic, and the feeds that take turns at them: that of its queue,
// and those of the crowds that were handed out of it.
type crew struct {
	mu    sync.Mutex
	slots int
	// spare are the slots that crowds leave to the queue, so that who is no crowd does not
	// wait for calls of those who are.
	spare int
	feeds []*feed // the queue's own is the first
	turn  int     // whose turn is next
	busy  int     // slots in use
	// crowded is how many of these work for a crowd.
	crowded int
	closed  bool // nothing is begun any more
	running sync.WaitGroup
}

// spareShare is the part of the slots that crowds leave alone: an eighth, and one at least
// where there are two.
const spareShare = 8

func newCrew(slots int) *crew {
	c := &crew{slots: slots, spare: slots / spareShare}
	if c.spare == 0 && slots > 1 {
		c.spare = 1
	}
	return c
}

// fill puts slots that are free to work. The caller holds mu.
func (c *crew) fill() {
	for c.busy < c.slots {
		f, d := c.next()
		if d == nil {
			return
		}
		c.busy++
		c.running.Go(func() { c.work(f, d) })
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
		if f, d = c.next(); d == nil {
			c.busy--
		}
		c.mu.Unlock()
	}
}

// next takes what a slot is to work on: the feeds that have something ready take turns.
// The caller holds mu.
func (c *crew) next() (*feed, *delivery) {
	if c.closed {
		return nil, nil
	}
	for i := range c.feeds {
		f := c.feeds[(c.turn+i)%len(c.feeds)]
		if len(f.backlog) == 0 || f.crowd != nil && c.crowded >= c.slots-c.spare {
			continue
		}
		c.turn = (c.turn + i + 1) % len(c.feeds)
		d := f.backlog[0]
		f.backlog = f.backlog[1:]
		if f.crowd != nil {
			c.crowded++
		}
		return f, d
	}
	return nil, nil
}
