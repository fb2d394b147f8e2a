package egress_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// stock is a table of repositories.
type stock struct {
	mode schemas.RepoMode // default: hosted
	err  error
}

func (b *stock) List(_ context.Context, tenant string) ([]schemas.Repo, error) {
	if tenant != "acme" || b.err != nil {
		return nil, b.err
	}
	var all []schemas.Repo
	for _, name := range []string{"bakery", "shop", "zoo"} {
		all = append(all, schemas.Repo{ID: "disk-" + name, Tenant: tenant, Name: name, Mode: cmp.Or(b.mode, schemas.RepoHosted), DefaultBranch: "main"})
	}
	return all, nil
}

func (b *stock) Get(ctx context.Context, tenant, name string) (schemas.Repo, error) {
	all, err := b.List(ctx, tenant)
	if i := slices.IndexFunc(all, func(r schemas.Repo) bool { return r.Name == name }); i >= 0 {
		return all[i], nil
	}
	return schemas.Repo{}, cmp.Or(err, fault.ErrNotFound)
}

func tasked(c *config) {
	c.Repos = &stock{}
	c.PublicURL = func() string { return "https://weir.example" }
}

var theTask = schemas.Ref{Tenant: "acme", Kind: schemas.KindTask, ID: "t-1"}

// task files a task.
func (h *env) task(id, description string) *ledger.State {
	h.t.Helper()
	payload, err := ledger.Encode(schemas.TaskOrder{Description: description, Repo: "shop", Branch: "b-" + id, Pool: "default", Model: "m-1"})
	require.NoError(h.t, err)
	return h.accept(schemas.Action{ID: id, Kind: schemas.KindTask, TokenHash: "5ec4e7", Payload: payload})
}

func (h *env) signal(st *ledger.State, e schemas.TaskEvent) {
	h.t.Helper()
	h.append(st, schemas.Event{Type: schemas.EventSignal, Task: &e})
}

// status writes what a worker says of a task.
func (h *env) status(st *ledger.State, e schemas.TaskEvent) {
	h.t.Helper()
	h.append(st, schemas.Event{Type: schemas.EventStatus, Task: &e})
}

// lost is the loss of the first lease.
func (h *env) lost(st *ledger.State) {
	h.t.Helper()
	h.status(st, schemas.TaskEvent{What: schemas.TaskLost, Status: "Queued", Lease: 1})
}

func (h *env) canceled(st *ledger.State) {
	h.t.Helper()
	h.append(st, schemas.Event{Type: schemas.EventCancel})
}

func (h *env) opened(st *ledger.State) {
	h.t.Helper()
	h.append(st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "worker-7"}})
	h.status(st, schemas.TaskEvent{What: schemas.TaskOpened, Status: "Queued", Base: "b0"})
}

func (h *env) claimed(st *ledger.State, lease int) {
	h.t.Helper()
	e := schemas.TaskEvent{What: schemas.TaskClaimed, Status: "Running", Lease: lease}
	if lease > 0 {
		e.Holder, e.TokenHash = "pool-1", "5ec4e7"
	}
	h.signal(st, e)
}

func (h *env) asked(st *ledger.State, n int, text string) {
	h.t.Helper()
	h.signal(st, schemas.TaskEvent{What: schemas.TaskAsked, Status: "Running", Inquiry: &schemas.TaskInquiry{N: n, Text: text}})
}

func (h *env) answered(st *ledger.State, n int, text string) {
	h.t.Helper()
	h.signal(st, schemas.TaskEvent{What: schemas.TaskAnswered, Status: "Running", Inquiry: &schemas.TaskInquiry{N: n, Text: text}})
}

func (h *env) reported(st *ledger.State, lease int) {
	h.t.Helper()
	h.signal(st, schemas.TaskEvent{What: schemas.TaskReported, Status: "Completed", Lease: lease, Report: &schemas.TaskReport{Completed: true, Description: "did it"}})
}

func (h *env) completed(st *ledger.State) {
	h.t.Helper()
	h.settle(st, schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage(`{"status":"Completed","description":"did it","branch":"b","base":"b0","head":"c1"}`)})
}

