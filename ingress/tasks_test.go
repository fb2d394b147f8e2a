package ingress_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/ingress/tasks"
	"weir/internal/activetasks"
	"weir/internal/fault"
	"weir/internal/git"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// hall is an ingress that serves tasks.
type hall struct {
	*world
	branches map[string]bool
	known    string // a repository beside app
	repos    error
	upstream error
	touched  chan string
}

func (h *hall) Get(_ context.Context, tenant, name string) (schemas.Repo, error) {
	switch {
	case h.repos != nil:
		return schemas.Repo{}, h.repos
	case tenant == "default" && (name == "app" || name == h.known):
		return schemas.Repo{Name: name, Tenant: tenant, DefaultBranch: "main", AllowlistKey: "git"}, nil
	}
	return schemas.Repo{}, fault.ErrNotFound
}

func (h *hall) exists(_ context.Context, repo schemas.Repo, branch string) (bool, error) {
	return repo.Name == "app" && h.branches[branch], h.upstream
}

func (h *hall) Set(_ context.Context, key string, _ []byte) (uint64, error) {
	h.touched <- key
	return 1, nil
}

func lobby(t *testing.T, change ...func(*config)) *hall {
	t.Helper()
	return lobbyOf(t, 0, change...)
}

// lobbyOf is lobby with leases of another length.
func lobbyOf(t *testing.T, lease time.Duration, change ...func(*config)) *hall {
	t.Helper()
	h := &hall{branches: map[string]bool{"main": true, "dev": true, "taken": true}, touched: make(chan string, 1000)}
	h.world = setup(t, append([]func(*config){func(c *config) {
		active := activetasks.New(c.Log, activetasks.Config{Layout: c.Ledger.Layout()})
		require.NoError(t, active.Start(t.Context()))
		t.Cleanup(active.Stop)
		c.Work.Tasks = tasks.NewService(c.Ledger, active, h, tasks.Config{Lease: lease, Verify: func(token string) (schemas.Token, error) {
			if token != "pool" {
				return schemas.Token{}, fault.New(schemas.Unauthorized, "who are you")
			}
			return schemas.Token{ID: "p", Tenant: "default", Scopes: []string{schemas.ScopeTasksWork}}, nil
		}})
		c.Work.Repos, c.Work.Branches = h, h.exists
	}}, change...)...)
	return h
}

func holding(token string, r *http.Request) *http.Request {
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func get(path string) *http.Request { return httptest.NewRequest(http.MethodGet, path, http.NoBody) }

// file files a task and gives its token.
func (h *hall) file(t *testing.T, id string) string {
	t.Helper()
	a := h.do(t, post("/v1/tasks", `{"request_id":"`+id+`","description":"d","repo":"app"}`))
	require.Equal(t, http.StatusCreated, a.Code, a.Body)
	token, _ := a.field("token").(string)
	require.NotEmpty(t, token)
	return token
}

// open makes a task's branch, as its worker does.
func (h *hall) open(t *testing.T, id string) {
	t.Helper()
	st, err := h.ledger.Find(t.Context(), "default", id)
	require.NoError(t, err)
	require.NoError(t, h.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventStatus, Task: &schemas.TaskEvent{What: schemas.TaskOpened, Base: "b"}}))
}

