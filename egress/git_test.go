package egress_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/git"
	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// stable is a table of repositories, and a source that answers.
type stable struct {
	stock
	fails  error  // of the source
	before string // what it writes before that
	during func() // is called first
}

func (s *stable) Advertise(_ context.Context, _ schemas.Repo, _ task.Grant, _ string, _ int, w io.Writer) error {
	return s.say(w)
}

func (s *stable) UploadPack(_ context.Context, _ schemas.Repo, _ task.Grant, _ gitwire.Fetch, w io.Writer) error {
	return s.say(w)
}

func (s *stable) say(w io.Writer) error {
	if s.during != nil {
		s.during()
	}
	text := "fine"
	if s.fails != nil {
		text = s.before
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return s.fails
}

// gitGrants are of a task's holder and of a reader of the tenant.
func gitGrants(_ context.Context, token string) (task.Grant, error) {
	switch token {
	case "task":
		return task.Grant{Tenant: "acme", TaskID: "t-1", Repo: "shop", Branch: "work"}, nil
	case "reader":
		return task.Grant{Tenant: "acme"}, nil
	default:
		return task.Grant{}, fault.New(schemas.Unauthorized, "the token is not in force")
	}
}

// gitHouse serves git over a stable of repositories.
func gitHouse(t *testing.T, s *stable, change ...func(*git.Config)) *env {
	t.Helper()
	cfg := git.Config{
		Authorizer: githttp.Authorizer{Grant: gitGrants, Repos: s}, Hosted: s, Hold: func(task.Grant) func() { return func() {} }, Timeout: time.Minute,
		Over:   func(schemas.Ref, int) (<-chan struct{}, func()) { return nil, func() {} },
		Opened: func(*http.Request, task.Grant) error { return nil },
	}
	for _, f := range change {
		f(&cfg)
	}
	return build(t, func(c *config) { c.Git = &cfg })
}

func pkt(text string) string {
	return "00" + strconv.FormatInt(int64(len(text)+4)+0x100, 16)[1:] + text
}

var lsRefs = pkt("command=ls-refs\n") + "0000"

const (
	fetchType = "application/x-git-upload-pack-request"
	refsPath  = "/info/refs?service=git-upload-pack"
)

// fetch sends a body as the client of git does.
func (h *env) fetch(token, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/git/shop/git-upload-pack", strings.NewReader(body))
	for i, header := 0, append([]string{"Authorization", "Bearer " + token, "Content-Type", fetchType, "Git-Protocol", "version=2"}, headers...); i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.engine.ServeHTTP(w, r)
	return w
}

// refused checks the form of a refusal, for a program and for git.
func refused(t *testing.T, w *httptest.ResponseRecorder, status int, code schemas.Code, what string) {
	t.Helper()
	require.Equal(t, status, w.Code, "%s: %s", what, w.Body)
	require.Equal(t, problem.MediaType, w.Header().Get("Content-Type"), what)
	p := decode[schemas.Problem](t, w.Body)
	require.Equal(t, code, p.Code, what)
	require.NotEmpty(t, p.Detail, what)
	want := ""
	if status == http.StatusUnauthorized {
		want = `Basic realm="weir"`
	}
	require.Equal(t, want, w.Header().Get("WWW-Authenticate"), what)
}

// An answer that was not begun has a status of its own; one that was is cut off.
func TestGitSourcesFail(t *testing.T) {
	t.Parallel()
	h := gitHouse(t, &stable{stock: stock{mode: schemas.RepoProxy}, fails: fault.New(schemas.DenyHost, "the policy does not allow it")}, func(c *git.Config) { c.Proxied = c.Hosted })
	refused(t, h.ask(http.MethodGet, "/git/shop"+refsPath, "reader"), 403, schemas.DenyHost, "refs")
	refused(t, h.fetch("reader", lsRefs), 403, schemas.DenyHost, "fetch")

	h = gitHouse(t, &stable{stock: stock{mode: schemas.RepoProxy}})
	refused(t, h.ask(http.MethodGet, "/git/shop"+refsPath, "reader"), 503, schemas.Unavailable, "refs of an upstream that this node does not reach")
	refused(t, h.fetch("reader", lsRefs), 503, schemas.Unavailable, "a fetch from it")

	h = gitHouse(t, &stable{fails: errDown})
	w := h.ask(http.MethodGet, "/git/shop"+refsPath, "task")
	refused(t, w, 500, schemas.Internal, "an error that is nobody's business")
	require.NotContains(t, w.Body.String(), "10.0.0.1")

	h = gitHouse(t, &stable{stock: stock{err: fault.ErrUnavailable}})
	refused(t, h.ask(http.MethodGet, "/git/shop"+refsPath, "task"), 503, schemas.Unavailable, "a table out of reach hides no repository")

	h = gitHouse(t, &stable{}, func(c *git.Config) {
		c.Opened = func(*http.Request, task.Grant) error { return task.NotRunning() }
	})
	refused(t, h.ask(http.MethodGet, "/git/shop"+refsPath, "task"), 403, schemas.Forbidden, "a branch that will never be there")

	for method, path := range map[string]string{http.MethodPost: "objects/batch", http.MethodGet: "locks"} {
		w = h.ask(method, "/git/shop/info/lfs/"+path, "task")
		require.Equal(t, http.StatusNotImplemented, w.Code)
		require.Equal(t, "application/vnd.git-lfs+json", w.Header().Get("Content-Type"))
		require.Contains(t, w.Body.String(), "GIT_LFS_SKIP_SMUDGE=1")
		refused(t, h.ask(method, "/git/shop/info/lfs/"+path, "dead"), 401, schemas.Unauthorized, "LFS")
	}
	w = h.ask(http.MethodGet, "/git/shop"+refsPath, "weirt1_dead")
	require.Contains(t, w.Body.String(), "the task has ended, its lease is lost")
	refused(t, w, 401, schemas.Unauthorized, "the token of a task that has ended")

	h = gitHouse(t, &stable{fails: errDown, before: "some"})
	require.PanicsWithError(t, http.ErrAbortHandler.Error(), func() { h.fetch("task", lsRefs) })
}

// Who reads keeps the lease of its task until it is answered, whatever comes of it.
func TestGitKeepsTheLease(t *testing.T) {
	t.Parallel()
	denied := fault.New(schemas.DenyHost, "the policy does not allow it")
	type testCase struct {
		source  stable
		fetch   string // a body; nothing: it is info/refs
		token   string
		headers []string
		status  int
		held    int32
	}
	table.Run(t, map[string]testCase{
		"refs":                  {token: "task", status: 200, held: 1},
		"refs that fail":        {source: stable{fails: denied}, token: "task", status: 403, held: 1},
		"refs of a dead token":  {token: "dead", status: 401},
		"a fetch":               {fetch: lsRefs, token: "task", status: 200, held: 1},
		"a probe":               {fetch: "0000", token: "task", status: 200, held: 1},
		"one that is too large": {fetch: strings.Repeat("0", 9<<20), token: "task", status: 413, held: 1},
		"a fetch that fails":    {source: stable{fails: errDown}, fetch: lsRefs, token: "task", status: 500, held: 1},
		"one that breaks off":   {source: stable{fails: errDown, before: "some"}, fetch: lsRefs, token: "task", held: 1},
		"its media type":        {fetch: lsRefs, token: "task", headers: []string{"Content-Type", "text/plain"}, status: 415},
	}, func(t *testing.T, tc testCase) {
		var now, ever, during atomic.Int32
		var who task.Grant
		source := tc.source
		source.during = func() { during.Store(now.Load()) }
		h := gitHouse(t, &source, func(c *git.Config) {
			c.Hold = func(g task.Grant) func() {
				who = g
				now.Add(1)
				ever.Add(1)
				return func() { now.Add(-1) }
			}
		})
		var w *httptest.ResponseRecorder
		ask := func() {
			if tc.fetch == "" {
				w = h.ask(http.MethodGet, "/git/shop"+refsPath, tc.token)
			} else {
				w = h.fetch(tc.token, tc.fetch, tc.headers...)
			}
		}
		if tc.status == 0 {
			require.PanicsWithError(t, http.ErrAbortHandler.Error(), ask)
		} else {
			ask()
			require.Equal(t, tc.status, w.Code, w.Body)
		}
		require.Equal(t, tc.held, ever.Load())
		require.Zero(t, now.Load(), "it is released")
		if tc.held > 0 {
			require.Equal(t, "t-1", who.TaskID)
		}
		if tc.status == http.StatusOK && tc.fetch != "0000" {
			require.EqualValues(t, 1, during.Load(), "it is held while the source answers")
		}
	})
}

// One task cannot take all of a repository's fetches with answers that it does not read.
func TestFetchesOfOneTask(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	h := gitHouse(t, &stable{during: func() { begun <- struct{}{}; <-end }})
	done := make(chan int, 4)
	for range 4 {
		go func() { done <- h.fetch("task", lsRefs).Code }()
		<-begun
	}
	w := h.fetch("task", lsRefs, "User-Agent", "git/2.39.5")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, "this task has 4 fetches on their way already; try again when one of them has ended (RATE_LIMITED)\n", w.Body.String())
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	go func() { done <- h.fetch("reader", lsRefs).Code }()
	<-begun // who has no task is not counted
	close(end)
	for range 5 {
		require.Equal(t, http.StatusOK, <-done)
	}
	go func() { done <- h.fetch("task", lsRefs).Code }()
	<-begun
	require.Equal(t, http.StatusOK, <-done)
}

