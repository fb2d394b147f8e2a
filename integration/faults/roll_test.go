//go:build nightly

package faults_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/weirtest/callers"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// roll ends each node with SIGTERM under load and has another take its place; in the whole
// all of them once more. Nobody is left in doubt by it.
func roll(ctx context.Context, s *fixture) {
	for range s.times(1, 2) {
		s.change(ctx, s.weir)
	}
	s.certain = true
}

// change has a program take the place of each node, one after the other.
func (s *fixture) change(ctx context.Context, to string) {
	for _, n := range s.nodes {
		s.must(n.terminate(ctx))
		n.binary = to
		s.must(n.start())
		s.must(n.ready(ctx))
		s.inject("nodes changed", 1)
		s.goOn(ctx, "the load with another "+n.name)
	}
}

// stepDown has every group of the log choose another leader, several times, under load.
func stepDown(ctx context.Context, s *fixture) {
	groups := []string{"META.LEADER.STEPDOWN", "STREAM.LEADER.STEPDOWN." + schemas.EvidenceStream}
	for _, name := range s.log.partitions() {
		groups = append(groups, "STREAM.LEADER.STEPDOWN."+name)
	}
	err := s.log.queues(ctx, func(stream string, info *jetstream.ConsumerInfo) error {
		groups = append(groups, "CONSUMER.LEADER.STEPDOWN."+stream+"."+info.Name)
		return nil
	})
	s.must(err)
	for range s.times(1, 5) {
		for _, group := range groups {
			s.must(s.log.stepDown(ctx, group))
			s.inject("leaders asked to step down", 1)
		}
		s.goOn(ctx, "the load under other leaders")
	}
}

// replace has an empty server take the place of each, one after the other, while nothing is
// asked: the others give it all that it lacks.
func replace(ctx context.Context, s *fixture) {
	s.must(s.crowd.Stop())
	_, err := s.log.drained(ctx)
	s.must(err)
	for _, server := range s.cluster.Servers {
		server.Kill()
		s.must(os.RemoveAll(server.Store))
		s.revive(ctx)
		s.inject("servers replaced", 1)
	}
	s.crowd.Start(ctx)
}

// standStill stops a worker for longer than the ack wait while the target has its calls,
// and lets it go on when others have taken what it had.
func standStill(ctx context.Context, s *fixture) {
	for _, n := range s.workers() {
		s.target.Hold(s.slug())
		for range 8 { // each worker has some of them
			s.heard(ctx)
		}
		s.must(n.pause())
		s.target.Release()
		s.must(poll.Rest(ctx, s.log.ackWait+time.Second))
		s.must(n.resume())
		s.inject("stood still", 1)
		s.goOn(ctx, "the load goes on")
		if !*all {
			return
		}
	}
}

// standDeclared has a worker stop itself when a call is on the log and no byte of it has
// left, until another worker has ended the action, and then go on.
func standDeclared(ctx context.Context, s *fixture) {
	for i, n := range s.workers()[:s.times(1, len(s.workers()))] {
		name := fmt.Sprintf("%s-stop%d-", s.slug(), i)
		s.must(s.restart(ctx, n, "WEIR_FAILPOINT=declared@"+name+"=stop"))
		for k := 0; !n.reached("declared " + name); k++ { // the others take some of them
			s.crowd.Send(ctx, callers.Order{Name: name + strconv.Itoa(k), Class: callers.Post, Watch: true})
			s.must(poll.Rest(ctx, 100*time.Millisecond))
		}
		n.mark()
		stood := ""
		err := until(ctx, "another worker to end what it has", func() bool {
			stood = n.at("declared")
			return s.crowd.Ended(stood)
		})
		s.must(err)
		s.inject("ended by another", 1)
		s.must(n.resume())
		s.goOn(ctx, "the load goes on")
	}
}

// giveAgain has every message of the row given out again, three times, under load.
func giveAgain(ctx context.Context, s *fixture) {
	for range 3 {
		n, err := s.log.again(ctx)
		s.must(err)
		s.inject("queues reset", n)
		s.goOn(ctx, "the load goes on")
	}
}
