//go:build nightly

package faults_test

import (
	"context"
	"os"

	"github.com/nats-io/nats.go/jetstream"

	"weir/schemas"
)

// roll ends each node with SIGTERM under load and has another take its place; in the whole
// all of them once more. Nobody is left in doubt by it.
func roll(ctx context.Context, s *scene) {
	for range s.times(1, 2) {
		s.change(ctx, s.weir)
	}
	s.certain = true
}

// change has a program take the place of each node, one after the other.
func (s *scene) change(ctx context.Context, to string) {
	for _, n := range s.nodes {
		s.must(n.terminate(ctx))
		n.binary = to
		s.must(n.start())
		s.must(n.ready(ctx))
		s.bite("nodes changed", 1)
		s.goOn(ctx, "the load with another "+n.name)
	}
}

// stepDown has every group of the log choose another leader, several times, under load.
func stepDown(ctx context.Context, s *scene) {
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
			s.bite("leaders asked to step down", 1)
		}
		s.goOn(ctx, "the load under other leaders")
	}
}

// replace has an empty server take the place of each, one after the other, while nothing is
// asked: the others give it all that it lacks.
func replace(ctx context.Context, s *scene) {
	s.must(s.crowd.Rest())
	_, err := s.log.drained(ctx)
	s.must(err)
	for _, server := range s.cluster.Servers {
		server.Kill()
		s.must(os.RemoveAll(server.Store))
		s.revive(ctx)
		s.bite("servers replaced", 1)
	}
	s.crowd.Start(ctx)
}