func TestOneTask(t *testing.T) {
	t.Parallel()
	h := build(t, tasked)
	long := "Fix <it>" + strings.Repeat("x", schemas.MaxTaskDescription-8) // it lies aside
	st := h.task("t-1", long)
	h.opened(st)
	h.claimed(st, 1)
	require.Equal(t, long, decode[schemas.AgentTask](t, h.agent(t.Context(), 1).Body).Description)
	w := h.get("/v1/tasks/t-1")
	require.Equal(t, http.StatusOK, w.Code)
	require.Positive(t, h.barrier.Load(), "nothing is shown that would not survive")
	require.Contains(t, w.Body.String(), "Fix <it>")
	require.NotContains(t, w.Body.String(), "5ec4e7")
	v := decode[schemas.TaskView](t, w.Body)
	require.Equal(t, []any{"t-1", schemas.TaskStatusRunning, "https://weir.example/git/shop.git", "b-t-1", "pool-1", "/v1/tasks/t-1/events"},
		[]any{v.ID, v.Status, v.RepoURL, v.Branch, v.Holder, v.EventsURL})
	h.claim(httpRef("call"))
	for _, path := range []string{"t-2", "call", "a%20b", "call/events", "a%20b/events"} {
		w := h.get("/v1/tasks/" + path)
		require.Equal(t, http.StatusNotFound, w.Code, path)
		require.Equal(t, "there is no such task", decode[schemas.Problem](t, w.Body).Detail, path)
	}
	require.Equal(t, http.StatusNotFound, build(t).get("/v1/tasks/t-1").Code, "a node without tasks")
}

func TestTheDiffOfATask(t *testing.T) {
	t.Parallel()
	var cut bool
	var gone error
	repos := &stock{}
	h := build(t, tasked, func(c *config) {
		c.Repos = repos
		c.Diff = func(_ context.Context, repo schemas.Repo, base, head string, most int) ([]byte, bool, error) {
			require.Equal(t, []any{"disk-shop", 1 << 20}, []any{repo.ID, most})
			return []byte("-" + base + "\n+" + head + "\n"), cut, gone
		}
	})
	says := func(status int, text string) *httptest.ResponseRecorder {
		t.Helper()
		w := h.get("/v1/tasks/t-1/diff")
		require.Equal(t, status, w.Code, w.Body.String())
		require.Contains(t, w.Body.String(), text)
		return w
	}
	st := h.task("t-1", "d")
	h.opened(st)
	says(http.StatusNotFound, "pushed nothing yet")
	h.status(st, schemas.TaskEvent{What: schemas.TaskPushed, Status: "Running", Head: "c1", Push: "p-1"})
	w := says(http.StatusOK, "-b0\n+c1\n")
	require.Equal(t, "text/x-diff; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.NotContains(t, w.Body.String(), "cut")
	cut = true
	says(http.StatusOK, "+c1\n\nThe diff is cut here, after 8 bytes. In a clone, git diff b0 c1 shows the rest.\n")
	gone = fault.ErrNotFound
	says(http.StatusNotFound, "any more")
	gone = fault.ErrUnavailable
	says(http.StatusServiceUnavailable, "")
	repos.mode = schemas.RepoProxy
	says(http.StatusNotFound, "at its upstream")
	require.Equal(t, http.StatusNotFound, h.ask(http.MethodGet, "/v1/tasks/t-1/diff", "other").Code)
}

func TestTheListOfTasks(t *testing.T) {
	t.Parallel()
	h := build(t, tasked)
	var want []string
	for i := range 9 {
		id := fmt.Sprintf("t-%d", i)
		st := h.task(id, "d")
		if i%3 == 0 {
			h.claimed(st, 0)
			want = append(want, id)
		}
		h.claim(httpRef(fmt.Sprintf("call-%d", i)))
	}
	slices.Reverse(want)
	list := func(query string, limit int) (ids []string) {
		for _, v := range pages[schemas.TaskView](h, "/v1/tasks"+query, limit) {
			ids = append(ids, v.ID)
		}
		return ids
	}
	require.Len(t, list("", 2), 9)
	require.Equal(t, want, list("?status=Running", 1))
	require.Equal(t, want, list("?status=Running", 50))
	require.Empty(t, list("?status=Expired", 50))
	over := h.filed("over") // and not settled yet: no list loses it
	h.reported(over, 1)
	require.Equal(t, []string{"over"}, list("?status=Completed", 50))
	empty := h.ask(http.MethodGet, "/v1/tasks", "other")
	require.Contains(t, empty.Body.String(), `"items":[]`)
	for _, query := range []string{"status=open", "cursor=X", "cursor=", "limit=0"} {
		require.Equal(t, http.StatusBadRequest, h.get("/v1/tasks?"+query).Code, query)
	}
	h.failing(func() error { return fault.ErrUnavailable })
	require.Equal(t, http.StatusServiceUnavailable, h.get("/v1/tasks").Code)
}

// whole is a task that has ended, with a cancel that came too late.
func (h *env) whole(id string) *ledger.State {
	st := h.task(id, "d")
	h.opened(st)
	h.append(st, schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitAgent}})
	h.claimed(st, 1)
	h.asked(st, 1, "SECRET?")
	h.canceled(st)
	h.status(st, schemas.TaskEvent{What: schemas.TaskPushed, Status: "Running", Head: "c1", Push: "p-1"})
	return st
}

