//go:build nightly

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/history"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// move is one thing that befalls the cluster. It lasts until all is healed.
type move struct {
	what string
	do   func(ctx context.Context, s *scene) error
}

// moves are what chance chooses from.
func moves() []move {
	node := func(s *scene) *node { return s.nodes[s.chance.IntN(len(s.nodes))] }
	server := func(s *scene) *cluster.Server { return s.cluster.Servers[s.chance.IntN(cluster.Size)] }
	lines := func(do func(*cluster.Link)) func(context.Context, *scene) error {
		return func(_ context.Context, s *scene) error {
			for _, l := range node(s).lines {
				do(l)
			}
			return nil
		}
	}
	return []move{
		{"node killed", func(_ context.Context, s *scene) error { node(s).kill(); return nil }},
		{"node paused", func(_ context.Context, s *scene) error { return node(s).pause() }},
		{"server killed", func(_ context.Context, s *scene) error { server(s).Kill(); return nil }},
		{"server paused", func(_ context.Context, s *scene) error { return server(s).Pause() }},
		{"server isolated", func(_ context.Context, s *scene) error { s.cluster.Isolate(s.chance.IntN(cluster.Size)); return nil }},
		{"server deaf or mute", func(_ context.Context, s *scene) error {
			s.cluster.Deafen(s.chance.IntN(cluster.Size), s.chance.IntN(2) == 0)
			return nil
		}},
		{"node cut off", lines((*cluster.Link).Cut)},
		{"acks of a node held", lines(func(l *cluster.Link) { l.Hold(cluster.Back) })},
		{"lines of a node broken", lines((*cluster.Link).Break)},
		{"bad weather", func(_ context.Context, s *scene) error {
			w := cluster.Weather{Delay: time.Duration(s.chance.IntN(50)) * time.Millisecond, Loss: s.chance.IntN(50)}
			w.Jitter = w.Delay / 2
			s.cluster.Each(func(l *cluster.Link) { l.Set(w) })
			return nil
		}},
		{"given out again", func(ctx context.Context, s *scene) error {
			ctx, cancel := context.WithTimeout(ctx, answered)
			defer cancel()
			_, err := s.log.again(ctx)
			return unanswered(err)
		}},
		{"leader steps down", func(ctx context.Context, s *scene) error {
			return unanswered(s.log.stepDown(ctx, "STREAM.LEADER.STEPDOWN."+schemas.LogStream(s.chance.IntN(s.layout.Partitions))))
		}},
	}
}

// unanswered forgives what was asked of a cluster that is broken in other ways already.
func unanswered(error) error { return nil }

// lease is how long a cluster of the soak lasts. What a run leaves on disks and in the
// memory of its processes is that of one cluster, however long it goes on.
const lease = 10 * time.Minute

// TestSoak has faults come at random, several at a time, round after round, for as long as
// -faults.soak says; each round is healed and judged. It says each minute how far it is.
func TestSoak(t *testing.T) { //nolint:paralleltest // it has the machine to itself
	if *soak == 0 {
		t.Log("form: none without -faults.soak; see TestFaults")
		return
	}
	begin, sum := chance(t), &sum{begun: time.Now(), bit: map[string]int{}}
	defer sum.tell(t)
	defer sum.report(t)()
	for round, end := 1, time.Now().Add(*soak); time.Now().Before(end); {
		over := time.Now().Add(lease)
		if over.After(end) {
			over = end
		}
		whole := t.Run(fmt.Sprint("from-round-", round), func(t *testing.T) {
			rig := newRig(t, kit{})
			for ; time.Now().Before(over); round++ {
				s := newScene(rig, row{number: "F48", title: fmt.Sprint("round ", round), fault: nemesis}, begin, round)
				s.round = round
				whole := t.Run(s.slug(), s.test)
				sum.add(s)
				require.True(t, whole, "seed %d, round %d", begin, round)
			}
		})
		if !whole {
			return // what is broken may break what follows
		}
	}
}

// sum is what a soak has come to. It is safe for concurrent use.
type sum struct {
	begun time.Time

	mu                          sync.Mutex
	rounds, actions, violations int
	gap                         time.Duration
	bit                         map[string]int
}

func (u *sum) add(s *scene) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rounds++
	u.actions += s.actions
	u.violations += len(s.violations)
	u.gap = max(u.gap, s.counts.Gap)
	for what, n := range s.bit {
		u.bit[what] += n
	}
}

func (u *sum) faults() (n int) {
	for _, some := range u.bit {
		n += some
	}
	return n
}

// report logs how far the soak is, each minute, until stop.
func (u *sum) report(t *testing.T) (stop func()) {
	t.Helper()
	minute, over, left := time.NewTicker(time.Minute), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		for {
			select {
			case <-minute.C:
				u.mu.Lock()
				t.Logf("after %s: %d rounds judged, %d faults, %d actions, %d violations",
					time.Since(u.begun).Round(time.Second), u.rounds, u.faults(), u.actions, u.violations)
				u.mu.Unlock()
			case <-over:
				return
			}
		}
	}()
	return func() {
		minute.Stop()
		close(over)
		<-left
	}
}

// tell leaves the soak's line, and logs how often each sort of fault came.
func (u *sum) tell(t *testing.T) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &scene{row: row{number: "F48", title: fmt.Sprintf("random faults for %s, two and more at a time, in %d rounds", *soak, u.rounds)}, actions: u.actions, failed: t.Failed()}
	s.bit = map[string]int{fmt.Sprintf("faults of %d sorts", len(u.bit)): u.faults()}
	s.counts.Gap, s.took = u.gap, time.Since(u.begun)
	s.violations = make([]history.Violation, u.violations)
	s.tell(t)
	for _, what := range slices.Sorted(maps.Keys(u.bit)) {
		t.Logf("| %s | %d |", what, u.bit[what])
	}
}

// nemesis makes moves for half a minute, and heals everything now and then.
func nemesis(ctx context.Context, s *scene) error {
	all := moves()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		for range 1 + s.chance.IntN(2) {
			m := all[s.chance.IntN(len(all))]
			if err := m.do(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", m.what, err)
			}
			s.bite(m.what, 1)
			if err := poll.Rest(ctx, time.Duration(s.chance.IntN(3000))*time.Millisecond); err != nil {
				return err
			}
		}
		if err := poll.Rest(ctx, time.Duration(s.chance.IntN(5000))*time.Millisecond); err != nil {
			return err
		}
		if err := s.heal(ctx); err != nil {
			return errors.Join(errors.New("after "+fmt.Sprint(s.bit)), err)
		}
	}
	return nil
}
