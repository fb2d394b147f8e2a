package git_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// upstreamDouble is a repository on a git server that asks for the password.
type upstreamDouble struct {
	schemas.Repo
	*gitkit.Backend
	dir  string // of the upstream's repository
	main string // its head
}

// proxy makes one, with the branch secret beside main.
func (r *env) proxy() upstreamDouble {
	r.t.Helper()
	b := gitkit.NewBackend(r.t)
	from, main := gitkit.NewRepo(r.t)
	gitkit.Git(r.t, from, "branch", "secret")
	url, dir := b.Add(r.t, "app.git", from)
	b.Require(password)
	r.allow(b.URL)
	repo := schemas.Repo{ID: "p", Name: "app", Tenant: tenant, Mode: schemas.RepoProxy, DefaultBranch: "main", UpstreamURL: url}
	r.put(repo)
	return upstreamDouble{repo, b, dir, main}
}

// nobody is where nobody listens.
const nobody = "http://127.0.0.1:1"

// leave has a repository be where nobody listens.
func (r *env) leave(repo schemas.Repo) {
	r.t.Helper()
	r.allow(nobody)
	repo.UpstreamURL = nobody + "/app.git"
	r.put(repo)
}

// at is where a branch of the upstream's is; empty: nowhere.
func (e upstreamDouble) at(t *testing.T, name string) string {
	t.Helper()
	return gitkit.Run(t.Context(), e.dir, gitkit.Env(), nil, "rev-parse", "--verify", "-q", "refs/heads/"+name).Out
}

func (e upstreamDouble) is(t *testing.T, oid string) {
	t.Helper()
	assert.Equal(t, oid, strings.TrimSpace(e.at(t, branch)))
}

func TestPushToUpstream(t *testing.T) {
	t.Parallel()
	r, repo, base := proxying(t, options{})
	assert.Equal(t, repo.main, base)
	repo.is(t, base)
	pack, head := commit("one", base)
	p := r.push("push-1", order(repo.Repo, base, head), bytes.NewReader(pack))
	assert.Equal(t, schemas.OutcomeSucceeded, p.Outcome, p.Message)
	assert.Equal(t, "ok", p.result.Unpack)
	repo.is(t, head)
	assert.Equal(t, 1, r.task().Pushes)
	a := r.audit()
	assert.Equal(t, []any{schemas.AuditOK, schemas.RepoProxy}, []any{a.Result, a.Mode})

	st := r.again(p.st)
	require.Len(t, st.Attempts, 1)
	assert.Equal(t, schemas.ClassOnce, st.Attempts[0].Class, "whatever keys the entry derives")
	assert.Empty(t, st.Attempts[0].DerivedKey)
	var mine int
	for _, e := range r.evidence(schemas.EvidenceAttempt) {
		if e.ActionID == "push-1" {
			mine++
			assert.Equal(t, "upstream", e.Entry)
		}
	}
	assert.Equal(t, 1, mine)

	// The end is on the log: whoever takes it up again sends nothing.
	before := len(repo.Requests())
	again := r.perform(st)
	assert.Equal(t, schemas.OutcomeSucceeded, again.Outcome)
	assert.Len(t, repo.Requests(), before)
}

