//go:build e2e

package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// TestDrain asks the program to end during a call that must not be repeated, and in the middle of
// a plan. Both calls are finished, the waiting client gets its answer, no other call begins, and
// the program ends with 0. The next one performs the rest of the plan.
func TestDrain(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	target := upstream.New(t, upstream.Hold(release, upstream.OK()))
	count := func(path string) (n int) {
		for _, r := range target.Ledger() {
			if r.Target == path {
				n++
			}
		}
		return n
	}
	dir, config := t.TempDir(), policyFile(t, target.URL(), "")
	w := serve(t, dir, "--config", config)
	answered := make(chan string, 1)
	go func() {
		body := fmt.Sprintf(`{"type":"Http","request_id":"slow","args":{"method":"POST","url":"%s/slow","body":{}}}`, target.URL())
		a, err := w.Try(t.Context(), http.MethodPost, "/v1/execute", body)
		answered <- fmt.Sprint(a.Body, err)
	}()
	target.WaitHits(1)
	decisions := make([]string, 3)
	for i := range decisions {
		decisions[i] = fmt.Sprintf(`{"effect_ref":"e%d","target_state":{"method":"POST","url":"%s/%d","allowlist_key":"up","body":{}}}`, i, target.URL(), i)
	}
	body := fmt.Sprintf(`{"request_id":"plan","state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[%s]}}`, strings.Join(decisions, ","))
	w.Must(t, http.StatusAccepted, http.MethodPost, "/v1/plans", body, "Prefer", "respond-async")
	target.WaitHits(2)

	require.NoError(t, w.Signal(syscall.SIGTERM))
	for err := error(nil); err == nil; { // the listener closes first
		_, err = w.Try(t.Context(), http.MethodGet, "/healthz", "", "Connection", "close")
	}
	close(release)
	assert.Contains(t, <-answered, `"status":200`)
	_, err := w.Wait(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, count("/0"))
	assert.Zero(t, count("/2"), "nothing new is begun")

	w = serve(t, dir, "--config", config)
	for _, id := range []string{"slow", "plan"} {
		assert.Equal(t, schemas.OutcomeSucceeded, settled(t, w, id).Outcome, id)
	}
	for _, path := range []string{"/slow", "/0", "/1", "/2"} {
		assert.Equal(t, 1, count(path), path)
	}
}

