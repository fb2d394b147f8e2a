package destination

import (
	"encoding/json"
	"maps"
	"time"
)

const accountVersion = 1

// Limits are what an entry grants to all workers together.
type Limits struct {
	// Count calls may begin in each Per; 0: any number.
	Count int
	Per   time.Duration
	// Concurrency is how many may be under way at a time; 0: any number.
	Concurrency int
}

func (l Limits) none() bool { return l.Count == 0 && l.Concurrency == 0 }

// every is how far apart calls are that come as often as they may.
func (l Limits) every() time.Duration { return max(1, l.Per/time.Duration(l.Count)) }

// burst is how many calls may come at once: what may come in a second, and at least one.
func (l Limits) burst() int { return max(1, int(time.Second/l.every())) }

// account is what all workers have used of an entry's limits: the value of its key.
type account struct {
	V     int    `json:"v"`
	Entry string `json:"entry"`
	// Next is when the next call would begin if all came as far apart as they may, in
	// microseconds of Unix time. What was booked lies in front of it.
	Next int64 `json:"next,omitempty"`
	// Seats are how many calls at a time each worker has taken for itself.
	Seats map[string]lease `json:"seats,omitempty"`
}

// lease is a worker's share. It is free again when it is not renewed in time.
type lease struct {
	N     int   `json:"n"`
	Until int64 `json:"until"` // milliseconds of Unix time
}

func decodeAccount(data []byte) (account, bool) {
	var a account
	err := json.Unmarshal(data, &a)
	return a, err == nil && a.V == accountVersion
}

// clone is a copy that shares nothing.
func (a *account) clone() account {
	c := *a
	c.Seats = maps.Clone(a.Seats)
	return c
}

// free is how many calls at a time nobody has taken.
func (a *account) free(limit int, now time.Time) int {
	for _, l := range a.Seats {
		if l.Until > now.UnixMilli() {
			limit -= l.N
		}
	}
	return max(0, limit)
}

// seats has a worker hold n seats for as long as a lease lasts.
func (a *account) seat(worker string, n int, until time.Time) {
	if a.Seats == nil {
		a.Seats = map[string]lease{}
	}
	if n == 0 {
		delete(a.Seats, worker)
		return
	}
	a.Seats[worker] = lease{n, until.UnixMilli()}
}

// tidy drops what dead workers had.
func (a *account) tidy(now time.Time) {
	maps.DeleteFunc(a.Seats, func(_ string, l lease) bool { return l.Until <= now.UnixMilli() })
}

// draw takes up to n calls that may begin now, and returns how many it got.
func (a *account) draw(l Limits, n int, now time.Time) int {
	us, every := now.UnixMicro(), l.every().Microseconds()
	next := max(a.Next, us)
	early := us + int64(l.burst()-1)*every - next // how far the last of a burst may lie ahead
	if early < 0 {
		return 0
	}
	n = min(n, int(early/max(1, every))+1)
	a.Next = next + int64(n)*every
	return n
}

// book takes the next call that may begin at all, and returns when. It takes none that
// lies behind latest.
func (a *account) book(l Limits, now, latest time.Time) (at time.Time, ok bool) {
	every := l.every().Microseconds()
	next := max(a.Next, now.UnixMicro())
	at = time.UnixMicro(next - int64(l.burst()-1)*every)
	if !latest.IsZero() && !at.Before(latest) {
		return at, false
	}
	a.Next = next + every
	return at, true
}