func TestTheChangesOfATask(t *testing.T) {
	t.Parallel()
	h := build(t, tasked)
	st := h.whole("t-1")
	h.reported(st, 1)
	h.completed(st)
	w := h.get("/v1/tasks/t-1/events", "Accept", "text/event-stream")
	require.Equal(t, http.StatusOK, w.Code)
	require.NotContains(t, w.Body.String(), "SECRET", "a status holds no content")
	require.NotContains(t, w.Body.String(), "did it")
	all := frames(w.Body.String())
	var updates []schemas.TaskUpdate
	for _, f := range all {
		require.Contains(t, f, "\nevent: status\ndata: {")
		_, data, _ := strings.Cut(f, "data: ")
		updates = append(updates, decode[schemas.TaskUpdate](t, strings.NewReader(data)))
	}
	var short []string
	for _, u := range updates {
		require.Equal(t, "t-1", u.TaskID)
		short = append(short, fmt.Sprintf("%d %s %s", u.N, u.What, u.Status))
	}
	require.Equal(t, []string{
		"1 accepted Queued", "3 opened Queued", "5 claimed Running", "6 asked Running", "7 cancel Running", "8 pushed Running", "9 reported Completed", "10 settled Completed",
	}, short)
	require.Equal(t, []any{"b0", 1, "c1", "p-1", "c1"}, []any{updates[1].Head, updates[3].Inquiry, updates[5].Head, updates[5].Push, updates[7].Head})

	// The same as pages, from anywhere on.
	for _, limit := range []int{1, 3, 100} {
		var got []schemas.TaskUpdate
		for after := "0"; after != ""; {
			page := decode[schemas.Page[schemas.TaskUpdate]](t, h.get(fmt.Sprintf("/v1/tasks/t-1/events?limit=%d&after=%s", limit, after), "Accept", "application/json").Body)
			got = append(got, page.Items...)
			after = page.Next
		}
		require.Equal(t, updates, got)
	}
	w = h.get("/v1/tasks/t-1/events", "Accept", "text/event-stream", "Last-Event-ID", idOf(all[3]))
	require.Equal(t, all[4:], frames(w.Body.String()))
	for _, bad := range []string{"?after=x", "?limit=0&live=long-poll", "?timeout=x&live=long-poll"} {
		require.Equal(t, http.StatusBadRequest, h.get("/v1/tasks/t-1/events"+bad).Code, bad)
	}
	// And as the action's own events, with all that its people may see.
	require.Contains(t, h.get("/v1/actions/t-1/events", "Accept", "application/json").Body.String(), "SECRET?")
	require.NotContains(t, h.get("/v1/actions/t-1/events", "Accept", "application/json").Body.String(), "5ec4e7")
}

// TestOutputOfATask is among its events, under a name of its own, for those who read states alone.
func TestOutputOfATask(t *testing.T) {
	t.Parallel()
	h := build(t, tasked)
	st := h.task("t-1", "d")
	h.opened(st)
	h.claimed(st, 1)
	h.append(st, schemas.Event{Type: schemas.EventProgress, Data: json.RawMessage(`{"lease":1,"at":7,"text":"ok\n\u001b[31m"}`)})
	h.reported(st, 1)
	h.completed(st)
	all := frames(h.get("/v1/tasks/t-1/events", "Accept", "text/event-stream").Body.String())
	require.Contains(t, all[3], "\nevent: output\ndata: {")
	_, data, _ := strings.Cut(all[3], "data: ")
	got := decode[schemas.TaskUpdate](t, strings.NewReader(data))
	require.Equal(t, []any{"output", schemas.TaskStatusRunning, 1, int64(7), "ok\n\x1b[31m"}, []any{got.What, got.Status, got.Lease, got.At, got.Text})
	page := decode[schemas.Page[schemas.TaskUpdate]](t, h.get("/v1/tasks/t-1/events", "Accept", "application/json").Body)
	require.Equal(t, got, page.Items[3])
}