func TestFilingATask(t *testing.T) {
	t.Parallel()
	h := lobby(t)
	const body = `{"request_id":"t-1","description":"d","repo":"app","branch":"mine","deadline":"3h"}`
	a := h.do(t, post("/v1/tasks", body))
	require.Equal(t, http.StatusCreated, a.Code)
	require.Equal(t, "/v1/tasks/t-1", a.Header().Get("Location"))
	require.Equal(t, "t-1", a.Header().Get("Weir-Action-Id"))
	token, _ := a.field("token").(string)
	require.NotEmpty(t, token)
	got := h.action(t, "default", "t-1")
	require.Equal(t, schemas.KindTask, got.Kind)
	require.Equal(t, 3*time.Hour, got.Deadline.Sub(got.AcceptedAt))
	require.NotEmpty(t, got.TokenHash)
	require.NotContains(t, string(got.Payload), "t-1")
	data, err := json.Marshal(got)
	require.NoError(t, err)
	require.NotContains(t, string(data), token[len(token)-43:], "only its hash is kept")
	require.NotContains(t, h.logs.String(), token[len(token)-10:])

	// A repeat joins, whatever has become true since: its own branch is there.
	h.branches["mine"] = true
	for _, again := range []string{body, `{"repo":"app","branch":"mine","description":"d","request_id":"t-1"}`, strings.Replace(body, "3h", "1ns", 1)} {
		a = h.do(t, post("/v1/tasks", again))
		require.Equal(t, http.StatusOK, a.Code, a.Body)
		require.Empty(t, a.field("token"), "its token is shown once")
		require.Equal(t, "/v1/tasks/t-1", a.Header().Get("Location"))
	}
	h.do(t, post("/v1/tasks", strings.Replace(body, `"d"`, `"e"`, 1))).refused(t, http.StatusConflict, schemas.Conflict)

	// So does one with the same key, as long as the task is under way and after.
	const keyed = `{"description":"k","repo":"app"}`
	id, _ := h.do(t, post("/v1/tasks", keyed, "Idempotency-Key", "key")).field("id").(string)
	for range 2 {
		a = h.do(t, post("/v1/tasks", keyed, "Idempotency-Key", `"key"`))
		require.Equal(t, http.StatusOK, a.Code)
		require.Equal(t, id, a.field("id"))
		require.Empty(t, a.field("token"))
		require.Equal(t, "true", a.Header().Get("Idempotency-Replayed"))
		if h.metrics.refused[schemas.IdempotencyMismatch] == 0 {
			other := post("/v1/tasks", `{"description":"other","repo":"app"}`, "Idempotency-Key", "key")
			h.do(t, other).refused(t, http.StatusUnprocessableEntity, schemas.IdempotencyMismatch)
			h.settle(t, id, schemas.OutcomeCanceled)
		}
	}
	require.Equal(t, 2, h.metrics.accepted[schemas.KindTask])
	require.NotEqual(t, h.file(t, "one"), h.file(t, "two"))
}

func TestTasksThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body   string
		plant  func(h *hall)
		code   schemas.Code
		status int
		detail string
	}{
		"branch exists":   {body: `{"description":"d","repo":"app","branch":"taken"}`, code: schemas.Conflict, status: 409, detail: "/branch"},
		"it is the base":  {body: `{"description":"d","repo":"app","branch":"main"}`, code: schemas.Conflict, status: 409, detail: "/branch"},
		"no table":        {body: `{"description":"d","repo":"app"}`, plant: func(h *hall) { h.repos = errors.New("private") }, code: schemas.Unavailable, status: 503},
		"no upstream":     {body: `{"description":"d","repo":"app"}`, plant: func(h *hall) { h.upstream = errors.New("private") }, code: schemas.Unavailable, status: 503},
		"denied upstream": {body: `{"description":"d","repo":"app"}`, plant: func(h *hall) { h.upstream = fault.New(schemas.DenyHost, "no") }, code: schemas.DenyHost, status: 403},
	} {
		h := lobby(t)
		if tc.plant != nil {
			tc.plant(h)
		}
		a := h.do(t, post("/v1/tasks", tc.body)).refused(t, tc.status, tc.code)
		require.Contains(t, a.field("detail"), tc.detail, name)
		require.NotContains(t, a.Body.String(), "private")
		require.Zero(t, h.records(t), "nothing was stored: "+name)
	}
}

func scoped(who ingress.Identity) func(*config) {
	return func(c *config) {
		c.Authenticate = func(*http.Request) (ingress.Identity, error) { return who, nil }
	}
}

// TestAgentsMayJoinPathsBadly: every route of theirs under every spelling of it.
func TestAgentsMayJoinPathsBadly(t *testing.T) {
	t.Parallel()
	h := lobby(t)
	for i, base := range []string{"", "/", "/api", "/api/", "//api//", "/api///"} { // each also with a slash at the end
		id := "t" + string(rune('a'+i))
		token := h.file(t, id)
		for range 2 {
			a := h.do(t, holding(token, get(base+"/agent/task")))
			require.Equal(t, http.StatusOK, a.Code, base)
			require.Equal(t, id, a.field("id"))
			require.Equal(t, http.StatusOK, h.do(t, holding(token, get(base+"/agent/task/"))).Code, base)
		}
		require.Equal(t, http.StatusOK, h.do(t, holding(token, post(base+"/agent//inquiry", `{"inquiry":"?"}`))).Code)
		require.Equal(t, http.StatusBadRequest, h.do(t, holding(token, post(base+"/agent/task//fail/", `{}`))).Code)
		rec := h.send(holding(token, post(base+"/agent/task/complete", `{"description":"done"}`)))
		require.Equal(t, http.StatusOK, rec.Code)
		require.Empty(t, rec.Body.Bytes(), "an answer without a body")
		require.Empty(t, rec.Header().Get("Location"))
	}
	lines := strings.Count(h.logs.String(), `"msg":"request"`)
	h.do(t, get("//agent/task"))
	require.Equal(t, lines+1, strings.Count(h.logs.String(), `"msg":"request"`), "one line a request")
	for _, path := range []string{"//v1/tasks", "/v1//tasks/lease", "//healthz", "/api/v1/tasks", "/v1/tasks/", "/agent/tasks", "/chat/completions/", "/v1/models//", "/%2Fagent/task", "//api/api/agent/task", "//agent/../agent/task"} {
		require.Equal(t, http.StatusNotFound, h.do(t, get(path)).Code, path)
	}
	require.Equal(t, http.StatusMethodNotAllowed, h.do(t, get("//agent/task/complete")).Code)
	require.Equal(t, http.StatusMethodNotAllowed, h.do(t, post("/api//agent/task", ``)).Code)
}

