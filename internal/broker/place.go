package broker

import (
	"context"
	"errors"
	"time"

	"weir/internal/fault"
)

const (
	// placeEvery is how often a quiet queue's place is looked at. It is also how long a
	// queue must have given out nothing: much longer than the server takes to count a
	// message that was just stored.
	placeEvery = 15 * time.Second
	// placeBehind is how many records a place may lie behind before it is moved.
	placeBehind = 10_000
)

// keepPlace moves the place of a queue that has been quiet behind what the log has taken
// meanwhile. The server keeps the place of the last message that it gave out, and when it
// starts it looks for the next one through every record since, a million a second, while
// nobody can write. A queue that is seldom used would cost that at each start.
//
// The place is moved to the newest record as of the look before, and only where nothing has
// been given out since that look although the feed had asked, and nothing is left to be
// given out or acknowledged. On a cluster the stream's leader must say so too: the queue's may
// be at a server that has not seen all that is stored. What came behind it is given out as ever, and once more if it was already on its way. What
// fails is left for the next look.
func (f *feed) keepPlace() {
	f.slots.mu.Lock()
	quiet := !f.closing && !f.hold && f.asked > 0 && len(f.held) == 0
	before := f.looked
	f.looked = 0
	f.slots.mu.Unlock()
	if !quiet {
		return
	}
	ctx, cancel := context.WithTimeout(f.handlers, readTimeout)
	defer cancel()
	stream, err := f.s.b.js.Stream(ctx, f.stream)
	if err != nil {
		return
	}
	newest := stream.CachedInfo().State.LastSeq
	if before > 0 && before <= newest {
		f.movePlace(ctx, before)
	}
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	if len(f.held) == 0 { // what has come in the meantime has a place of its own
		f.looked = newest
	}
}

// movePlace makes the record at to the last one that the queue has seen.
func (f *feed) movePlace(ctx context.Context, to uint64) {
	c, err := f.s.b.js.Consumer(ctx, f.stream, string(f.queue))
	if err != nil {
		return
	}
	info := c.CachedInfo()
	seen := info.Delivered.Stream
	done := info.NumPending == 0 && info.NumAckPending == 0 && info.AckFloor.Stream == seen
	if !done || seen == 0 || seen+f.s.cfg.PlaceBehind > to { // a queue that never gave anything out is found empty at once
		return
	}
	if f.s.b.cfg.Replicas > 1 {
		next, err := f.s.b.Next(ctx, f.stream, f.config.FilterSubject, seen+1)
		if !errors.Is(err, fault.ErrNotFound) && (err != nil || next.Seq <= to) {
			return
		}
	}
	if _, err := f.s.b.js.ResetConsumerToSequence(ctx, f.stream, string(f.queue), to+1); err != nil {
		f.warn("place_not_moved")
	}
}
