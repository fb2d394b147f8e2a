//go:build e2e

package corpus_test

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/cluster"
)

// natsDown gives a Weir on a cluster of NATS servers that went away.
func natsDown(t *testing.T, _ *inboundRow, _ *gateway) *gateway {
	t.Helper()
	servers := natsCluster(t)
	extra := fmt.Sprintf("log: {partitions: 1}\nnats: {url: %q}\n", servers[0].ClientURL())
	g := newGateway(t, t.TempDir(), extra)
	g.act(t, "task_token", "/v1/x?row=before")
	for _, s := range servers {
		s.Shutdown()
		s.WaitForShutdown()
	}
	before := g.upstream.count("before")
	t.Cleanup(func() { require.Equal(t, before, g.upstream.count("before")) })
	return g
}

// natsCluster starts the three servers that replication wants.
func natsCluster(t *testing.T) []*server.Server {
	t.Helper()
	const n = 3
	addresses, err := cluster.FreePorts(t.Context(), n)
	require.NoError(t, err)
	routes := make([]*url.URL, 0, n)
	for _, address := range addresses {
		routes = append(routes, &url.URL{Scheme: "nats", Host: address})
	}
	all := make([]*server.Server, n)
	for i := range all {
		port, err := strconv.Atoi(routes[i].Port())
		require.NoError(t, err)
		s, err := server.NewServer(&server.Options{
			ServerName: "n" + itoa(i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port},
		})
		require.NoError(t, err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		all[i] = s
	}
	for _, s := range all {
		require.True(t, s.ReadyForConnections(30*time.Second))
	}
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(all, func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == n })
	}, 30*time.Second, 50*time.Millisecond)
	return all
}