// TestAChangeIsWaitedFor by a page; what changes nothing does not end the wait.
func TestAChangeIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t, tasked)
		st := h.task("t-1", "d")
		first := decode[schemas.Page[schemas.TaskUpdate]](t, h.get("/v1/tasks/t-1/events", "Accept", "application/json").Body)
		got := make(chan *httptest.ResponseRecorder, 1)
		go func() { got <- h.get("/v1/tasks/t-1/events?live=long-poll&timeout=20&after=" + first.Next) }()
		synctest.Wait()
		h.append(st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}})
		synctest.Wait()
		require.Empty(t, got)
		h.claimed(st, 0)
		page := decode[schemas.Page[schemas.TaskUpdate]](t, (<-got).Body)
		require.Len(t, page.Items, 1)
		require.Equal(t, "claimed", page.Items[0].What)
	})
}

// agent answers as ingress has it for GET /agent/task.
func (h *env) agent(ctx context.Context, lease int) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.tasks.AgentTask(w, httptest.NewRequestWithContext(ctx, http.MethodGet, schemas.RouteAgentTask, http.NoBody), theTask, lease)
	return w
}

func TestAnAgentWaitsForItsBranch(t *testing.T) {
	t.Parallel()
	const ready = `{"status":"Running","description":"d","git_user_name":"weir[bot]","git_user_email":"weir[bot]@users.noreply.weir.invalid",` +
		`"git_repo_url":"https://weir.example/git/shop.git","git_branch":"b-t-1"}`
	type testCase struct {
		live   func(h *env, st *ledger.State)
		status int
		code   schemas.Code // or the status of a task that has ended
	}
	table.BubbleNamed(t, map[string]testCase{
		"it is there":    {func(h *env, st *ledger.State) { h.opened(st); h.claimed(st, 0) }, 200, ""},
		"it comes":       {func(h *env, st *ledger.State) { time.Sleep(9 * time.Second); h.opened(st) }, 200, ""},
		"it comes late":  {func(*env, *ledger.State) { time.Sleep(11 * time.Second) }, 503, schemas.Unavailable},
		"it is canceled": {(*env).canceled, 400, schemas.TaskNotRunning},
		"it cannot be made": {func(h *env, st *ledger.State) {
			h.status(st, schemas.TaskEvent{What: schemas.TaskClosed, Status: "Failed", Code: schemas.Conflict})
		}, 200, "Failed"},
		"it has ended":          {func(h *env, st *ledger.State) { h.opened(st); h.claimed(st, 0); h.reported(st, 0); h.completed(st) }, 200, "Completed"},
		"it is lost":            {func(h *env, st *ledger.State) { h.lost(st); h.opened(st) }, 401, schemas.Unauthorized},
		"it is lost to another": {func(h *env, st *ledger.State) { h.lost(st); h.opened(st); h.claimed(st, 2) }, 401, schemas.Unauthorized},
		"the node stops":        {func(h *env, _ *ledger.State) { h.feed.EndStreams() }, 503, schemas.Unavailable},
	}, func(t *testing.T, name string, tc testCase) {
		h := build(t, tasked)
		st := h.task("t-1", "d")
		lease := 0
		if strings.Contains(name, "lost") {
			lease = 1
		}
		got := make(chan *httptest.ResponseRecorder, 1)
		if name == "it is there" || name == "it has ended" {
			tc.live(h, st)
			go func() { got <- h.agent(t.Context(), lease) }()
		} else {
			h.claimed(st, lease)
			go func() { got <- h.agent(t.Context(), lease) }()
			synctest.Wait()
			tc.live(h, st)
		}
		w := <-got
		require.Equal(t, tc.status, w.Code, w.Body.String())
		if tc.status == 200 {
			require.JSONEq(t, strings.Replace(ready, "Running", cmp.Or(string(tc.code), "Running"), 1), w.Body.String())
		} else {
			require.Equal(t, tc.code, decode[schemas.Problem](t, w.Body).Code)
		}
		require.Equal(t, tc.status == 503, w.Header().Get("Retry-After") != "")
	})
}

