package broker

import (
	"errors"
	"time"

	"weir/internal/fault"
)

const (
	// positionEvery is how often the position of a queue is checked. It must be much longer than the
	// server takes to count a new message.
	positionEvery = 15 * time.Second
	// positionLag is how many records a position may lag before it is moved.
	positionLag = 10_000
)

// advancePosition moves the position of a quiet queue forward to a record that was the stream's newest
// at the previous check, and returns the newest one now; 0 if that is unknown. The server stores the
// position of the last delivered message, and when it starts it searches every record after it, a
// million per second, while no writes are possible. A queue that is seldom used would cost that at each
// start.
//
// The queue must have no pending or unacknowledged message: the server has long counted what was stored
// before the previous check. On a cluster the stream's leader must confirm that, because the queue's may
// be late. Later messages are delivered as usual, and once more if they were on their way. After an
// error the next check tries again.
func (f *feed) advancePosition(to uint64) (newest uint64) {
	_, newest, err := f.s.b.Bounds(f.handlers, f.stream)
	if err != nil || to == 0 || to > newest {
		return newest
	}
	c, err := f.s.b.js.Consumer(f.handlers, f.stream, string(f.queue))
	if err != nil {
		return newest
	}
	info := c.CachedInfo()
	seen := info.Delivered.Stream
	done := info.NumPending == 0 && info.NumAckPending == 0 && info.AckFloor.Stream == seen
	if !done || seen == 0 || seen+f.s.cfg.PositionLag > to { // seen is 0: a start finds it empty at once
		return newest
	}
	if f.s.b.cfg.Replicas > 1 {
		next, err := f.s.b.Next(f.handlers, f.stream, f.config.FilterSubject, seen+1)
		if !errors.Is(err, fault.ErrNotFound) && (err != nil || next.Seq <= to) {
			return newest
		}
	}
	if _, err := f.s.b.js.ResetConsumerToSequence(f.handlers, f.stream, string(f.queue), to+1); err != nil {
		f.warn("place_not_moved")
	}
	return newest
}