func TestAgentsNeedATokenInOpenMode(t *testing.T) {
	t.Parallel()
	h := lobby(t)
	h.file(t, "a")
	for path, body := range map[string]string{
		"/agent/task": "", "/agent/task/complete": `nonsense`, "/agent/task/fail": `{}`, "/agent/inquiry": ``, schemas.RouteTaskRelease: ``,
	} {
		for _, token := range []string{"", "x", "weirt1_", "nobody"} {
			r := post(path, body)
			if path == "/agent/task" {
				r = get(path)
			}
			if token != "" {
				holding(token, r)
			}
			a := h.do(t, r).refused(t, http.StatusUnauthorized, schemas.Unauthorized)
			require.Equal(t, "Bearer", a.Header().Get("WWW-Authenticate"))
		}
	}
	require.EqualValues(t, 1, h.records(t))
}

func TestLeasing(t *testing.T) {
	t.Parallel()
	h := lobby(t)
	rec := h.send(post(schemas.RouteTaskLease, `{}`))
	require.Equal(t, http.StatusNoContent, rec.Code)
	require.Empty(t, rec.Body.Bytes())
	for body, want := range map[string]int{`{"wait_ms":30001}`: 422, `[]`: 400, `{"more":1}`: 422} {
		require.Equal(t, want, h.do(t, post(schemas.RouteTaskLease, body)).Code, body)
	}
	a := h.do(t, holding("pool", get("/agent/task"))).refused(t, http.StatusNotFound, schemas.NotFound)
	require.Equal(t, "1", a.Header().Get("Retry-After"))

	h.file(t, "a")
	h.open(t, "a")
	a = h.do(t, bare(schemas.RouteTaskLease))
	require.Equal(t, http.StatusOK, a.Code)
	require.EqualValues(t, 1, a.field("lease"))
	require.EqualValues(t, 120_000, a.field("timeout_ms"))
	require.Equal(t, "a", a.Header().Get("Weir-Action-Id"))
	token, _ := a.field("token").(string)
	require.Equal(t, http.StatusOK, h.send(holding(token, get("/agent/task"))).Code)
	require.NotEmpty(t, <-h.touched, "calling anything keeps it")
	require.Equal(t, http.StatusNoContent, h.send(holding(token, post(schemas.RouteTaskRelease, ``))).Code)
	h.do(t, holding(token, post(schemas.RouteTaskRelease, ``))).refused(t, http.StatusUnauthorized, schemas.Unauthorized)

	leased := h.do(t, holding("pool", get("/api/agent/task"))).Header().Get(schemas.HeaderTaskToken)
	require.NotEmpty(t, leased)
	require.Equal(t, http.StatusOK, h.send(holding(leased, post("/agent/task/complete", `{"description":""}`))).Code)
	require.Equal(t, http.StatusOK, h.send(holding("pool", post("/agent/task/complete", `{"description":""}`))).Code)
	h.do(t, holding("pool", post("/agent/task/complete", `{"description":"x"}`))).refused(t, http.StatusBadRequest, schemas.TaskNotRunning)
}