// pushed is an answer to a push whose body was not read.
func pushed(tb testing.TB, asked githttp.Asked) (*githttp.Answer, *httptest.ResponseRecorder, *http.Request) {
	tb.Helper()
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, "/git/shop/git-receive-pack", strings.NewReader("PACK"))
	r.Header.Set("User-Agent", "git/2.39.5")
	body, err := githttp.NewBody(rec, r, 100, time.Minute)
	require.NoError(tb, err)
	a, _ := githttp.NewAnswer(rec, asked, body, 100)
	return a, rec, r
}

func TestRespondToAPush(t *testing.T) {
	t.Parallel()
	h := build(t)
	ref := schemas.Ref{Tenant: "acme", Kind: schemas.KindPush, ID: "p-1"}
	release := h.server.Expect(ref)
	defer release()
	st := h.claim(ref)
	h.settle(st, schemas.Settled{
		Outcome: schemas.OutcomeSucceeded, Result: []byte(`{"repo":"own","ref":"refs/heads/work","old":"` + strings.Repeat("a", 40) + `","new":"` + strings.Repeat("b", 40) + `","task_id":"t-1","bytes":4}`),
	})
	a, rec, r := pushed(t, githttp.Asked{Ref: "refs/heads/work", Report: true, SideBand: true})
	h.server.Reply(a, r, ref, schemas.Receipt{ID: "p-1"}, -1)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "application/x-git-receive-pack-result", rec.Header().Get("Content-Type"))
	require.Contains(t, rec.Body.String(), "unpack ok")
	require.Contains(t, rec.Body.String(), "ok refs/heads/work")

	shown := h.get("/v1/actions/p-1")
	require.Equal(t, http.StatusOK, shown.Code)
	require.Contains(t, shown.Body.String(), `"refs/heads/work"`)
}

// TestAPushWhoseClientHasLeft is not answered.
func TestAPushWhoseClientHasLeft(t *testing.T) {
	t.Parallel()
	h, ref := build(t), schemas.Ref{Tenant: "acme", Kind: schemas.KindPush, ID: "p-3"}
	h.claim(ref)
	h.failing(func() error { return errors.Join(fault.ErrUnavailable, errDown) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a, rec, r := pushed(t, githttp.Asked{SideBand: true})
	h.server.Reply(a, r.WithContext(ctx), ref, schemas.Receipt{ID: "p-3"}, -1)
	require.Empty(t, rec.Body.String(), "nobody is left to answer")
}
