//go:build e2e

package roles_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/callers"
	"weir/internal/weirtest/history"
	"weir/schemas"
)

// TestRoles has the roles work as processes of their own, and lets the worst befall them.
func TestRoles(t *testing.T) { //nolint:paralleltest // it counts on the machine
	h := newEnv(t)
	h.elsewhere()
	load := h.crowd("load")
	load.Start(h.ctx)
	told := func(c callers.Counts) bool { return c.Ended >= 30 }
	require.NoError(t, load.Await(h.ctx, "the load", told))
	h.oneOfEach(load)
	require.NoError(t, load.Stop())
	t.Logf("%+v", load.Counts())
	taken := h.takenOver()
	paused := h.paused()
	h.away()
	after := h.crowd("after")
	after.Send(h.ctx, after.Order(callers.Post))
	require.NoError(t, after.Stop())
	h.check(load, taken, paused, after)
}

// elsewhere: each role says who serves what it does not.
func (h *env) elsewhere() {
	for _, tc := range []struct{ role, method, path, says string }{
		{"egress", http.MethodPost, "/v1/execute", "weir ingress"},
		{"ingress", http.MethodGet, "/v1/actions", "weir egress"},
		{"worker", http.MethodPost, "/v1/plans", "weir ingress"},
		{"worker", http.MethodGet, "/v1/evidence", "weir egress"},
		{"egress", http.MethodGet, "/git/x.git/info/refs", "weir serve"},
	} {
		body := ""
		if tc.method == http.MethodPost {
			body = "{}"
		}
		status, text, _ := h.ask(tc.method, h.some(tc.role)+tc.path, body)
		require.Equal(h.t, http.StatusMisdirectedRequest, status, text)
		require.Contains(h.t, text, string(schemas.Misdirected))
		require.Contains(h.t, text, tc.says)
	}
	for _, role := range []string{"ingress", "worker", "egress"} {
		status, text, _ := h.ask(http.MethodGet, h.some(role)+"/readyz", "")
		require.Equal(h.t, http.StatusOK, status, text)
		require.Contains(h.t, text, `"role":"`+role+`"`)
		require.Contains(h.t, text, `"durability":"replicated"`)
	}
}

// oneOfEach kills a process of each role and a server, the one that leads a partition,
// under load, and puts others in their places while the load goes on.
func (h *env) oneOfEach(load *callers.Callers) {
	goOn := func(what string) {
		now := load.Counts().Ended
		require.NoError(h.t, load.Await(h.ctx, what, func(c callers.Counts) bool { return c.Ended >= now+25 }))
	}
	for _, role := range []string{"ingress", "worker", "egress"} {
		h.kill(role)
		goOn("the load without one " + role)
	}
	leader, err := h.cluster.Leader(h.ctx, schemas.LogStream(0))
	require.NoError(h.t, err)
	h.cluster.Servers[leader].Kill()
	goOn("the load without a server")
	h.add("ingress", "worker", "egress") // while a server is away
	require.NoError(h.t, h.cluster.Servers[leader].Start(h.ctx))
	goOn("the load with all of them")
}

// takenOver kills a worker that has calls under way which may be made again: another one
// makes them.
func (h *env) takenOver() *callers.Callers {
	c := h.crowd("taken")
	h.target.Hold("taken-")
	orders := make(map[string]bool)
	for range 8 { // each worker has some
		o := c.Order(callers.Get)
		orders[o.Name] = true
		c.Send(h.ctx, o)
	}
	for range orders {
		<-h.target.Heard()
	}
	h.kill("worker")
	died := time.Now()
	again := <-h.target.Heard() // by another worker: each has been heard once
	took := time.Since(died)
	require.Contains(h.t, orders, again)
	h.t.Logf("what a dead worker had was begun elsewhere after %s", took.Round(10*time.Millisecond))
	h.target.Release()
	require.NoError(h.t, c.Stop())
	h.add("worker")
	return c
}