// TestLimitsOfATasksToken: pools, and entries of the policy that repositories go by.
func TestLimitsOfATasksToken(t *testing.T) {
	t.Parallel()
	h := lobby(t, scoped(ingress.Identity{Token: schemas.Token{
		Tenant: "default", Scopes: []string{schemas.ScopeTasksWork, schemas.ScopeTasksWrite}, Pools: []string{"x"}, Entries: []string{"x"},
	}}))
	for body, path := range map[string]string{
		`{"pool":"y"}`:                     schemas.RouteTaskLease,
		`{"description":"d","repo":"app"}`: "/v1/tasks",
		`{"name":"n","upstream_url":"http://h/a","allowlist_key":"y"}`: "/v1/repos",
	} {
		h.do(t, post(path, body)).refused(t, http.StatusForbidden, schemas.Forbidden)
	}
	require.Equal(t, http.StatusNoContent, h.send(post(schemas.RouteTaskLease, `{"pool":"x"}`)).Code)
	require.Equal(t, http.StatusAccepted, h.do(t, post("/v1/repos", `{"name":"n","upstream_url":"http://h/a","allowlist_key":"x"}`)).Code)
}

// cut is a connection whose client has gone: what is written goes nowhere.
type cut struct {
	*httptest.ResponseRecorder
	write, flush error
}

func (c cut) Write(p []byte) (int, error) {
	if c.write != nil {
		return 0, c.write
	}
	return c.ResponseRecorder.Write(p)
}

func (c cut) FlushError() error { return c.flush }

// TestALeaseWhoseAnswerDoesNotGoOut is given back, whenever the client has gone: nobody
// has its token. A pool's agent finds the task again by asking again.
func TestALeaseWhoseAnswerDoesNotGoOut(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	type testCase struct {
		to   cut
		gone bool // before anything is written
		mute bool // the responder gives none
		kept bool
	}
	table.Run(t, map[string]testCase{
		"nothing is given":                        {mute: true},
		"nobody listens":                          {to: cut{write: broken}},
		"it is buffered":                          {to: cut{flush: broken}},
		"the client left while its task was read": {gone: true},
		"it goes out":                             {kept: true},
	}, func(t *testing.T, tt testCase) {
		h := lobby(t)
		h.file(t, "a")
		h.open(t, "a")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if tt.gone {
			h.responder.handing = cancel
		}
		h.responder.mute = tt.mute
		to := tt.to
		to.ResponseRecorder = httptest.NewRecorder()
		h.engine.ServeHTTP(to, post(schemas.RouteTaskLease, `{}`).WithContext(ctx))
		if tt.gone {
			require.Empty(t, to.Body.String())
		}
		h.responder.handing, h.responder.mute = nil, false
		if tt.kept {
			require.Equal(t, http.StatusNoContent, h.send(post(schemas.RouteTaskLease, `{}`)).Code)
			return
		}
		a := h.do(t, post(schemas.RouteTaskLease, `{}`))
		require.Equal(t, http.StatusOK, a.Code)
		require.EqualValues(t, 2, a.field("lease"))
	})
}

// TestWhoWaitsForAnswers: a few at a time, and each for itself.
func TestWhoWaitsForAnswers(t *testing.T) {
	t.Parallel()
	h := lobby(t)
	token, other := h.file(t, "a"), h.file(t, "b")
	in, answer := make(chan struct{}), make(chan struct{})
	h.responder.asking = func() { in <- struct{}{}; <-answer }
	ask := func(token string) *httptest.ResponseRecorder {
		return h.send(holding(token, post("/agent/inquiry", `{"inquiry":"may I?"}`)))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { assert.Equal(t, http.StatusOK, ask(token).Code) })
		<-in
	}
	full := h.do(t, holding(token, post("/agent/inquiry", `{"inquiry":"may I?"}`)))
	require.Equal(t, http.StatusTooManyRequests, full.Code)
	require.Equal(t, string(schemas.RateLimited), full.field("code"))
	require.Equal(t, "1", full.Header().Get("Retry-After"))
	wg.Go(func() { assert.Equal(t, http.StatusOK, ask(other).Code, "another task has its own") })
	<-in
	close(answer)
	wg.Wait()
	wg.Go(func() { assert.Equal(t, http.StatusOK, ask(token).Code, "who has an answer waits no more") })
	<-in
	wg.Wait()
}

