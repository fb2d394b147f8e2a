//go:build e2e

// Package roles_test runs the roles as processes of their own over three real NATS servers,
// kills one of each kind, stops one in its work, takes all the servers away, and holds what
// is left against Weir's invariants.
//
// Only this suite shows that actions go on when any one process of a role, or the leading
// server, dies.
package roles_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/callers"
	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/history"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/internal/weirtest/stored"
	"weir/schemas"
)

var weirBinary, natsBinary = program.Path(program.Weir), program.Path(program.NATS)

// env is the processes of all roles on one cluster, and the target of their calls.
type env struct {
	t       *testing.T
	ctx     context.Context
	cluster *cluster.Cluster
	target  *callers.Target
	config  string
	turn    atomic.Uint64

	mu    sync.Mutex
	nodes map[string][]*program.Program
}

// newEnv starts three servers, and two processes of each role at once.
func newEnv(t *testing.T) *env {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	h := &env{t: t, ctx: ctx, target: callers.NewTarget(), nodes: map[string][]*program.Program{}}
	t.Cleanup(func() {
		h.target.Release()
		h.target.CloseClientConnections()
		h.target.Close()
	})
	dir := t.TempDir()
	var err error
	h.cluster, err = cluster.Start(ctx, cluster.Config{Binary: natsBinary, Dir: dir})
	require.NoError(t, err)
	t.Cleanup(h.cluster.Stop)
	h.config = filepath.Join(dir, "weir.yaml")
	text := fmt.Sprintf("nats: {url: %q}\nlog: {partitions: 2}\ntelemetry: {log_level: warn}\n%s", h.cluster.Direct(), h.target.Policy())
	require.NoError(t, os.WriteFile(h.config, []byte(text), 0o600))
	t.Cleanup(func() {
		for _, all := range h.nodes {
			for _, p := range all {
				p.Kill()
				if t.Failed() {
					t.Log(p.Said())
				}
			}
		}
	})
	h.add("ingress", "ingress", "worker", "worker", "egress", "egress")
	return h
}

// add starts processes of these roles at once and returns when all are ready.
func (h *env) add(roles ...string) {
	h.t.Helper()
	errs := make(chan error, len(roles))
	for _, role := range roles {
		go func() { errs <- h.start(role) }()
	}
	for range roles {
		require.NoError(h.t, <-errs)
	}
}

func (h *env) start(role string) error {
	p, err := program.Run(weirBinary, program.How{Command: role, Args: []string{"--config", h.config}})
	if err != nil {
		return fmt.Errorf("%s: %w", role, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes[role] = append(h.nodes[role], p)
	return nil
}

// first is the oldest process of a role.
func (h *env) first(role string) *program.Program {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.nodes[role][0]
}

// kill ends the oldest process of a role as a crash would.
func (h *env) kill(role string) {
	p := h.first(role)
	h.mu.Lock()
	h.nodes[role] = h.nodes[role][1:]
	h.mu.Unlock()
	p.Kill()
}

// some is the address of a process of a role, another one each time.
func (h *env) some(role string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.nodes[role]
	return all[h.turn.Add(1)%uint64(len(all))].URL
}

// crowd is one whose names begin with a word. It writes to ingress and reads from egress.
func (h *env) crowd(name string) *callers.Callers {
	return callers.New(callers.Config{
		Name: name, Target: h.target,
		Write: func() string { return h.some("ingress") }, Read: func() string { return h.some("egress") },
	})
}

// ask is one request; status 0: no answer.
func (h *env) ask(method, url, body string) (status int, text string, header http.Header) {
	resp, text, err := program.Ask(h.ctx, method, url, body, "Connection", "close")
	if err != nil {
		return 0, err.Error(), http.Header{}
	}
	return resp.StatusCode, text, resp.Header
}

// eventually waits until it is so.
func (h *env) eventually(so func() bool, what string) {
	h.t.Helper()
	poll.Until(h.t, so, what)
}

// partitions are the log's.
func partitions() []string { return []string{schemas.LogStream(0), schemas.LogStream(1)} }

// stored reads what the log and the evidence hold, past Weir, when no queue has anything left.
func (h *env) stored() (run history.Run) {
	h.t.Helper()
	log, err := stored.Open(h.cluster.Direct())
	require.NoError(h.t, err)
	defer log.Close()
	h.eventually(func() bool {
		waits, _, err := log.Waiting(h.ctx, partitions())
		return err == nil && waits == 0
	}, "nothing is left under way")
	for _, name := range partitions() {
		records, err := log.Read(h.ctx, name, 1)
		require.NoError(h.t, err)
		run.Log = append(run.Log, records...)
	}
	run.Evidence, err = log.Read(h.ctx, schemas.EvidenceStream, 1)
	require.NoError(h.t, err)
	return run
}

// check holds what crowds were told against what is stored and what the target heard.
func (h *env) check(crowds ...*callers.Callers) {
	h.t.Helper()
	run := h.stored()
	for _, c := range crowds {
		c.Fill(&run)
	}
	h.t.Logf("%d actions, %d records of evidence", len(history.Read(run.Log)), len(run.Evidence))
	for _, v := range history.Check(run, history.Bounds{}) {
		h.t.Error(v)
	}
}
