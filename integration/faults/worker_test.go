//go:build nightly

package faults_test

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"weir/internal/weirtest/crowd"
	"weir/internal/weirtest/poll"
)

// standStill stops a worker for longer than the ack wait while the target has its calls,
// and lets it go on when others have taken what it had.
func standStill(ctx context.Context, s *scene) {
	for _, n := range s.workers() {
		s.target.Hold(s.slug())
		for range 8 { // each worker has some of them
			s.heard(ctx)
		}
		s.must(n.pause())
		s.target.Release()
		s.must(poll.Rest(ctx, s.log.ackWait+time.Second))
		s.must(n.resume())
		s.bite("stood still", 1)
		s.goOn(ctx, "the load goes on")
		if !*all {
			return
		}
	}
}

// standDeclared has a worker stop itself when a call is on the log and no byte of it has
// left, until another worker has ended the action, and then go on.
func standDeclared(ctx context.Context, s *scene) {
	for i, n := range s.workers()[:s.times(1, len(s.workers()))] {
		name := fmt.Sprintf("%s-stop%d-", s.slug(), i)
		s.must(s.restart(ctx, n, "WEIR_FAILPOINT=declared@"+name+"=stop"))
		for k := 0; !n.reached("declared " + name); k++ { // the others take some of them
			s.crowd.Send(ctx, crowd.Order{Name: name + strconv.Itoa(k), Class: crowd.Post, Watch: true})
			s.must(poll.Rest(ctx, 100*time.Millisecond))
		}
		n.mark()
		stood := ""
		err := until(ctx, "another worker to end what it has", func() bool {
			stood = n.at("declared")
			return s.crowd.Ended(stood)
		})
		s.must(err)
		s.bite("ended by another", 1)
		s.must(n.resume())
		s.goOn(ctx, "the load goes on")
	}
}

// giveAgain has every message of the row given out again, three times, under load.
func giveAgain(ctx context.Context, s *scene) {
	for range 3 {
		n, err := s.log.again(ctx)
		s.must(err)
		s.bite("queues reset", n)
		s.goOn(ctx, "the load goes on")
	}
}