// leftContext is of a client that left when its task had just been read.
type leftContext struct{ context.Context }

func (leftContext) Err() error { return context.Canceled }

func TestATaskThatIsLeased(t *testing.T) {
	t.Parallel()
	h := build(t, tasked)
	st := h.task("t-1", "d")
	h.opened(st)
	h.claimed(st, 1)
	leased := func(lease int) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		given := h.tasks.Leased(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, schemas.RouteTaskLease, http.NoBody), theTask, lease, "weirt1_x", 90*time.Second)
		require.Equal(t, w.Code == http.StatusOK, given)
		return w
	}
	w := leased(1)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	got := decode[schemas.LeasedTask](t, w.Body)
	require.Equal(t, []any{"t-1", 1, "weirt1_x", int64(90_000), "m-1", st.Action.Deadline, schemas.TaskStatusRunning},
		[]any{got.ID, got.Lease, got.Token, got.Timeout, got.Model, got.Deadline, got.Task.Status})
	require.Equal(t, http.StatusUnauthorized, leased(2).Code, "it is another's")

	w = httptest.NewRecorder()
	given := h.tasks.Leased(w, httptest.NewRequestWithContext(leftContext{t.Context()}, http.MethodPost, schemas.RouteTaskLease, http.NoBody), theTask, 1, "weirt1_x", 90*time.Second)
	require.False(t, given, "its client has left")
	require.Empty(t, w.Body.String())
}

// inquire answers as ingress has it for POST /agent/inquiry.
func (h *env) inquire(ctx context.Context, lease, n int) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.tasks.Inquiry(w, httptest.NewRequestWithContext(ctx, http.MethodPost, schemas.RouteAgentInquiry, http.NoBody), theTask, lease, n)
	return w
}

func TestAnAnswerIsWaitedFor(t *testing.T) {
	t.Parallel()
	type testCase struct {
		live   func(h *env, st *ledger.State)
		status int
		want   string // a part of the body
	}
	table.BubbleNamed(t, map[string]testCase{
		"answered":            {func(h *env, st *ledger.State) { h.answered(st, 1, "half <even> \u00fc") }, 200, `"half <even> ü"`},
		"answered with none":  {func(h *env, st *ledger.State) { h.answered(st, 1, "") }, 200, `""`},
		"another is answered": {func(h *env, st *ledger.State) { h.asked(st, 2, "b"); h.answered(st, 2, "B"); h.answered(st, 1, "A") }, 200, `"A"`},
		"completed meanwhile": {func(h *env, st *ledger.State) { h.reported(st, 1) }, 400, "Task is not running"},
		"canceled":            {(*env).canceled, 400, "Task is not running"},
		"lost":                {(*env).lost, 401, "UNAUTHORIZED"},
		"lost to another":     {func(h *env, st *ledger.State) { h.lost(st); h.claimed(st, 2) }, 401, "UNAUTHORIZED"},
		"the node stops":      {func(h *env, _ *ledger.State) { h.feed.EndStreams() }, 503, "ask again"},
		"the log is lost": {func(h *env, st *ledger.State) {
			h.log.Purge(schemas.LogStream(layout.Partition("acme", "t-1")), st.Seq)
		}, 200, `"after all"`},
	}, func(t *testing.T, name string, tc testCase) {
		h := build(t, tasked)
		st := h.task("t-1", "d")
		h.opened(st)
		h.claimed(st, 1)
		h.asked(st, 1, "a")
		got := make(chan *httptest.ResponseRecorder, 1)
		go func() { got <- h.inquire(t.Context(), 1, 1) }()
		time.Sleep(time.Hour + time.Second)
		require.Empty(t, got, "it waits for as long as it takes")
		tc.live(h, st)
		if name == "the log is lost" { // what follows comes by the feed
			h.answered(st, 1, "after all")
		}
		w := <-got
		require.Equal(t, tc.status, w.Code, w.Body.String())
		require.Contains(t, w.Body.String(), tc.want)
		if tc.status == 200 {
			require.Equal(t, tc.want, w.Body.String())
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		}
	})
}