func TestUpstreamRefuses(t *testing.T) {
	t.Parallel()
	const failed = schemas.OutcomeFailed
	type testCase struct {
		before  func(*env, upstreamDouble)
		order   func(*schemas.PushOrder)
		cut     int
		outcome schemas.Outcome
		code    schemas.Code
		says    string
		silent  bool // nothing of the push was sent
	}
	table.Run(t, map[string]testCase{
		"by its own rules": {
			before:  func(r *env, e upstreamDouble) { gitkit.Git(r.t, e.dir, "config", "receive.maxInputSize", "10") },
			outcome: failed, code: schemas.GitRejected,
		},
		"the branch is elsewhere": {
			order: func(o *schemas.PushOrder) { o.Old = gitkit.BlobOf("y").ID() }, outcome: failed, code: schemas.GitRejected,
		},
		"nothing of what was there": {
			order:   func(o *schemas.PushOrder) { _, o.New = commit("x", "") },
			outcome: failed, code: schemas.GitRejected, says: "build on", silent: true,
		},
		"the password": {before: func(_ *env, e upstreamDouble) { e.Require("another") }, outcome: failed, code: schemas.GitRejected, says: "status 401"},
		"policy": {
			before:  func(r *env, _ upstreamDouble) { r.enforce() },
			outcome: schemas.OutcomeDenied, code: schemas.DenyHost, says: "policy", silent: true,
		},
		"a traffic rule": {
			before: func(r *env, e upstreamDouble) {
				r.book.Put(r.t, rulebook.Mock("m", e.Backend.URL+"/*", 503, `"busy"`))
			},
			outcome: failed, code: schemas.GitRejected, says: "status 503", silent: true,
		},
		"a traffic rule for its task": {
			before: func(r *env, e upstreamDouble) {
				rule := rulebook.Mock("m", e.Backend.URL+"/*", 503, `"busy"`)
				rule.Scope = &schemas.RuleScope{TaskID: taskID}
				r.book.Put(r.t, rule)
			},
			outcome: failed, code: schemas.GitRejected, says: "status 503", silent: true,
		},
		"nobody is there": {
			before:  func(r *env, e upstreamDouble) { r.leave(e.Repo) },
			outcome: failed, code: schemas.GitRejected, says: "could not be reached", silent: true,
		},
		"half a pack":        {cut: 3, outcome: failed, code: schemas.GitIncomplete, silent: true},
		"the task has ended": {before: func(r *env, _ upstreamDouble) { r.complete() }, outcome: schemas.OutcomeCanceled, code: schemas.Canceled, silent: true},
	}, func(t *testing.T, c testCase) {
		r, repo, base := proxying(t, options{})
		if c.before != nil {
			c.before(r, repo)
		}
		pack, head := commit("one", base)
		o := order(repo.Repo, base, head)
		if c.order != nil {
			c.order(&o)
		}
		before := len(repo.Requests())
		p := r.push("push-1", o, bytes.NewReader(pack[:len(pack)-c.cut]))
		assert.Equal(t, c.outcome, p.Outcome, p.Message)
		assert.Equal(t, c.code, p.Code, p.Message)
		assert.Contains(t, p.result.Reason, c.says)
		repo.is(t, base)
		if c.silent {
			assert.Len(t, repo.Requests(), before)
		}
		for _, e := range r.evidence(schemas.EvidenceAttempt) {
			assert.Contains(t, string(e.Payload), `"allowlist":"upstream"`)
		}
	})
}

// TestAnswerIsLost: the upstream's branch tells what became of a push whose answer did
// not come, and where it does not, nobody knows.
func TestAnswerIsLost(t *testing.T) {
	t.Parallel()
	cut := func(w http.ResponseWriter) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	taken := func(r *http.Request, git http.Handler) { git.ServeHTTP(httptest.NewRecorder(), r) }
	type testCase struct {
		answer  func(w http.ResponseWriter, r *http.Request, git http.Handler)
		outcome schemas.Outcome
	}
	const receive = "POST /app.git/git-receive-pack"
	table.Run(t, map[string]testCase{
		"and it was taken": {func(w http.ResponseWriter, r *http.Request, git http.Handler) {
			taken(r, git)
			cut(w)
		}, schemas.OutcomeSucceeded},
		"behind a proxy, and it was taken": {func(w http.ResponseWriter, r *http.Request, git http.Handler) {
			taken(r, git)
			w.WriteHeader(http.StatusGatewayTimeout)
		}, schemas.OutcomeSucceeded},
		"and it was not taken": {func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			_, _ = io.Copy(io.Discard, r.Body)
			cut(w)
		}, schemas.OutcomeUnknown},
		"for nonsense": {func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "0006ab")
		}, schemas.OutcomeUnknown},
	}, func(t *testing.T, c testCase) {
		r, repo, base := proxying(t, options{})
		repo.Answer(c.answer)
		pack, head := commit("one", base)
		before := len(repo.Requests())
		p := r.push("push-1", order(repo.Repo, base, head), bytes.NewReader(pack))
		assert.Equal(t, c.outcome, p.Outcome, p.Message)
		assert.Equal(t, 1, strings.Count(strings.Join(repo.Requests()[before:], " "), receive), "it is never sent again")
		if c.outcome == schemas.OutcomeSucceeded {
			repo.is(t, head)
			assert.Equal(t, 1, r.task().Pushes)
		}
	})
}

// TestWorkerIsLostOverAnUpstream: the next one does not send it again, and asks.
func TestWorkerIsLostOverAnUpstream(t *testing.T) {
	t.Parallel()
	r, repo, base := proxying(t, options{})
	pack, head := commit("one", base)
	ctx, cancel := context.WithCancel(t.Context())
	st := r.accept(schemas.KindPush, "push-1", order(repo.Repo, base, head))
	body := stutter(pack, 40)
	upload := &githttp.Upload{Body: body}
	go func() {
		<-body.at
		cancel()
		body.goOn()
	}()
	_, err := r.try(upload.In(ctx), st)
	require.Error(t, err, "the worker's time is up, and it writes nothing more")
	upload.Wait()
	p := r.perform(r.again(st))
	assert.Contains(t, []schemas.Code{schemas.GitIncomplete, schemas.OutcomeUnknownCode}, p.Code)
	repo.is(t, base)
}

