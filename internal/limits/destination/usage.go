package destination

import (
	"maps"
	"time"
)

const usageVersion = 1

// Limits are what an entry grants to all workers together.
type Limits struct {
	// Count calls may begin in each Per; 0: any number.
	Count int
	Per   time.Duration
	// Concurrency is how many may be under way at a time; 0: any number.
	Concurrency int
}

// every is how far apart calls are that come as often as they may.
func (l Limits) every() time.Duration { return max(1, l.Per/time.Duration(l.Count)) }

// burst is how many calls may come at once: what may come in a second, and at least one.
func (l Limits) burst() int { return max(1, int(time.Second/l.every())) }

// usage is what all workers have used of an entry's limits: the value of its key.
type usage struct {
	V     int    `json:"v"`
	Entry string `json:"entry"`
	// Next is when the next call would begin if all came as far apart as they may, in
	// microseconds of Unix time, and Every how far that was. Booked calls begin before it.
	Next  int64 `json:"next,omitempty"`
	Every int64 `json:"every,omitempty"`
	// Slots are how many calls at a time each worker has taken for itself.
	Slots map[string]lease `json:"seats,omitempty"`
}

// lease is a worker's share. It is free again when it is not renewed in time.
type lease struct {
	N     int   `json:"n"`
	Until int64 `json:"until"` // milliseconds of Unix time
}

func cloneUsage(u usage) usage {
	u.Slots = maps.Clone(u.Slots)
	return u
}

// free is how many calls at a time no worker has taken.
func (u *usage) free(limit int, now time.Time) int {
	for _, l := range u.Slots {
		if l.Until > now.UnixMilli() {
			limit -= l.N
		}
	}
	return max(0, limit)
}

// take has a worker hold n slots until a time.
func (u *usage) take(worker string, n int, until time.Time) {
	if u.Slots == nil {
		u.Slots = map[string]lease{}
	}
	u.Slots[worker] = lease{n, until.UnixMilli()}
	if n == 0 {
		delete(u.Slots, worker)
	}
}

// tidy drops the leases of dead workers.
func (u *usage) tidy(now time.Time) {
	maps.DeleteFunc(u.Slots, func(_ string, l lease) bool { return l.Until <= now.UnixMilli() })
}

// draw takes up to n calls that may begin now, and returns how many it got. If none may, it books
// the next one at a time, unless that is latest or later.
func (u *usage) draw(l Limits, n int, now, latest time.Time) (drawn int, at time.Time, booked bool) {
	every := max(1, l.every().Microseconds())
	if u.Every != every && u.Next > now.Add(time.Hour).UnixMicro() { // booked under another limit
		u.Next = 0
	}
	u.Every = every
	next := max(u.Next, now.UnixMicro())
	at = time.UnixMicro(next - int64(l.burst()-1)*every) // of the first of a burst
	early := now.UnixMicro() - at.UnixMicro()
	switch {
	case early >= 0:
		drawn = min(n, int(early/every)+1)
		u.Next = next + int64(drawn)*every
	case latest.IsZero() || at.Before(latest):
		booked = true
		u.Next = next + every
	}
	return drawn, at, booked
}