// TestTaskOutlivesKills kills Weir between each two steps of a task's life. The task ends once,
// and nothing of it is lost or stored twice.
func TestTaskOutlivesKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var (
		w    *weir
		task schemas.NewTask
		git  *clientGit
		head string
	)
	push := func() {
		head = git.commit(t, "file-"+head, []byte("a"))
		git.do(t, "repo", "push", "-q", w.gitURL("shop"), "HEAD:"+task.Branch)
	}
	complete := func() {
		w.As(task.Token).Must(t, http.StatusOK, http.MethodPost, schemas.RouteAgentComplete, `{"description":"The shed is red"}`)
	}
	for _, step := range []func(){
		func() { w.MakeRepo(t, map[string]any{"name": "shop"}) },
		func() { task = w.makeTask(t, nil) },
		func() { w.As(task.Token).Must(t, http.StatusOK, http.MethodGet, schemas.RouteAgentTask, "") },
		func() {
			git = newClientGit(t, task.Token)
			git.do(t, ".", "clone", "-q", "-b", task.Branch, w.gitURL("shop"), "repo")
		},
		push,
		func() { // the agent asks, and leaves before there is an answer
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan struct{})
			go func() {
				defer close(left)
				_, _ = w.As(task.Token).Try(ctx, http.MethodPost, schemas.RouteAgentInquiry, `{"inquiry":"Which colour?"}`)
			}()
			require.NoError(t, w.happened(t.Context(), task.ID, "asked"))
			leave()
			<-left
		},
		func() {
			w.Must(t, http.StatusOK, http.MethodPost, schemas.RouteTasks+"/"+task.ID+"/answer", `{"answer":"Red"}`)
		},
		func() { // and asks the same again
			text := w.As(task.Token).Must(t, http.StatusOK, http.MethodPost, schemas.RouteAgentInquiry, `{"inquiry":"Which colour?"}`)
			assert.Equal(t, `"Red"`, strings.TrimSpace(text))
		},
		push,
		complete,
		func() { // its answer was lost; another report comes too late
			complete()
			text := w.As(task.Token).Must(t, http.StatusBadRequest, http.MethodPost, schemas.RouteAgentFail, `{"description":"no"}`)
			assert.Contains(t, text, "Task is not running")
		},
		func() { require.NoError(t, w.happened(t.Context(), task.ID, "settled")) },
	} {
		if w != nil {
			w.Kill()
		}
		w = serve(t, dir)
		step()
	}
	v := w.Task(t, task.ID)
	assert.Equal(t, []any{schemas.TaskStatusCompleted, "The shed is red", head, 2}, []any{v.Status, v.Result, v.Head, v.Pushes})
	require.Len(t, v.Inquiries, 1)
	assert.Equal(t, schemas.TaskStatusCompleted, program.Get[schemas.AgentTask](t, w.As(task.Token), schemas.RouteAgentTask).Status)
	w.As(task.Token).Must(t, http.StatusUnauthorized, http.MethodPost, schemas.RouteAgentInquiry, `{"inquiry":"?"}`)

	ends, events, audits := 0, map[string]int{}, map[string]int{}
	for _, e := range allEvents(t, w, task.ID) {
		if e.Type == schemas.EventSettled {
			ends++
		}
		if e.Task != nil {
			events[string(e.Task.What)]++
		}
	}
	assert.Equal(t, 1, ends)
	for _, a := range program.Evidence[schemas.TaskAudit](t, w.Client, schemas.EvidenceTask, "&action_id="+task.ID) {
		audits[a.What]++
	}
	once := map[string]int{"accepted": 1, "opened": 1, "claimed": 1, "asked": 1, "answered": 1, "pushed": 2, "reported": 1, "settled": 1}
	assert.Equal(t, once, audits)
	for _, what := range []string{"opened", "claimed", "asked", "answered", "pushed", "reported"} {
		assert.Equal(t, once[what], events[what], what)
	}
	for _, a := range w.pushes(t) {
		assert.Equal(t, []string{schemas.AuditOK, task.ID}, []string{a.Result, a.TaskID})
	}
}

// TestHangupReloads: SIGHUP has the policy read again, and a mistake in it neither ends the
// program nor changes the policy.
func TestHangupReloads(t *testing.T) {
	t.Parallel()
	const policy = "log: {durability: process}\npolicy: {allowlist: [{name: up, url_prefix: \"http://localhost:1/\", network: loopback, methods: [%s]}]}\n"
	file := configFile(t, fmt.Sprintf(policy, "GET"))
	w := serve(t, t.TempDir(), "--config", file)
	require.NoError(t, w.Signal(syscall.SIGHUP)) // the file is watched as well: a signal alone is enough
	poll.Until(t, func() bool {
		return strings.Contains(w.Ask(t, http.MethodGet, "/metrics", "").Body, `weir_policy_reloads_total{result="ok"} 1`+"\n")
	})
	hangUp := func(method string) {
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, policy, method), 0o600))
		require.NoError(t, w.Signal(syscall.SIGHUP))
	}
	methods := func() []string {
		return program.Get[schemas.PolicyView](t, w.Client, "/v1/policy").Entries[0].Methods
	}
	hangUp("POST")
	poll.Until(t, func() bool { return methods()[0] == http.MethodPost })
	hangUp("FETCH")
	poll.Until(t, func() bool { return strings.Contains(w.Said(), "policy.allowlist[0].methods") })
	require.Equal(t, []string{http.MethodPost}, methods())
	require.NoError(t, w.Terminate(t.Context()))
}