// TestAnswersThatAreThere need no waiting, whoever has asked.
func TestAnswersThatAreThere(t *testing.T) {
	t.Parallel()
	h := build(t, tasked)
	st := h.task("t-1", "d")
	h.claimed(st, 0)
	h.asked(st, 1, "a")
	h.answered(st, 1, "A")
	require.Equal(t, `"A"`, h.inquire(t.Context(), 0, 1).Body.String())
	h.reported(st, 0)
	require.Equal(t, `"A"`, h.inquire(t.Context(), 0, 1).Body.String())
	require.Equal(t, http.StatusBadRequest, h.inquire(t.Context(), 0, 2).Code)
}

func TestRepositories(t *testing.T) {
	t.Parallel()
	h := build(t, tasked)
	page := decode[schemas.Page[schemas.Repo]](t, h.get("/v1/repos?limit=2").Body)
	require.Len(t, page.Items, 2)
	require.Equal(t, "shop", page.Next)
	w := h.get("/v1/repos?cursor=shop")
	require.NotContains(t, w.Body.String(), "disk-")
	require.NotContains(t, w.Body.String(), "acme")
	require.Equal(t, "https://weir.example/git/zoo.git", decode[schemas.Page[schemas.Repo]](t, w.Body).Items[0].URL)
	one := h.get("/v1/repos/shop")
	require.JSONEq(t, `{"name":"shop","mode":"hosted","default_branch":"main","created":"0001-01-01T00:00:00Z","url":"https://weir.example/git/shop.git"}`, one.Body.String())
	for _, tc := range []struct{ tenant, path string }{{"acme", "none"}, {"other", "shop"}, {"acme", "..%2Fshop"}} {
		w := h.ask(http.MethodGet, "/v1/repos/"+tc.path, tc.tenant)
		require.Equal(t, http.StatusNotFound, w.Code)
	}
	require.Equal(t, http.StatusBadRequest, h.get("/v1/repos?limit=0").Code)
	down := build(t, func(c *config) { c.Repos = &stock{err: fault.ErrUnavailable} })
	require.Equal(t, http.StatusServiceUnavailable, down.get("/v1/repos").Code)
	require.Equal(t, http.StatusServiceUnavailable, down.get("/v1/repos/shop").Code)
}

func TestEndsOfTheNewKinds(t *testing.T) {
	t.Parallel()
	h := build(t, tasked)
	repo := schemas.Ref{Tenant: "acme", Kind: schemas.KindRepo, ID: "r-1"}
	h.settle(h.claim(repo), schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage(`{"id":"disk-1","tenant":"acme","name":"shop","mode":"hosted","default_branch":"main","created":"2026-01-02T03:04:05Z"}`)})
	for _, duplicate := range []bool{false, true} {
		w := h.respond(t.Context(), repo, receipt("r-1", duplicate), -1)
		require.Equal(t, http.StatusCreated, w.Code)
		require.Equal(t, "/v1/repos/shop", w.Header().Get("Location"))
		require.JSONEq(t, `{"name":"shop","mode":"hosted","default_branch":"main","created":"2026-01-02T03:04:05Z","url":"https://weir.example/git/shop.git"}`, w.Body.String())
	}
	require.NotContains(t, h.get("/v1/actions/r-1").Body.String(), "disk-1")
	require.NotContains(t, h.get("/v1/actions/r-1/events", "Accept", "application/json").Body.String(), "disk-1")

	taken := schemas.Ref{Tenant: "acme", Kind: schemas.KindRepo, ID: "r-2"}
	h.settle(h.claim(taken), schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.Conflict, Message: "the name is taken"})
	w := h.respond(t.Context(), taken, receipt("r-2", false), -1)
	require.Equal(t, http.StatusConflict, w.Code)
	require.Equal(t, "the name is taken", decode[schemas.Problem](t, w.Body).Detail)

	st := h.task("t-1", "d")
	h.opened(st)
	h.claimed(st, 0)
	h.reported(st, 0)
	h.completed(st)
	w = h.respond(t.Context(), theTask, receipt("t-1", true), -1)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, schemas.TaskStatusCompleted, decode[schemas.TaskView](t, w.Body).Status)
	view := decode[schemas.ActionView](t, h.get("/v1/actions/t-1").Body)
	require.JSONEq(t, `{"status":"Completed","description":"did it","branch":"b","base":"b0","head":"c1"}`, string(view.Result))
}