func TestMakingARepository(t *testing.T) {
	t.Parallel()
	h := lobby(t)
	const body = `{"request_id":"r-1","name":"new","import_url":"http://ok.example/a.git"}`
	require.Equal(t, http.StatusAccepted, h.do(t, post("/v1/repos", body)).Code)
	c := h.responder.last(t)
	require.Equal(t, schemas.KindRepo, c.ref.Kind)
	require.Negative(t, c.wait, "its end is waited for")
	require.True(t, c.held)
	require.JSONEq(t, `{"name":"new","import_url":"http://ok.example/a.git"}`, string(h.action(t, "default", "r-1").Payload))

	h.do(t, post("/v1/repos", `{"name":"elsewhere","upstream_url":"http://evil.example/a"}`, "Prefer", "respond-async"))
	require.Equal(t, 10*time.Second, h.responder.last(t).wait, "a denial is heard at once")

	stored := h.records(t)
	for body, want := range map[string]int{
		`{"name":"app"}`:                        http.StatusConflict,
		`{"name":"n","import_url":"/etc"}`:      422,
		`{"request_id":"r-1","name":"another"}`: http.StatusConflict,
	} {
		require.Equal(t, want, h.do(t, post("/v1/repos", body)).Code, body)
	}
	h.repos = errors.New("private")
	h.do(t, post("/v1/repos", `{"name":"n"}`)).refused(t, http.StatusServiceUnavailable, schemas.Unavailable)
	require.Equal(t, stored, h.records(t))

	// Once it is there, the name that is taken is its own.
	h.repos = nil
	h.known = "new"
	require.Equal(t, http.StatusAccepted, h.do(t, post("/v1/repos", body)).Code)
	require.True(t, h.responder.last(t).receipt.Duplicate)
	h.do(t, post("/v1/repos", strings.Replace(body, "r-1", "r-2", 1))).refused(t, http.StatusConflict, schemas.Conflict)
}

// TestNoRepositoriesHere: where none can be made the person hears that at the door, and
// where another node may have one the door does not know better.
func TestNoRepositoriesHere(t *testing.T) {
	t.Parallel()
	h := lobby(t, func(c *config) {
		c.Work.Hosts = func() error { return fault.New(schemas.Unavailable, "install git") }
	})
	for _, body := range []string{`{"name":"n"}`, `{"name":"n","import_url":"http://ok.example/a.git"}`} {
		a := h.do(t, post("/v1/repos", body))
		require.Equal(t, http.StatusServiceUnavailable, a.Code)
		require.Contains(t, a.Body.String(), "install git")
	}
	require.Zero(t, h.records(t))
	require.Equal(t, http.StatusAccepted, h.do(t, post("/v1/repos", `{"name":"n","upstream_url":"http://ok.example/a"}`)).Code)
	h.upstream = fmt.Errorf("%w: here", git.ErrNoRepo)
	require.Equal(t, http.StatusCreated, h.do(t, post("/v1/tasks", `{"description":"d","repo":"app","branch":"taken"}`)).Code)
	h.upstream = errors.New("private")
	require.Equal(t, http.StatusServiceUnavailable, h.do(t, post("/v1/tasks", `{"description":"d","repo":"app"}`)).Code)
}

// A task names no model of ours that its holder could not ask.
func TestModelOfATask(t *testing.T) {
	t.Parallel()
	who := func(models, entries []string) ingress.Identity {
		return ingress.Identity{Token: schemas.Token{Tenant: "default", ID: "tok", Scopes: []string{schemas.ScopeTasksWrite}, Models: models, Entries: entries}}
	}
	for name, tc := range map[string]struct {
		who    ingress.Identity
		model  string
		chat   func(*config)
		status int
		code   schemas.Code
	}{
		"an exact name":          {who(nil, nil), "vendor/big", desk(), 201, ""},
		"an alias":               {who(nil, nil), "fast", desk(), 201, ""},
		"its creator's":          {who([]string{"vendor/*"}, []string{"model:one", "git"}), "fast", desk(), 201, ""},
		"nobody's":               {who(nil, nil), "nobody", desk(), 201, ""},
		"nobody's, of a few":     {who([]string{"vendor/small"}, nil), "nobody", desk(), 201, ""},
		"another's":              {who([]string{"vendor/small"}, nil), "vendor/big", desk(), 403, schemas.Forbidden},
		"at another's entry":     {who(nil, []string{"model:two", "git"}), "vendor/big", desk(), 403, schemas.Forbidden},
		"completions not served": {who([]string{"vendor/small"}, nil), "nobody", func(*config) {}, 201, ""},
	} {
		h := lobby(t, tc.chat, scoped(tc.who))
		a := h.do(t, post("/v1/tasks", `{"request_id":"t","description":"d","repo":"app","model":"`+tc.model+`"}`))
		require.Equal(t, tc.status, a.Code, "%s: %s", name, a.Body)
		if tc.code == "" {
			continue
		}
		require.Equal(t, "application/problem+json", a.Header().Get("Content-Type"), name)
		require.Equal(t, string(tc.code), a.field("code"), name)
		require.Contains(t, a.field("detail"), "at /model: ", name)
		require.Zero(t, h.records(t), name)
	}
}
