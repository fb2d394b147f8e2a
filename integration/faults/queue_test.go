//go:build nightly

package faults_test

import (
	"context"
	"time"

	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// lost is how long a line is down: longer than its ends take to notice.
func lost() time.Duration { return long(3*time.Second, 12*time.Second) }

// cutOffNodes takes the servers away from a node, each time in another way, while it has
// calls under way.
func cutOffNodes(ctx context.Context, s *fixture) {
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
			s.heard(ctx)
			for _, l := range n.lines {
				do(l)
			}
			s.target.Release()
			s.inject(how, 1)
			s.must(poll.Rest(ctx, lost()))
			for _, l := range n.lines {
				l.Heal()
			}
			s.must(n.ready(ctx))
			s.goOn(ctx, "the load behind lines that were "+how)
		}
	}
}

// deafLeader lets a partition's leader say what it wants and hear nothing.
func deafLeader(ctx context.Context, s *fixture) { oneWay(ctx, s, false) }

// muteLeader lets it hear everything and say nothing.
func muteLeader(ctx context.Context, s *fixture) { oneWay(ctx, s, true) }

func oneWay(ctx context.Context, s *fixture, mute bool) {
	for range s.times(1, 3) {
		group := schemas.LogStream(s.chance.IntN(s.layout.Partitions))
		i, err := s.cluster.Leader(ctx, group)
		s.must(err)
		s.cluster.Deafen(i, mute)
		s.elsewhere(ctx, i, group)
		s.must(poll.Rest(ctx, lost()))
		s.cluster.Heal()
		s.must(s.cluster.Healthy(ctx))
		s.goOn(ctx, "the load with the old leader back")
	}
}

// leaderUnreached cuts every node's line to a partition's leader: it has the followers, and
// they have the nodes.
func leaderUnreached(ctx context.Context, s *fixture) {
	for range s.times(1, 3) {
		i, err := s.cluster.Leader(ctx, schemas.LogStream(0))
		s.must(err)
		for _, n := range s.nodes {
			n.lines[i].Cut()
		}
		s.goOn(ctx, "the load over the followers")
		s.inject("went round", 1)
		for _, n := range s.nodes {
			n.lines[i].Heal()
		}
	}
}

// badWeather delays every packet between all processes by 100 ms, half of that more or less,
// and loses one of twenty.
func badWeather(ctx context.Context, s *fixture) {
	s.cluster.Each(func(l *cluster.Link) {
		l.Set(cluster.Weather{Delay: 100 * time.Millisecond, Jitter: 50 * time.Millisecond, Loss: 50})
	})
	for range s.times(1, 4) {
		s.goOn(ctx, "the load in bad weather")
		s.inject("went on", 1)
	}
}

// storm breaks every connection of every node every two seconds: nothing runs full of what
// was begun for each.
func storm(ctx context.Context, s *fixture) {
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
		s.must(poll.Rest(ctx, 2*time.Second))
	}
	s.inject("ends of connections broken", broken)
	s.goOn(ctx, "the load behind the storm")
	s.must(until(ctx, "goroutines to end", func() bool { return s.goroutines(ctx) < before*1.5 }))
}

// goroutines are those of all nodes.
func (s *fixture) goroutines(ctx context.Context) float64 {
	total := 0.0
	for _, n := range s.nodes {
		total += n.gauge(ctx, "go_goroutines")
	}
	return total
}