// paused stops a worker where it is, with calls under way, until others have ended what it
// had. When it goes on, it writes nothing to what is over.
func (h *env) paused() *callers.Callers {
	c := h.crowd("paused")
	h.target.Hold("paused-")
	const n = 8
	for i := range n {
		class := callers.Get
		if i%2 == 1 {
			class = callers.Put
		}
		c.Send(h.ctx, c.Order(class))
	}
	for range n {
		<-h.target.Heard()
	}
	p := h.first("worker")
	require.NoError(h.t, p.Signal(syscall.SIGSTOP))
	<-h.target.Heard() // another worker makes one of its calls again
	h.target.Release()
	require.NoError(h.t, c.Stop())
	before := events(h.stored())
	require.NoError(h.t, p.Signal(syscall.SIGCONT))
	h.eventually(func() bool { // it has come to itself, and answered for what it held
		status, _, _ := h.ask(http.MethodGet, p.URL+"/readyz", "")
		return status == http.StatusOK
	}, "the worker is back")
	h.worksAgain(p.URL)
	require.Equal(h.t, before, events(h.stored()))
	return c
}

// worksAgain has new work done until a worker has done some of it, which its own count tells.
func (h *env) worksAgain(worker string) {
	count := func() string {
		_, text, _ := h.ask(http.MethodGet, worker+"/metrics", "")
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, `weir_actions_settled_total{`) && strings.Contains(line, `outcome="succeeded"`) && strings.Contains(line, `kind="http"`) {
				return line
			}
		}
		return ""
	}
	was := count()
	require.NotEmpty(h.t, was)
	c := h.crowd("proof")
	h.eventually(func() bool {
		c.Send(h.ctx, c.Order(callers.Get))
		require.NoError(h.t, c.Stop())
		return count() != was
	}, "the worker works")
}

// events are how many each action of the paused crowd has, and how many records of evidence.
func events(run history.Run) map[string]int {
	all := map[string]int{}
	for _, a := range history.Read(run.Log) {
		if strings.HasPrefix(a.ID, "paused-") {
			all[a.ID] = len(a.Events)
		}
	}
	for _, r := range run.Evidence {
		if strings.Contains(string(r.Data), "paused-") {
			all["evidence"]++
		}
	}
	return all
}

// away takes all servers away. The processes say so and go on by themselves, and one that
// is started meanwhile waits for the log.
func (h *env) away() {
	for _, s := range h.cluster.Servers {
		s.Kill()
	}
	for _, role := range []string{"ingress", "worker", "egress"} {
		url := h.some(role)
		h.eventually(func() bool {
			status, _, header := h.ask(http.MethodGet, url+"/readyz", "")
			return status == http.StatusServiceUnavailable && header.Get("Retry-After") != ""
		}, role+" says that it is not ready")
		status, text, _ := h.ask(http.MethodGet, url+"/healthz", "")
		require.Equal(h.t, http.StatusOK, status, text)
	}
	status, text, header := h.ask(http.MethodPost, h.some("ingress")+"/v1/execute", `{"method":"GET","url":"`+h.target.URL+`/plain/away"}`)
	require.Equal(h.t, http.StatusServiceUnavailable, status, text)
	require.NotEmpty(h.t, header.Get("Retry-After"))
	status, text, header = h.ask(http.MethodGet, h.some("egress")+"/v1/actions/load-get-1", "")
	require.Equal(h.t, http.StatusServiceUnavailable, status, text)
	require.NotEmpty(h.t, header.Get("Retry-After"))
	late := make(chan error, 1)
	go func() { late <- h.start("ingress") }()
	for _, s := range h.cluster.Servers {
		require.NoError(h.t, s.Start(h.ctx))
	}
	require.NoError(h.t, <-late)
	for _, role := range []string{"ingress", "worker", "egress"} {
		for _, p := range h.nodes[role] {
			h.eventually(func() bool {
				status, _, _ := h.ask(http.MethodGet, p.URL+"/readyz", "")
				return status == http.StatusOK
			}, role+" is ready again")
		}
	}
}
