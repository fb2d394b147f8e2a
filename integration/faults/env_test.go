//go:build e2e || nightly

package faults_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/callers"
	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// kit is what a rig is made of, where that is not the usual.
type kit struct {
	cluster cluster.Config
	// roles are the nodes; default two of each role.
	roles []role
	// weir is the program that they run.
	weir string
	// environ is added to the environment of a node.
	environ func(name string) []string
}

// env is a cluster, the nodes on it, and the target of their calls.
type env struct {
	kit
	dir     string
	layout  schemas.Layout
	cluster *cluster.Cluster
	target  *callers.Target
	nodes   []*node
	log     *log

	turn atomic.Uint64
}

// assembly is what is on a cluster: two of each role.
func assembly() []role {
	ingress, worker, egress := role{command: "ingress", write: true}, role{command: "worker", work: true}, role{command: "egress", read: true}
	return []role{ingress, ingress, worker, worker, egress, egress}
}

func (k kit) withDefaults() kit {
	k.cluster.Binary = cmp.Or(k.cluster.Binary, natsBinary)
	k.weir = cmp.Or(k.weir, weirBinary)
	if k.roles == nil {
		k.roles = assembly()
	}
	if k.environ == nil {
		k.environ = func(string) []string { return nil }
	}
	return k
}

// newEnv starts everything, and ends it with the test.
func newEnv(t *testing.T, k kit) *env {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r := &env{kit: k.withDefaults(), dir: t.TempDir(), layout: schemas.Layout{Partitions: 2}, target: callers.NewTarget()}
	t.Cleanup(func() {
		r.target.Release()
		r.target.CloseClientConnections()
		r.target.Close()
	})
	r.kit.cluster.Dir = filepath.Join(r.dir, "nats")
	require.NoError(t, os.MkdirAll(r.kit.cluster.Dir, 0o700))
	var err error
	r.cluster, err = cluster.Start(ctx, r.kit.cluster)
	require.NoError(t, err)
	t.Cleanup(r.cluster.Stop)
	t.Cleanup(func() {
		for _, n := range r.nodes {
			n.kill()
			if t.Failed() {
				t.Logf("%s: %s", n.name, last(n.stderr()))
			}
		}
	})
	count := map[string]int{}
	for _, role := range r.roles {
		n, err := r.newNode(ctx, fmt.Sprint(role.command, count[role.command]), role)
		require.NoError(t, err)
		count[role.command]++
		require.NoError(t, n.start())
		r.nodes = append(r.nodes, n)
	}
	for _, n := range r.nodes {
		require.NoError(t, n.ready(ctx))
	}
	r.log, err = openLog(r.cluster.Direct(), r.layout)
	require.NoError(t, err)
	t.Cleanup(r.log.Close)
	require.NoError(t, r.log.begin(ctx))
	require.NoError(t, r.cluster.Healthy(ctx))
	return r
}

// last is the end of a long text.
func last(text string) string {
	if n := 6000; len(text) > n {
		return "…" + text[len(text)-n:]
	}
	return text
}

// that are the nodes that do something.
func (r *env) that(do func(role) bool) []*node {
	var some []*node
	for _, n := range r.nodes {
		if do(n.role) {
			some = append(some, n)
		}
	}
	return some
}

func (r *env) workers() []*node { return r.that(role.works) }
func (r *env) writers() []*node { return r.that(role.writes) }

// somewhere is the address of one of those that do it, another one each time.
func (r *env) somewhere(do func(role) bool) string {
	some := r.that(do)
	for range some {
		if url := some[r.turn.Add(1)%uint64(len(some))].url(); url != "" {
			return url
		}
	}
	return ""
}

// crowd is one whose names begin with a word.
func (r *env) crowd(cfg callers.Config) *callers.Callers {
	cfg.Target = r.target
	cfg.Write = func() string { return r.somewhere(role.writes) }
	cfg.Read = func() string { return r.somewhere(role.reads) }
	return callers.New(cfg)
}

// heal ends every fault and returns when all is up.
func (r *env) heal(ctx context.Context) error {
	r.target.Release()
	r.cluster.Heal()
	for _, s := range r.cluster.Servers {
		if s.Ended() {
			if err := s.Start(ctx); err != nil {
				return err
			}
		} else if err := s.Resume(); err != nil {
			return err
		}
	}
	if err := r.cluster.Healthy(ctx); err != nil {
		return fmt.Errorf("the cluster does not heal: %w", err)
	}
	for _, n := range r.nodes {
		if err := n.resume(); err != nil {
			return err
		}
		if n.ended() {
			n.kill()
			if err := n.start(); err != nil {
				return err
			}
		}
		if err := n.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// restart ends a node and starts it anew, with faults armed.
func (r *env) restart(ctx context.Context, n *node, environ ...string) error {
	if err := n.terminate(ctx); err != nil {
		return err
	}
	if err := n.start(environ...); err != nil {
		return err
	}
	return n.ready(ctx)
}

// member is a text member of a JSON document, wherever it lies; empty: there is none.
func member(doc, name string) string {
	_, rest, _ := strings.Cut(doc, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// fetch is one request; status 0: no answer.
func fetch(ctx context.Context, method, url, body string) (status int, text string) {
	resp, text, err := program.Ask(ctx, method, url, body, "Connection", "close")
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, text
}

// until asks again until it is so.
func until(ctx context.Context, what string, so func() bool) error {
	for !so() {
		if err := poll.Rest(ctx, 20*time.Millisecond); err != nil {
			return errors.Join(fmt.Errorf("waiting for %s", what), err)
		}
	}
	return nil
}
