//go:build nightly

package faults_test

import (
	"context"
	"fmt"
	"time"

	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// lost is how long a line is down: longer than its ends take to notice.
func lost() time.Duration { return long(3*time.Second, 12*time.Second) }

// cutOffNodes takes the servers away from a node, each time in another way, while it has
// calls under way.
func cutOffNodes(ctx context.Context, s *scene) error {
	ways := map[string]func(*cluster.Link){
		"cut":       (*cluster.Link).Cut,
		"held":      func(l *cluster.Link) { l.Hold(cluster.Out, cluster.Back) },
		"acks held": func(l *cluster.Link) { l.Hold(cluster.Back) },
		"half open": func(l *cluster.Link) { l.Hold(cluster.Out) },
	}
	for how, do := range ways {
		for range s.times(1, 2) {
			n := s.nodes[s.chance.IntN(len(s.nodes))]
			s.target.Hold(s.slug()) // so that there are calls whose results cannot be written
			if _, err := s.heard(ctx); err != nil {
				return err
			}
			for _, l := range n.lines {
				do(l)
			}
			s.target.Release()
			s.bite(how, 1)
			if err := poll.Rest(ctx, lost()); err != nil {
				return err
			}
			for _, l := range n.lines {
				l.Heal()
			}
			if err := n.ready(ctx); err != nil {
				return fmt.Errorf("after its lines were %s: %w", how, err)
			}
			if err := s.goOn(ctx, "the load behind lines that were "+how); err != nil {
				return err
			}
		}
	}
	return nil
}

// deafLeader lets a partition's leader say what it wants and hear nothing.
func deafLeader(ctx context.Context, s *scene) error { return oneWay(ctx, s, false) }

// muteLeader lets it hear everything and say nothing.
func muteLeader(ctx context.Context, s *scene) error { return oneWay(ctx, s, true) }

func oneWay(ctx context.Context, s *scene, mute bool) error {
	for range s.times(1, 3) {
		group := schemas.LogStream(s.chance.IntN(s.layout.Partitions))
		i, err := s.cluster.Leader(ctx, group)
		if err != nil {
			return err
		}
		s.cluster.Deafen(i, mute)
		if err := s.elsewhere(ctx, i, group); err != nil {
			return err
		}
		if err := poll.Rest(ctx, lost()); err != nil {
			return err
		}
		s.cluster.Heal()
		if err := s.cluster.Healthy(ctx); err != nil {
			return err
		}
		if err := s.goOn(ctx, "the load with the old leader back"); err != nil {
			return err
		}
	}
	return nil
}

// leaderUnreached cuts every node's line to a partition's leader: it has the followers, and
// they have the nodes.
func leaderUnreached(ctx context.Context, s *scene) error {
	for range s.times(1, 3) {
		i, err := s.cluster.Leader(ctx, schemas.LogStream(0))
		if err != nil {
			return err
		}
		for _, n := range s.nodes {
			n.lines[i].Cut()
		}
		if err := s.goOn(ctx, "the load over the followers"); err != nil {
			return err
		}
		s.bite("went round", 1)
		for _, n := range s.nodes {
			n.lines[i].Heal()
		}
	}
	return nil
}

// badWeather delays every packet between all processes by 100 ms, half of that more or less,
// and loses one of twenty.
func badWeather(ctx context.Context, s *scene) error {
	s.cluster.Each(func(l *cluster.Link) {
		l.Set(cluster.Weather{Delay: 100 * time.Millisecond, Jitter: 50 * time.Millisecond, Loss: 50})
	})
	for range s.times(1, 4) {
		if err := s.goOn(ctx, "the load in bad weather"); err != nil {
			return err
		}
		s.bite("went on", 1)
	}
	return nil
}

// storm breaks every connection of every node every two seconds: nothing runs full of what
// was begun for each.
func storm(ctx context.Context, s *scene) error {
	before := s.goroutines(ctx)
	broken := 0
	for range s.times(3, 30) {
		for _, n := range s.nodes {
			for _, l := range n.lines {
				b := l.Broken()
				l.Break()
				broken += l.Broken() - b
			}
		}
		if err := poll.Rest(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	s.bite("ends of connections broken", broken)
	if err := s.goOn(ctx, "the load behind the storm"); err != nil {
		return err
	}
	return until(ctx, "goroutines to end", func() bool { return s.goroutines(ctx) < before*1.5 })
}

// goroutines are those of all nodes.
func (s *scene) goroutines(ctx context.Context) float64 {
	total := 0.0
	for _, n := range s.nodes {
		total += n.gauge(ctx, "go_goroutines")
	}
	return total
}