// TestALateReplicaIsNotBelieved: who holds a task by the leader's word is not told by a
// replica, which has not heard of that, that it does not.
func TestALateReplicaIsNotBelieved(t *testing.T) {
	t.Parallel()
	table.RunNamed(t, map[string]func(h *env) *httptest.ResponseRecorder{
		"the task": func(h *env) *httptest.ResponseRecorder { return h.agent(h.t.Context(), 2) },
		"the lease": func(h *env) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.tasks.Leased(w, httptest.NewRequestWithContext(h.t.Context(), http.MethodPost, schemas.RouteTaskLease, http.NoBody), theTask, 2, "weirt1_x", time.Minute)
			return w
		},
		"the answer": func(h *env) *httptest.ResponseRecorder { return h.inquire(h.t.Context(), 2, 1) },
	}, func(t *testing.T, name string, do func(h *env) *httptest.ResponseRecorder) {
		for late := range 6 {
			synctest.Test(t, func(t *testing.T) {
				h := build(t, tasked)
				st := h.task("t-1", "d")
				h.opened(st)
				h.claimed(st, 1)
				h.lost(st)
				h.claimed(st, 2)
				h.asked(st, 1, "a")
				if name == "the answer" {
					go func() {
						time.Sleep(time.Minute)
						h.answered(st, 1, "A")
					}()
				}
				h.late.Store(int64(late))
				go func() {
					time.Sleep(time.Second)
					h.late.Store(0)
				}()
				w := do(h)
				require.Equal(t, http.StatusOK, w.Code, "late by %d: %s", late, w.Body)
				time.Sleep(2 * time.Second)
			})
		}
	})
}

// TestABranchThatTheFeedHasMissed is found before the agent is sent away.
func TestABranchThatTheFeedHasMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t, tasked)
		st := h.task("t-1", "d")
		h.claimed(st, 0)
		h.deaf.Store(true)
		got := make(chan *httptest.ResponseRecorder, 1)
		go func() { got <- h.agent(t.Context(), 0) }()
		time.Sleep(time.Second)
		h.opened(st)
		begun := time.Now()
		require.Equal(t, http.StatusOK, (<-got).Code)
		require.Less(t, time.Since(begun), 3*time.Second)
	})
}

// TestAListOfAFewAmongMany reads few of the many as a whole, and ends early where it
// has to read many.
func TestAListOfAFewAmongMany(t *testing.T) {
	t.Parallel()
	h := build(t, tasked)
	const many = 150
	h.claimed(h.task("first", "d"), 0)
	for i := range many {
		h.completed(h.filed(fmt.Sprintf("done-%d", i)))
	}
	canceled := h.filed("canceled")
	h.settle(canceled, schemas.Settled{Outcome: schemas.OutcomeCanceled, Code: schemas.Canceled})
	poison := h.filed("poison")
	h.reported(poison, 1)
	h.settle(poison, schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.Poison})
	list := func(query string) (ids []string, next string) {
		page := decode[schemas.TaskPage](t, h.get("/v1/tasks?"+query).Body)
		for _, v := range page.Items {
			ids = append(ids, v.ID)
		}
		return ids, page.Next
	}
	before := h.reads.Load()
	ids, next := list("status=Running")
	require.Equal(t, []string{"first"}, ids)
	require.Empty(t, next, "the many were passed over")
	require.Less(t, h.reads.Load()-before, int64(many/2), "without a look at any of them")
	ids, _ = list("status=Canceled")
	require.Equal(t, []string{"canceled"}, ids)
	ids, _ = list("status=Completed&limit=1")
	require.Equal(t, []string{"poison"}, ids, "what its agent has said stands, whatever came of its record")
	for i := range many {
		h.filed(fmt.Sprintf("queued-%d", i))
	}
	ids, next = list("status=Failed")
	require.Empty(t, ids)
	require.NotEmpty(t, next, "one page costs only so much")
	_, next = list("status=Failed&cursor=" + next)
	require.Empty(t, next)
	for i := range 20 {
		h.claimed(h.task(fmt.Sprintf("long-%d", i), strings.Repeat("x", schemas.MaxTaskDescription)), 1)
	}
	ids, next = list("limit=50")
	require.Len(t, ids, 16, "long tasks make a short page")
	require.NotEmpty(t, next)
}

func (h *env) filed(id string) *ledger.State {
	h.t.Helper()
	st := h.task(id, "d")
	h.claimed(st, 1)
	return st
}
