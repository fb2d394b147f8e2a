//go:build nightly

package faults_test

import (
	"context"
	"fmt"
	"os"

	"github.com/nats-io/nats.go/jetstream"

	"weir/schemas"
)

// roll ends each node with SIGTERM under load and has another take its place; in the whole
// all of them once more. Nobody is left in doubt by it.
func roll(ctx context.Context, s *scene) error {
	for range s.times(1, 2) {
		if err := s.change(ctx, s.weir); err != nil {
			return err
		}
	}
	s.certain = true
	return nil
}

// change has a program take the place of each node, one after the other.
func (s *scene) change(ctx context.Context, to string) error {
	for _, n := range s.nodes {
		if err := n.terminate(ctx); err != nil {
			return fmt.Errorf("%s did not end as asked: %w", n.name, err)
		}
		n.binary = to
		if err := n.start(); err != nil {
			return err
		}
		if err := n.ready(ctx); err != nil {
			return err
		}
		s.bite("nodes changed", 1)
		if err := s.goOn(ctx, "the load with another "+n.name); err != nil {
			return err
		}
	}
	return nil
}

// stepDown has every group of the log choose another leader, several times, under load.
func stepDown(ctx context.Context, s *scene) error {
	groups := []string{"META.LEADER.STEPDOWN", "STREAM.LEADER.STEPDOWN." + schemas.EvidenceStream}
	for _, name := range s.log.partitions() {
		groups = append(groups, "STREAM.LEADER.STEPDOWN."+name)
	}
	err := s.log.queues(ctx, func(stream string, info *jetstream.ConsumerInfo) error {
		groups = append(groups, "CONSUMER.LEADER.STEPDOWN."+stream+"."+info.Name)
		return nil
	})
	if err != nil {
		return err
	}
	for range s.times(1, 5) {
		for _, group := range groups {
			if err := s.log.stepDown(ctx, group); err != nil {
				return err
			}
			s.bite("leaders asked to step down", 1)
		}
		if err := s.goOn(ctx, "the load under other leaders"); err != nil {
			return err
		}
	}
	return nil
}

// replace has an empty server take the place of each, one after the other, while nothing is
// asked: the others give it all that it lacks.
func replace(ctx context.Context, s *scene) error {
	if err := s.crowd.Rest(); err != nil {
		return err
	}
	if _, err := s.log.drained(ctx); err != nil {
		return err
	}
	for _, server := range s.cluster.Servers {
		server.Kill()
		if err := os.RemoveAll(server.Store); err != nil {
			return err
		}
		if err := s.revive(ctx); err != nil {
			return fmt.Errorf("with an empty %s: %w", server.Name, err)
		}
		s.bite("servers replaced", 1)
	}
	s.crowd.Start(ctx)
	return nil
}
