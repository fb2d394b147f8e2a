package broker

import (
	"context"
	"errors"
	"time"

	"weir/internal/fault"
)

const (
	// positionEvery is how often the place of a quiet queue is checked, and how long the queue must
	// have delivered nothing. It must be much longer than the server takes to count a new message.
	positionEvery = 15 * time.Second
	// positionLag is how many records a place may lag before it is moved.
	positionLag = 10_000
)

// advancePosition moves the place of a quiet queue forward. The server stores the place of the last
// delivered message, and when it starts it searches every record after it, a million per second,
// while no writes are possible. A queue that is seldom used would cost that at each start.
//
// The new place is the newest record of the previous check. The queue must have delivered nothing
// since then although a pull was pending, and must have no pending or unacknowledged message. On a
// cluster the stream's leader must confirm that, because the queue's may be late. Later messages
// are delivered as usual, and once more if they were on their way. After an error the next check
// tries again.
func (f *feed) advancePosition() {
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
	_, newest, err := f.s.b.Bounds(ctx, f.stream)
	if err != nil {
		return
	}
	if before > 0 && before <= newest {
		f.movePosition(ctx, before)
	}
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	if len(f.held) == 0 { // otherwise a message was delivered since
		f.looked = newest
	}
}

// movePosition makes to the last record that the queue has passed.
func (f *feed) movePosition(ctx context.Context, to uint64) {
	c, err := f.s.b.js.Consumer(ctx, f.stream, string(f.queue))
	if err != nil {
		return
	}
	info := c.CachedInfo()
	seen := info.Delivered.Stream
	done := info.NumPending == 0 && info.NumAckPending == 0 && info.AckFloor.Stream == seen
	if !done || seen == 0 || seen+f.s.cfg.PositionLag > to { // seen is 0: a start finds it empty at once
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
