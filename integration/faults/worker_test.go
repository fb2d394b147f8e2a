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
func standStill(ctx context.Context, s *scene) error {
	for _, n := range s.workers() {
		s.target.Hold(s.slug())
		for range 8 { // each worker has some of them
			if _, err := s.heard(ctx); err != nil {
				return err
			}
		}
		if err := n.pause(); err != nil {
			return err
		}
		s.target.Release()
		if err := poll.Rest(ctx, s.log.ackWait+time.Second); err != nil {
			return err
		}
		if err := n.resume(); err != nil {
			return err
		}
		s.bite("stood still", 1)
		if err := s.goOn(ctx, "the load goes on"); err != nil {
			return err
		}
		if !*all {
			return nil
		}
	}
	return nil
}

// standDeclared has a worker stop itself when a call is on the log and no byte of it has
// left, until another worker has ended the action, and then go on.
func standDeclared(ctx context.Context, s *scene) error {
	for i, n := range s.workers()[:s.times(1, len(s.workers()))] {
		name := fmt.Sprintf("%s-stop%d-", s.slug(), i)
		if err := s.restart(ctx, n, "WEIR_FAILPOINT=declared@"+name+"=stop"); err != nil {
			return err
		}
		for k := 0; !n.reached("declared " + name); k++ { // the others take some of them
			s.crowd.Send(ctx, crowd.Order{Name: name + strconv.Itoa(k), Class: crowd.Post, Watch: true})
			if err := poll.Rest(ctx, 100*time.Millisecond); err != nil {
				return fmt.Errorf("no worker came to stand still: %w", err)
			}
		}
		n.mark()
		stood := ""
		err := until(ctx, "another worker to end what it has", func() bool {
			stood = n.at("declared")
			return s.crowd.Ended(stood)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", stood, err)
		}
		s.bite("ended by another", 1)
		if err := n.resume(); err != nil {
			return err
		}
		if err := s.goOn(ctx, "the load goes on"); err != nil {
			return err
		}
	}
	return nil
}

// giveAgain has every message of the row given out again, three times, under load.
func giveAgain(ctx context.Context, s *scene) error {
	for range 3 {
		n, err := s.log.again(ctx)
		if err != nil {
			return err
		}
		s.bite("queues reset", n)
		if err := s.goOn(ctx, "the load goes on"); err != nil {
			return err
		}
	}
	return nil
}
