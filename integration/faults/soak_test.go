//go:build nightly

package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// move is one thing that befalls the cluster. It lasts until all is healed.
type move struct {
	what string
	do   func(ctx context.Context, s *fixture)
}

// moves are what chance chooses from.
func moves() []move {
	node := func(s *fixture) *node { return s.nodes[s.chance.IntN(len(s.nodes))] }
	server := func(s *fixture) *cluster.Server { return s.cluster.Servers[s.chance.IntN(cluster.Size)] }
	lines := func(do func(*cluster.Link)) func(context.Context, *fixture) {
		return func(_ context.Context, s *fixture) {
			for _, l := range node(s).lines {
				do(l)
			}
		}
	}
	return []move{
		{"node killed", func(_ context.Context, s *fixture) { node(s).kill() }},
		{"node paused", func(_ context.Context, s *fixture) { s.must(node(s).pause()) }},
		{"server killed", func(_ context.Context, s *fixture) { server(s).Kill() }},
		{"server paused", func(_ context.Context, s *fixture) {
			if one := server(s); !one.Ended() { // it may have been killed before
				s.must(one.Pause())
			}
		}},
		{"server isolated", func(_ context.Context, s *fixture) { s.cluster.Isolate(s.chance.IntN(cluster.Size)) }},
		{"server deaf or mute", func(_ context.Context, s *fixture) {
			s.cluster.Deafen(s.chance.IntN(cluster.Size), s.chance.IntN(2) == 0)
		}},
		{"node cut off", lines((*cluster.Link).Cut)},
		{"acks of a node held", lines(func(l *cluster.Link) { l.Hold(cluster.Back) })},
		{"lines of a node broken", lines(func(l *cluster.Link) { l.Break() })},
		{"bad weather", func(_ context.Context, s *fixture) {
			w := cluster.Weather{Delay: time.Duration(s.chance.IntN(50)) * time.Millisecond, Loss: s.chance.IntN(50)}
			w.Jitter = w.Delay / 2
			s.cluster.Each(func(l *cluster.Link) { l.Set(w) })
		}},
		{"given out again", func(ctx context.Context, s *fixture) {
			ctx, cancel := context.WithTimeout(ctx, answered)
			defer cancel()
			_, _ = s.log.again(ctx) // the cluster may be broken in other ways already, and not answer
		}},
		{"leader steps down", func(ctx context.Context, s *fixture) {
			_ = s.log.stepDown(ctx, "STREAM.LEADER.STEPDOWN."+schemas.LogStream(s.chance.IntN(s.layout.Partitions))) // as above
		}},
	}
}

// lease is how long a cluster of the soak lasts. What a run leaves on disks and in the
// memory of its processes is that of one cluster, however long it goes on.
const lease = 10 * time.Minute

// TestSoak has faults come at random, several at a time, round after round, for as long as
// -faults.soak says; each round is healed and judged, and logs what came of it.
func TestSoak(t *testing.T) { //nolint:paralleltest // it has the machine to itself
	if *soak == 0 {
		t.Log("form: none without -faults.soak; see TestFaults")
		return
	}
	begin, begun := chance(t), time.Now()
	sum := newFixture(nil, row{number: "F48", title: fmt.Sprintf("random faults for %s, two and more at a time", *soak)}, 0, 0)
	defer func() {
		sum.took, sum.failed = time.Since(begun), t.Failed()
		sum.tell(t)
	}()
	for round, end := 1, begun.Add(*soak); time.Now().Before(end) && !t.Failed(); {
		over := time.Now().Add(lease)
		if over.After(end) {
			over = end
		}
		t.Run(fmt.Sprint("from-round-", round), func(t *testing.T) {
			rig := newEnv(t, kit{})
			for ; time.Now().Before(over); round++ {
				s := newFixture(rig, row{number: "F48", title: fmt.Sprint("round ", round), fault: nemesis}, begin, round)
				s.round = round
				whole := t.Run(s.slug(), s.test)
				sum.inject("rounds", 1)
				sum.actions += s.actions
				sum.violations = append(sum.violations, s.violations...)
				sum.counts.Gap = max(sum.counts.Gap, s.counts.Gap)
				for what, n := range s.bit {
					sum.inject(what, n)
				}
				require.True(t, whole, "seed %d, round %d", begin, round) // what is broken may break what follows
			}
		})
	}
}

// nemesis makes moves for half a minute, and heals everything now and then.
func nemesis(ctx context.Context, s *fixture) {
	all := moves()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		for range 1 + s.chance.IntN(2) {
			m := all[s.chance.IntN(len(all))]
			m.do(ctx, s)
			s.inject(m.what, 1)
			s.must(poll.Rest(ctx, time.Duration(s.chance.IntN(3000))*time.Millisecond))
		}
		s.must(poll.Rest(ctx, time.Duration(s.chance.IntN(5000))*time.Millisecond))
		s.must(s.heal(ctx))
	}
}
