package history

import (
	"slices"

	"weir/schemas"
)

// watched is I7. It reads what readers were given against the log: the events of their
// action behind the position from which they read, each once and in order, and all up to
// the end where they were told that there is nothing more. The order is the log's own: an
// action's events are numbered without a gap.
func (c *checker) watched() {
	for _, a := range c.actions {
		for i, ev := range a.Events {
			if ev.N != i+1 && a.Accepted() != nil && len(a.Unread) == 0 && len(a.Of(schemas.EventAccepted)) == 1 {
				c.breach("I7", a.Tenant, a.ID, "event %d at %d calls itself %d", i+1, ev.Seq, ev.N)
				break
			}
		}
	}
	for _, w := range c.run.Watched {
		c.reader(w)
	}
}

func (c *checker) reader(w Watched) {
	var all []uint64
	last := uint64(0) // up to where one who was told of the end must have read
	for _, a := range c.byID[place{w.Tenant, w.ID}] {
		for _, ev := range a.Events {
			if ev.Seq <= w.After {
				continue
			}
			all = append(all, ev.Seq)
			if ev.Type == schemas.EventSettled && last == 0 {
				last = ev.Seq
			}
		}
	}
	for i, seq := range w.IDs {
		switch {
		case i < len(all) && all[i] == seq:
		case slices.Contains(w.IDs[:i], seq):
			c.breach("I7", w.Tenant, w.ID, "a reader was given %d twice", seq)
			return
		case !slices.Contains(all, seq):
			c.breach("I7", w.Tenant, w.ID, "a reader was given %d, which is no event of it behind %d", seq, w.After)
			return
		default:
			c.breach("I7", w.Tenant, w.ID, "a reader was given %d in the place of another", seq)
			return
		}
	}
	if w.Ended && last > 0 && !slices.Contains(w.IDs, last) {
		c.breach("I7", w.Tenant, w.ID, "a reader was told of the end behind %d of %d events", len(w.IDs), len(all))
	}
}
