// Package cluster runs NATS servers for tests that break things: three processes of the
// module's own server, which reach each other, and are reached, over links that can be cut,
// held, slowed and healed while everything runs.
//
//	c, err := cluster.Start(ctx, cluster.Config{Binary: server, Dir: dir})
//	lines, err := c.Lines(ctx)           // links of one client's own to every server
//	… nats.url: lines.URL()
//	c.Servers[0].Kill()                 // and Start, Pause, Resume
//	c.Isolate(1)                        // from the other servers; lines[1].Hold(cluster.Back) and so on
//	c.Heal()
//	c.Healthy(ctx)                      // blocks until every group has a leader and no follower lags
package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Size is how many servers there are.
const Size = 3

// Config says what the servers are like.
type Config struct {
	// Binary is the server; program.NATS. Dir is where all of them keep what they have.
	Binary, Dir string
	// Sync is how often a server syncs: a duration, or "always", which is the default.
	Sync string
	// Room is how many bytes a server may store; default 2 GiB.
	Room int64
	// StoreOf are the folders of servers that do not store under Dir.
	StoreOf map[int]string
	// Direct has the servers reach each other without links, which nothing can be done to
	// and which take no time of the test's process.
	Direct bool
	// Environ is added to the environment of a server.
	Environ func(i int) []string
}

const defaultRoom = 2 << 30

// Cluster is three servers and the links between them.
type Cluster struct {
	Servers [Size]*Server

	config Config
	ports  [Size]string      // where routes come in
	routes [Size][Size]*Link // by who dials and whom
	lines  []Lines
}

// Start runs the servers and returns when one of them leads. Where somebody else was faster
// at a port it takes others.
func Start(ctx context.Context, cfg Config) (c *Cluster, err error) {
	for range 3 {
		if c, err = start(ctx, cfg); !errors.Is(err, errServerEnded) {
			break
		}
	}
	return c, err
}

func start(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	c := &Cluster{config: cfg}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	ports, err := FreePorts(ctx, 3*Size)
	if err != nil {
		return nil, err
	}
	for i := range c.Servers {
		store := cfg.StoreOf[i]
		if store == "" {
			store = filepath.Join(cfg.Dir, fmt.Sprint("n", i))
		}
		c.ports[i] = ports[Size+i]
		c.Servers[i] = &Server{
			Name: fmt.Sprint("n", i), Store: store, binary: cfg.Binary, config: filepath.Join(cfg.Dir, fmt.Sprintf("n%d.conf", i)),
			client: ports[i], monitor: ports[2*Size+i],
		}
		if cfg.Environ != nil {
			c.Servers[i].environ = cfg.Environ(i)
		}
	}
	for i := range Size {
		for j := range Size {
			if i == j || cfg.Direct {
				continue
			}
			if c.routes[i][j], err = NewLink(ctx, c.ports[j]); err != nil {
				return nil, err
			}
		}
	}
	for i, s := range c.Servers {
		if err := os.WriteFile(s.config, []byte(c.settings(i)), 0o600); err != nil {
			return nil, err
		}
		if err := s.Start(ctx); err != nil {
			return nil, err
		}
	}
	return c, c.Healthy(ctx)
}

// Stop kills the servers and closes every link.
func (c *Cluster) Stop() {
	for _, s := range c.Servers {
		if s != nil {
			s.Kill()
		}
	}
	for _, l := range c.links() {
		l.Close()
	}
}

// Lines are one client's links to the servers.
type Lines [Size]*Link

// Lines makes links for one client.
func (c *Cluster) Lines(ctx context.Context) (Lines, error) {
	var all Lines
	for i, s := range c.Servers {
		l, err := NewLink(ctx, s.client)
		if err != nil {
			return Lines{}, err
		}
		all[i] = l
	}
	c.lines = append(c.lines, all)
	return all, nil
}

// URL is what nats.url takes.
func (l Lines) URL() string {
	urls := make([]string, len(l))
	for i, link := range l {
		urls[i] = "nats://" + link.Addr()
	}
	return strings.Join(urls, ",")
}

