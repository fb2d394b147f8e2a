//go:build nightly

package faults_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	"weir/internal/weirtest/callers"
	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// killServers kills the leader of a partition, one of its followers and the leader of the
// cluster, one after the other; each is started again when the load has gone on without it.
func killServers(ctx context.Context, s *fixture) {
	rounds := 1
	if *all {
		rounds = (*kills + 2) / 3
	}
	for range rounds {
		for _, which := range []string{"stream leaders", "followers", "cluster leaders"} {
			group := schemas.LogStream(s.chance.IntN(s.layout.Partitions))
			if which == "cluster leaders" {
				group = ""
			}
			i, err := s.cluster.Leader(ctx, group)
			s.must(err)
			if which == "followers" {
				i = (i + 1) % cluster.Size
			}
			s.cluster.Servers[i].Kill()
			s.inject(which+" killed", 1)
			s.goOn(ctx, "the load goes on without "+s.cluster.Servers[i].Name)
			s.revive(ctx)
		}
	}
}

// revive starts the servers that were killed.
func (s *fixture) revive(ctx context.Context) {
	for _, server := range s.cluster.Servers {
		if server.Ended() {
			s.must(server.Start(ctx))
		}
	}
	s.must(s.cluster.Healthy(ctx))
}

// killTwo kills two servers: nothing is accepted meanwhile, and nothing was lost.
func killTwo(ctx context.Context, s *fixture) {
	first := s.chance.IntN(cluster.Size)
	s.cluster.Servers[first].Kill()
	s.cluster.Servers[(first+1)%cluster.Size].Kill()
	refused := s.refused(ctx)
	s.inject("refused", refused)
	s.revive(ctx)
}

// killAll kills every server at once.
func killAll(ctx context.Context, s *fixture) {
	for range 3 {
		for _, server := range s.cluster.Servers {
			server.Kill()
		}
		s.inject("servers killed", cluster.Size)
		refused := s.refused(ctx)
		s.inject("refused", refused)
		s.revive(ctx)
		s.goOn(ctx, "the load goes on")
	}
}

// refused asks every node for an action while the log cannot be written: each says so, with
// 503 and when to come again, and that it is not ready.
func (s *fixture) refused(ctx context.Context) int {
	nodes := s.writers()
	for _, n := range nodes {
		o := s.crowd.Order(callers.Post)
		o.Async = true
		err := until(ctx, n.name+" to refuse", func() bool {
			_, err := s.crowd.Ask(ctx, n.url(), o)
			return errors.Is(err, callers.ErrAway)
		})
		s.must(err)
		err = until(ctx, n.name+" to say that it is not ready", func() bool {
			status, _ := n.get(ctx, "/readyz")
			return status == http.StatusServiceUnavailable
		})
		s.must(err)
		s.crowd.Send(ctx, o) // what was refused may be on the log all the same, or not
	}
	return len(nodes)
}

// isolateLeader cuts a partition's leader off from its followers, while every node still
// reaches it.
func isolateLeader(ctx context.Context, s *fixture) {
	for range s.times(1, 3) {
		i, err := s.cluster.Leader(ctx, schemas.LogStream(0))
		s.must(err)
		s.cluster.Isolate(i)
		s.elsewhere(ctx, i, schemas.LogStream(0))
		s.must(poll.Rest(ctx, long(2*time.Second, 8*time.Second)))
		s.cluster.Heal()
		s.must(s.cluster.Healthy(ctx))
	}
}

// elsewhere waits until another server than i leads a group.
func (s *fixture) elsewhere(ctx context.Context, i int, group string) {
	other := (i + 1) % cluster.Size
	s.must(until(ctx, "another leader of "+group, func() bool {
		state, err := s.cluster.Servers[other].State(ctx)
		name := state.Leaders[group]
		if err != nil || name == "" || name == s.cluster.Servers[i].Name {
			return false
		}
		s.inject("leaders changed", 1)
		return true
	}))
}

// times is how often something is done, in the selection and in the whole.
func (s *fixture) times(short, long int) int {
	if *all {
		return long
	}
	return short
}
