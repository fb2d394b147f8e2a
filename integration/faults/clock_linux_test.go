//go:build nightly

package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/clock"
	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/history"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// TestClocks has the clocks of nodes and servers go wrong, step, and be put right, each by
// itself. Programs whose clocks can be turned have to be built for it.
func TestClocks(t *testing.T) { //nolint:paralleltest // each fault has the machine to itself
	if !*all {
		t.Log("form: none without -faults.all; see TestFaults")
		return
	}
	var rows []row
	w := watches{}
	for _, r := range []row{
		{number: "F28", title: "the clocks of a worker, an ingress and a server go an hour ahead, and back", fault: w.turns(time.Hour)},
		{number: "F28", title: "the clocks of a worker, an ingress and a server go back an hour, and are put right", fault: w.turns(-time.Hour)},
		{number: "F28", title: "workers die while the servers' clocks are an hour ahead", fault: w.stranded},
	} {
		if chosen(r.number, r.title) {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return
	}
	begin, rig := chance(t), w.newRig(t)
	for i, r := range rows {
		s := newFixture(rig, r, begin, i)
		s.bounds = history.Bounds{Heal: 2*time.Hour + time.Minute}
		if !t.Run(r.slug(), s.test) {
			return
		}
	}
}

// watches are the clocks by the names of nodes and servers.
type watches map[string]*clock.Clock

// newRig starts everything over clocks that can be turned.
func (w watches) newRig(t *testing.T) *env {
	t.Helper()
	dir := t.TempDir()
	args, err := clock.Overlay(dir)
	require.NoError(t, err)
	require.NoError(t, program.Build(dir, program.Failpoints, args...))
	require.NoError(t, program.Build(dir, program.NATS, args...))
	environ := func(name string) []string {
		c, err := clock.New(filepath.Join(dir, name+".clock"))
		require.NoError(t, err)
		w[name] = c
		return c.Environ()
	}
	return newEnv(t, kit{
		weir: filepath.Join(dir, program.Failpoints), environ: environ,
		cluster: cluster.Config{Binary: filepath.Join(dir, program.NATS), Environ: func(i int) []string { return environ(fmt.Sprint("n", i)) }},
	})
}

// turn turns a clock, and sees that its process goes by it.
func (w watches) turn(ctx context.Context, s *fixture, name string, by time.Duration) {
	s.must(w[name].Turn(by))
	now, err := s.clockOf(ctx, name)
	s.must(err)
	if off := time.Until(now) - by; off.Abs() > 10*time.Minute {
		s.t.Fatalf("the clock of %s was turned by %s, and is off by %s", name, by, off)
	}
	if by != 0 {
		s.inject("clocks turned", 1)
	}
}

// clockOf is the time that a node or a server tells.
func (s *fixture) clockOf(ctx context.Context, name string) (time.Time, error) {
	for _, server := range s.cluster.Servers {
		if server.Name == name {
			state, err := server.State(ctx)
			return state.Now, err
		}
	}
	for _, n := range s.nodes {
		if n.name == name {
			return n.clock(ctx)
		}
	}
	return time.Time{}, fmt.Errorf("there is no %s", name)
}

// clock is the node's time.
func (n *node) clock(ctx context.Context) (time.Time, error) {
	resp, _, err := program.Ask(ctx, http.MethodGet, n.url()+"/healthz", "", "Connection", "close")
	if err != nil {
		return time.Time{}, err
	}
	return http.ParseTime(resp.Header.Get("Date"))
}

// right puts every clock right.
func (w watches) right(ctx context.Context, s *fixture) {
	for name := range w {
		w.turn(ctx, s, name, 0)
	}
}

// turns has the clocks of one of each be wrong for a while, with calls under way when they
// step.
func (w watches) turns(by time.Duration) func(context.Context, *fixture) {
	return func(ctx context.Context, s *fixture) {
		for range s.times(1, 3) {
			leader, err := s.cluster.Leader(ctx, schemas.LogStream(0))
			s.must(err)
			for _, name := range []string{s.workers()[0].name, s.writers()[0].name, s.cluster.Servers[leader].Name} {
				w.turn(ctx, s, name, by)
			}
			s.goOn(ctx, "the load by wrong clocks")
			w.right(ctx, s)
			s.goOn(ctx, "the load by clocks that are right again")
		}
	}
}

// stranded kills the workers while they have messages of servers whose clocks are ahead,
// and puts the clocks right. The servers wait for an acknowledgement until the time by which
// they gave the messages out has come; the janitor ends the actions by their deadlines.
func (w watches) stranded(ctx context.Context, s *fixture) {
	for _, server := range s.cluster.Servers {
		w.turn(ctx, s, server.Name, time.Hour)
	}
	s.target.Hold(s.slug())
	for range 4 {
		s.heard(ctx)
	}
	for _, n := range s.workers() {
		n.kill()
		s.inject("workers killed", 1)
	}
	s.target.Release()
	for _, server := range s.cluster.Servers {
		w.turn(ctx, s, server.Name, 0)
	}
	s.left = func(l history.Left) history.Left {
		s.inject("messages left with nobody for an hour", int(l.Backlog))
		l.Backlog = 0
		return l
	}
}