// Direct is what a client takes whom nothing befalls.
func (c *Cluster) Direct() string {
	urls := make([]string, Size)
	for i, s := range c.Servers {
		urls[i] = "nats://" + s.client
	}
	return strings.Join(urls, ",")
}

// Isolate cuts a server off from the others. Its clients reach it.
func (c *Cluster) Isolate(i int) {
	for j := range Size {
		if j != i {
			c.routes[i][j].Cut()
			c.routes[j][i].Cut()
		}
	}
}

// Deafen lets a server say what it wants to the others and hear nothing of them; with mute
// it is the other way round. No connection breaks.
func (c *Cluster) Deafen(i int, mute bool) {
	in, out := Back, Out
	if mute {
		in, out = Out, Back
	}
	for j := range Size {
		if j != i {
			c.routes[i][j].Hold(in)
			c.routes[j][i].Hold(out)
		}
	}
}

// Each does something to every link between servers, and to every client's.
func (c *Cluster) Each(what func(*Link)) {
	for _, l := range c.links() {
		what(l)
	}
}

// Heal heals every link. It starts nothing.
func (c *Cluster) Heal() { c.Each((*Link).Heal) }

func (c *Cluster) links() []*Link {
	var all []*Link
	for i := range Size {
		for j := range Size {
			if l := c.routes[i][j]; l != nil {
				all = append(all, l)
			}
		}
	}
	for _, lines := range c.lines {
		all = append(all, lines[:]...)
	}
	return all
}

// Healthy blocks until every server answers, all of them name one leader, and no stream or
// consumer lacks a leader or has a follower that lags. A server that has ended is an error
// at once.
func (c *Cluster) Healthy(ctx context.Context) error {
	for {
		why := c.ailing(ctx)
		if why == nil {
			return nil
		}
		for _, s := range c.Servers {
			if s.Ended() {
				return s.asEnded()
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), why)
		}
	}
}

func (c *Cluster) ailing(ctx context.Context) error {
	leader := ""
	for _, s := range c.Servers {
		state, err := s.State(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", s.Name, err)
		case state.Leader == "" || leader != "" && state.Leader != leader:
			return fmt.Errorf("%s says that %q leads", s.Name, state.Leader)
		case len(state.Behind) > 0:
			return fmt.Errorf("%s says that these are not whole: %s", s.Name, strings.Join(state.Behind, " "))
		}
		leader = state.Leader
	}
	return nil
}

// Leader is the index of the server that leads a stream, "S", a consumer, "S/C", or with
// an empty name the cluster.
func (c *Cluster) Leader(ctx context.Context, group string) (int, error) {
	var errs []error
	for _, s := range c.Servers {
		if s.Ended() {
			continue
		}
		state, err := s.State(ctx)
		name := state.Leader
		if group != "" {
			name = state.Leaders[group]
		}
		for i, other := range c.Servers {
			if err == nil && other.Name == name {
				return i, nil
			}
		}
		errs = append(errs, err)
	}
	return 0, fmt.Errorf("nobody leads %q: %w", group, errors.Join(errs...))
}

// The ports come from below those that the kernel gives to whoever asks for any, so that
// nobody takes one while its server is down.
const (
	portsFrom = 18000
	portsTo   = 32000
)

// FreePorts are addresses of this machine that nobody listens at, each another one. They are
// free until somebody takes them.
func FreePorts(ctx context.Context, n int) ([]string, error) {
	all := make([]string, 0, n)
	for range 50 * n {
		addr := "127.0.0.1:" + strconv.Itoa(portsFrom+rand.IntN(portsTo-portsFrom)) //nolint:gosec // it only has to be free
		l, err := new(net.ListenConfig).Listen(ctx, "tcp4", addr)
		if err != nil {
			continue
		}
		defer l.Close() // at the end: a port that is closed at once may come again
		if all = append(all, addr); len(all) == n {
			return all, nil
		}
	}
	return nil, errors.New("no port is free")
}