func TestBranchElsewhere(t *testing.T) {
	t.Parallel()
	type testCase struct {
		before func(*env, upstreamDouble)
		base   string
		branch string
		code   schemas.Code // none: it rests until it can be asked
	}
	table.Run(t, map[string]testCase{
		"there is no base": {base: "none", branch: branch, code: schemas.NotFound},
		"it is there":      {branch: "secret", code: schemas.Conflict},
		"denied":           {before: func(r *env, _ upstreamDouble) { r.enforce() }, branch: branch, code: schemas.DenyHost},
		"nobody is there":  {before: func(r *env, e upstreamDouble) { r.leave(e.Repo) }, branch: branch},
	}, func(t *testing.T, c testCase) {
		r := newEnv(t, options{})
		repo := r.proxy()
		if c.before != nil {
			c.before(r, repo)
		}
		o := schemas.TaskOrder{Repo: repo.Name, BaseRef: c.base}
		_, err := r.branches.Open(t.Context(), r.accept(schemas.KindTask, taskID, o), o, c.branch)
		if c.code == "" {
			assert.Equal(t, schemas.WaitDelay, harness.As[*call.Deferral](t, err).Reason)
			return
		}
		said(t, err, c.code)
		if c.code == schemas.DenyHost {
			assert.Len(t, r.evidence(schemas.EvidenceDecision), 1)
			return
		}
		for name, want := range map[string]bool{"secret": true, "secre": false} {
			there, err := r.branches.Exists(t.Context(), repo.Repo, name)
			require.NoError(t, err)
			assert.Equal(t, want, there, name)
		}
	})
	t.Run("again", func(t *testing.T) {
		t.Parallel()
		r := newEnv(t, options{})
		repo := r.proxy()
		st, base := r.file(repo.Repo, false)
		again, err := r.branches.Open(t.Context(), r.again(st), schemas.TaskOrder{Repo: repo.Name}, branch)
		require.NoError(t, err)
		assert.Equal(t, base, again)
		records, err := settle.Records(r.again(st), settle.Made)
		require.NoError(t, err)
		assert.Len(t, records, 1)
	})
	t.Run("the answer is lost", func(t *testing.T) {
		t.Parallel()
		r := newEnv(t, options{})
		repo := r.proxy()
		repo.Answer(func(w http.ResponseWriter, r *http.Request, git http.Handler) {
			git.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusBadGateway)
		})
		_, base := r.file(repo.Repo, false)
		assert.Equal(t, repo.main, base)
		repo.is(t, base)
	})
	for _, service := range []string{"/info/refs", "/git-receive-pack"} {
		t.Run("the upstream is busy, "+service, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			r := newEnv(t, options{now: func() time.Time { return now }})
			repo := r.proxy()
			want := 17 * time.Second
			if repo.Answer(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				w.Header().Set("Retry-After", "17")
				w.WriteHeader(http.StatusServiceUnavailable)
			}); service == "/info/refs" {
				r.book.Put(t, rulebook.Mock("m", repo.UpstreamURL+service, 503, `"busy"`))
				want = 10 * time.Second
			}
			o := schemas.TaskOrder{Repo: repo.Name}
			st := r.accept(schemas.KindTask, taskID, o)
			for range 7 {
				_, err := r.branches.Open(t.Context(), st, o, branch)
				rest := harness.As[*call.Deferral](t, err)
				require.Equal(t, []any{want, schemas.WaitDelay}, []any{rest.Until.Sub(now), rest.Reason})
				now = rest.Until
				st = r.rested(st, rest)
			}
			repo.Answer(nil)
			r.book.Put(t)
			base, err := r.branches.Open(t.Context(), st, o, branch)
			require.NoError(t, err)
			require.Equal(t, repo.main, base)
			repo.is(t, base)
		})
	}
}

// said asserts that an error says why for good.
func said(t *testing.T, err error, code schemas.Code) string {
	t.Helper()
	e := harness.As[*fault.Error](t, err)
	require.Equal(t, code, e.Code, e.Message)
	require.NotEmpty(t, e.Message)
	return e.Message
}
