//go:build e2e

// Package nats_test runs real NATS servers with the files that `weir nats init` writes,
// and sees that each role can do its work there and nothing else.
//
// Only this suite shows that the permissions of `weir nats init` are enough for each role on
// a real cluster.
package nats_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/broker/access"
	"weir/internal/broker/natsconf"
	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// The programs, built once.
var natsBinary, weirBinary = program.Path(program.NATS), program.Path(program.Weir)

var layout = schemas.Layout{Partitions: 2}

// site is a cluster with files of its own.
type site struct {
	dir     string
	url     string
	servers []*program.Program
}

// start writes the files for so many servers, with accounts for these tenants, and runs them.
func start(t *testing.T, servers int, tenants ...string) *site {
	t.Helper()
	s := &site{dir: t.TempDir()}
	ports := freePorts(t, 2*servers)
	var plan natsconf.Plan
	for i := range servers {
		plan.Servers = append(plan.Servers, natsconf.Server{Name: fmt.Sprint("n", i), Host: "127.0.0.1", Port: ports[i], Route: ports[servers+i]})
	}
	plan.Partitions, plan.Store = layout.Partitions, 1<<30
	must(natsconf.Init(s.dir, plan, time.Now()))(t)
	for _, name := range tenants {
		must(natsconf.Tenant(s.dir, name, time.Now()))(t)
	}
	var urls []string
	for _, server := range plan.Servers {
		urls = append(urls, server.URL())
		p := must(program.Launch(natsBinary, program.How{Args: []string{"-c", filepath.Join(natsconf.ServerDir(s.dir, server.Name), "nats.conf")}}))(t)
		s.servers = append(s.servers, p)
		t.Cleanup(func() {
			p.Kill()
			if t.Failed() {
				t.Logf("%s: %s", server.Name, p.Said())
			}
		})
	}
	s.url = strings.Join(urls, ",")
	return s
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	addrs := must(cluster.FreePorts(t.Context(), n))(t)
	all := make([]int, n)
	for i, addr := range addrs {
		_, text, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		all[i], err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	return all
}

// config is how a role reaches the log.
func (s *site) config(r access.Role) broker.Config {
	return broker.Config{
		URL: s.url, Creds: natsconf.CredentialsFile(s.dir, string(r)), TLS: broker.TLS{CA: natsconf.CAFile(s.dir)},
		Role: r, Layout: layout, AttemptTimeout: 30 * time.Second,
	}
}

// provision makes the log, as soon as the servers can.
func (s *site) provision(t *testing.T, tenants ...string) []broker.Resource {
	t.Helper()
	var did []broker.Resource
	poll.Until(t, func() bool {
		var err error
		did, err = broker.Provision(t.Context(), s.config(access.Provisioner), tenants)
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
	return did
}

func (s *site) open(t *testing.T, r access.Role) *broker.Broker {
	t.Helper()
	b := must(broker.Open(t.Context(), s.config(r)))(t)
	t.Cleanup(func() { b.Close(context.Background()) })
	return b
}

// dial connects with credentials as any NATS client would, and hears what is denied.
func (s *site) dial(t *testing.T, creds string, opts ...nats.Option) (nc *nats.Conn, denied chan error) {
	t.Helper()
	denied = make(chan error, 256)
	seed := must(nats.NkeyOptionFromSeed(creds))(t)
	nc = must(nats.Connect(s.url, append(opts, seed, nats.RootCAs(natsconf.CAFile(s.dir)),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))...))(t)
	t.Cleanup(nc.Close)
	return nc, denied
}

// must returns the result of a call that may not fail.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}
