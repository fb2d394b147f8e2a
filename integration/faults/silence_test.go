//go:build nightly

package faults_test

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/weirtest/history"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// quiet is how long nobody is told an end before it is said what waits.
const quiet = 20 * time.Second

// shownOpen is how many actions without an end are shown.
const shownOpen = 10

// listen says, until stop, what waits whenever the clients have been told nothing for a while:
// what the servers say of the queues, and the newest record of each action without an end.
func (s *scene) listen(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	left := make(chan struct{})
	go func() {
		defer close(left)
		told, since, said := 0, time.Now(), false
		for poll.Rest(ctx, time.Second) == nil {
			switch now := s.crowd.Counts().Told; {
			case now != told:
				told, since, said = now, time.Now(), false
			case !said && time.Since(since) > quiet:
				said = true
				s.say("nobody was told an end for %s", quiet)
				s.waiting(ctx)
			}
		}
	}()
	return func() {
		cancel()
		<-left
	}
}

// waiting says what waits. Servers that are away cannot be asked.
func (s *scene) waiting(ctx context.Context) {
	err := func() error {
		ctx, cancel := context.WithTimeout(ctx, answered)
		defer cancel()
		return s.log.queues(ctx, func(stream string, q *jetstream.ConsumerInfo) error {
			if q.NumPending > 0 || q.NumAckPending > 0 {
				s.say("  queue %s of %s: %d to be given out, %d with workers (%d again), %d asked for; given out to %d, acknowledged to %d",
					q.Name, stream, q.NumPending, q.NumAckPending, q.NumRedelivered, q.NumWaiting, q.Delivered.Stream, q.AckFloor.Stream)
			}
			return nil
		})
	}()
	if err != nil {
		s.say("  queues: %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	var run history.Run
	if err := s.log.fill(ctx, &run); err != nil {
		s.say("  log: %v", err)
	}
	newest := map[schemas.Ref]schemas.Record{}
	for _, r := range run.Log {
		if ref, _, err := schemas.ParseSubject(r.Subject); err == nil {
			newest[ref] = r
		}
	}
	open := 0
	for _, a := range history.Read(run.Log) {
		if a.Settled() != nil {
			continue
		}
		if open++; open <= shownOpen {
			r := newest[a.Ref]
			s.say("  open: %s, newest %s %d of %s: %.300s", a.ID, r.Stream, r.Seq, r.Time.Format(time.TimeOnly), r.Data)
		}
	}
	s.say("  %d have no end", open)
}
