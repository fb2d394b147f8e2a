package git_test

import (
	"bytes"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	hosted "weir/internal/git"
	"weir/internal/ledger"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/table"
	"weir/processors/git"
	"weir/processors/settle"
	"weir/schemas"
)

// make performs the making of a repository.
func (r *env) make(id string, o schemas.RepoOrder) settle.Outcome {
	r.t.Helper()
	st := r.accept(schemas.KindRepo, id, o)
	v, err := r.repos.Execute(r.t.Context(), st, r.stop.Stop)
	require.NoError(r.t, err)
	return v
}

func (r *env) made(id string, o schemas.RepoOrder) schemas.Repo {
	r.t.Helper()
	v := r.make(id, o)
	require.Equal(r.t, schemas.OutcomeSucceeded, v.Outcome, v.Message)
	shown, ok := v.Result.(schemas.Repo)
	require.True(r.t, ok)
	assert.Empty(r.t, shown.ID+shown.Tenant)
	repo, err := r.catalog.Get(r.t.Context(), tenant, o.Name)
	require.NoError(r.t, err)
	assert.True(r.t, repo.Created.Equal(shown.Created))
	shown.ID, shown.Tenant, shown.Created = repo.ID, repo.Tenant, repo.Created
	assert.Equal(r.t, repo, shown)
	return repo
}

func TestNewRepository(t *testing.T) {
	t.Parallel()
	r := newEnv(t, options{})
	repo := r.made("repo-1", schemas.RepoOrder{Name: "app"})
	assert.Equal(t, []any{schemas.RepoHosted, "main", "repo-1"}, []any{repo.Mode, repo.DefaultBranch, repo.By})
	head, err := r.git.Head(t.Context(), repo.ID, "main")
	require.NoError(t, err)
	assert.Len(t, head, 40)
	list := r.evidence(schemas.EvidenceRepo)
	require.Len(t, list, 1)
	assert.Equal(t, "repo-1.repo", list[0].ID)
	a := fixture.Decode[schemas.RepoAudit](t, list[0].Payload)
	assert.Equal(t, schemas.RepoAudit{Repo: "app", Mode: schemas.RepoHosted, Result: schemas.AuditOK}, a)

	v := r.make("repo-2", schemas.RepoOrder{Name: "app"})
	assert.Equal(t, []any{schemas.OutcomeFailed, schemas.Conflict}, []any{v.Outcome, v.Code})

	other := r.made("repo-3", schemas.RepoOrder{Name: "other", DefaultBranch: "trunk"})
	assert.Equal(t, "trunk", other.DefaultBranch)

	// Whoever takes the action up again makes no other, and what is in the table stays, though it was canceled behind that.
	r.stop.Pull()
	ref := schemas.Ref{Tenant: tenant, Kind: schemas.KindRepo, ID: "repo-1"}
	again, err := r.ledger.Load(t.Context(), ref)
	require.NoError(t, err)
	harness.Start(r.t, r.ledger, again)
	again = r.again(again)
	v, err = r.repos.Execute(t.Context(), again, r.stop.Stop)
	require.NoError(t, err)
	assert.Equal(t, schemas.OutcomeSucceeded, v.Outcome)
	assert.Len(t, r.evidence(schemas.EvidenceRepo), 3)
	_, err = r.git.Head(t.Context(), repo.ID, "main")
	require.NoError(t, err)
}

// TestImportWithoutALog: a log that takes nothing for a while, or whose answers are lost, costs no
// copy, and is told once.
func TestImportWithoutALog(t *testing.T) {
	t.Parallel()
	isProgress := func(m schemas.Append) bool { return bytes.Contains(m.Data, []byte(`"type":"progress"`)) }
	table.RunNamed(t, map[string]int64{"away": 10, "silent": 1}, func(t *testing.T, name string, many int64) {
		var ticks, failed atomic.Int64
		begun := time.Now()
		away := func(m schemas.Append) error {
			if isProgress(m) && failed.Add(1) <= many {
				return fault.ErrUnavailable
			}
			return nil
		}
		hooks := memlog.Hooks{Before: away}
		if name == "silent" {
			hooks = memlog.Hooks{After: func(m schemas.Append, _ uint64) error { return away(m) }}
		}
		r := newEnv(t, options{hooks: hooks, now: func() time.Time { return begun.Add(time.Duration(ticks.Add(1)) * 2 * time.Second) }})
		up := r.proxy()
		st := r.accept(schemas.KindRepo, "repo-1", schemas.RepoOrder{Name: "copy", ImportURL: up.UpstreamURL})
		harness.Start(r.t, r.ledger, st)
		v, err := r.repos.Execute(t.Context(), st, r.stop.Stop)
		require.NoError(t, err)
		require.Equal(t, schemas.OutcomeSucceeded, v.Outcome, v.Message)
		require.GreaterOrEqual(t, failed.Load(), many)
		said := map[string]int{}
		records, _, err := r.log.Page(t.Context(), schemas.LogStream(0), ">", 1, 1000, 1<<30)
		require.NoError(t, err)
		for _, rec := range records {
			if bytes.Contains(rec.Data, []byte(`"type":"progress"`)) {
				said[string(rec.Data)]++
			}
		}
		require.NotEmpty(t, said)
		for what, times := range said {
			require.Equal(t, 1, times, what)
		}
		require.Equal(t, len(said), r.again(st).Progress)
	})
}

// TestImportThatIsToStop: the log's word that it is to stop ends it where it would say how far it is.
func TestImportThatIsToStop(t *testing.T) {
	t.Parallel()
	var ticks atomic.Int64
	begun := time.Now()
	r := newEnv(t, options{now: func() time.Time { return begun.Add(time.Duration(ticks.Add(1)) * 2 * time.Second) }})
	up := r.proxy()
	st := r.accept(schemas.KindRepo, "repo-1", schemas.RepoOrder{Name: "copy", ImportURL: up.UpstreamURL})
	harness.Start(r.t, r.ledger, st)
	harness.Append(t, r.ledger, r.again(st), schemas.Event{Type: schemas.EventCancel})
	v, err := r.repos.Execute(t.Context(), st, r.stop.Stop)
	require.NoError(t, err)
	require.Equal(t, []any{schemas.OutcomeCanceled, schemas.Canceled}, []any{v.Outcome, v.Code}, v.Message)
	_, err = r.catalog.Get(t.Context(), tenant, "copy")
	require.ErrorIs(t, err, fault.ErrNotFound)
}

// TestNothingIsLeftBehind of a repository that is not made, by a worker before this one as well.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	now := time.Now()
	type testCase struct {
		order  schemas.RepoOrder
		before func(*env, *ledger.State)
		code   schemas.Code
	}
	table.Run(t, map[string]testCase{
		"the name is taken meanwhile": {schemas.RepoOrder{}, func(r *env, _ *ledger.State) {
			r.bucket.Before = func(string) (bool, error) {
				r.bucket.Before = nil
				r.put(schemas.Repo{ID: "other", Name: "new", Tenant: tenant, By: "another"})
				return true, nil
			}
		}, schemas.Conflict},
		"the name was taken": {schemas.RepoOrder{}, func(r *env, _ *ledger.State) {
			r.put(schemas.Repo{ID: "other", Name: "new", Tenant: tenant, By: "another"})
		}, schemas.Conflict},
		"canceled": {schemas.RepoOrder{}, func(r *env, _ *ledger.State) { r.stop.Pull() }, schemas.Canceled},
		"too late": {schemas.RepoOrder{}, func(_ *env, st *ledger.State) {
			st.Action.Deadline = now.Add(-time.Minute)
		}, schemas.DeadlineExceeded},
		"an import without the branch": {schemas.RepoOrder{DefaultBranch: "nope", ImportURL: "there"}, func(r *env, st *ledger.State) {
			// Who made it before had no such wish.
			require.NoError(r.t, r.git.Remove(r.t.Context(), git.Identity(st)))
		}, schemas.ValidationError},
	}, func(t *testing.T, c testCase) {
		r := newEnv(t, options{})
		up := r.proxy()
		o := c.order
		if o.Name = "new"; o.ImportURL != "" {
			o.ImportURL = up.UpstreamURL
		}
		st := r.accept(schemas.KindRepo, "repo-1", o)
		_, err := r.git.Create(t.Context(), git.Identity(st), "main") // as a worker that is gone has
		require.NoError(t, err)
		c.before(r, st)
		v, err := r.repos.Execute(t.Context(), st, r.stop.Stop)
		require.NoError(t, err)
		assert.Equal(t, c.code, v.Code, v.Message)
		_, err = r.git.Head(t.Context(), git.Identity(st), "main")
		assert.ErrorIs(t, err, hosted.ErrNoRepo)
	})
}

func TestUpstreamRepository(t *testing.T) {
	t.Parallel()
	r := newEnv(t, options{})
	up := r.proxy()
	repo := r.made("repo-1", schemas.RepoOrder{Name: "there", UpstreamURL: up.UpstreamURL + "/", AllowlistKey: "upstream"})
	assert.Equal(t, []any{schemas.RepoProxy, "main", up.UpstreamURL, "upstream"}, []any{repo.Mode, repo.DefaultBranch, repo.UpstreamURL, repo.AllowlistKey})
}

func TestRepositoryThatIsNotMade(t *testing.T) {
	t.Parallel()
	const failed, denied = schemas.OutcomeFailed, schemas.OutcomeDenied
	nothing := func(*env, upstreamDouble) {}
	revoked := func(r *env, _ upstreamDouble) { r.enforce() }
	copied := func(e upstreamDouble) schemas.RepoOrder { return schemas.RepoOrder{ImportURL: e.UpstreamURL} }
	proxied := func(e upstreamDouble) schemas.RepoOrder { return schemas.RepoOrder{UpstreamURL: e.UpstreamURL} }
	from := func(url string) func(upstreamDouble) schemas.RepoOrder {
		return func(upstreamDouble) schemas.RepoOrder { return schemas.RepoOrder{ImportURL: url} }
	}
	with := func(order func(upstreamDouble) schemas.RepoOrder, change func(*schemas.RepoOrder)) func(upstreamDouble) schemas.RepoOrder {
		return func(e upstreamDouble) schemas.RepoOrder { o := order(e); change(&o); return o }
	}
	noBase := func(o *schemas.RepoOrder) { o.DefaultBranch = "none" }
	type testCase struct {
		before  func(*env, upstreamDouble)
		order   func(upstreamDouble) schemas.RepoOrder
		outcome schemas.Outcome
		code    schemas.Code
		says    string
	}
	table.Run(t, map[string]testCase{
		"import, denied":           {revoked, copied, denied, schemas.DenyHost, "policy"},
		"import, of this machine":  {nothing, from("file:///etc"), denied, schemas.DenyScheme, "policy"},
		"import, another password": {func(_ *env, e upstreamDouble) { e.Require("another") }, copied, failed, schemas.HTTPFailure, "401"},
		"import, nothing there": {
			nothing, func(e upstreamDouble) schemas.RepoOrder {
				return schemas.RepoOrder{ImportURL: e.Backend.URL + "/none.git"}
			},
			failed, schemas.HTTPFailure, "404",
		},
		"import, nobody there":      {func(r *env, _ upstreamDouble) { r.allow(nobody) }, from(nobody + "/app.git"), failed, schemas.UpstreamConnect, "could not be reached"},
		"import, no such default":   {nothing, with(copied, noBase), failed, schemas.ValidationError, "default_branch"},
		"upstream, denied":          {revoked, proxied, denied, schemas.DenyHost, "policy"},
		"upstream, with a query":    {nothing, with(proxied, func(o *schemas.RepoOrder) { o.UpstreamURL += "?x=1" }), failed, schemas.ValidationError, "query"},
		"upstream, no such default": {nothing, with(proxied, noBase), failed, schemas.ValidationError, "default_branch"},
		"upstream, empty": {
			func(r *env, e upstreamDouble) { e.Add(r.t, "empty.git", "") },
			func(e upstreamDouble) schemas.RepoOrder {
				return schemas.RepoOrder{UpstreamURL: e.Backend.URL + "/empty.git"}
			},
			failed, schemas.ValidationError, "default_branch",
		},
		"upstream, SHA-256": {
			func(r *env, e upstreamDouble) {
				gitkit.Git(r.t, e.Root, "init", "-q", "--bare", "--object-format=sha256", "sha256.git")
			},
			func(e upstreamDouble) schemas.RepoOrder {
				return schemas.RepoOrder{UpstreamURL: e.Backend.URL + "/sha256.git"}
			},
			failed, schemas.UpstreamProtocol, "SHA-256",
		},
		"canceled": {func(r *env, _ upstreamDouble) { r.stop.Pull() }, from(""), schemas.OutcomeCanceled, schemas.Canceled, "canceled"},
	}, func(t *testing.T, c testCase) {
		r := newEnv(t, options{})
		e := r.proxy()
		c.before(r, e)
		o := c.order(e)
		o.Name = "new"
		v := r.make("repo-1", o)
		assert.Equal(t, []any{c.outcome, c.code}, []any{v.Outcome, v.Code}, v.Message)
		assert.Contains(t, v.Message, c.says)
		assert.Nil(t, v.Result)
		_, err := r.catalog.Get(t.Context(), tenant, "new")
		require.Error(t, err)
		a := fixture.Decode[schemas.RepoAudit](t, r.evidence(schemas.EvidenceRepo)[0].Payload)
		assert.Equal(t, string(c.code), a.Result)
	})
}

// TestDefaultOfAnImport: a HEAD that names no branch stands for one that is where it is.
func TestDefaultOfAnImport(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]struct {
		head string // of the other side; empty: detached, at secret
		want string
	}{
		"detached": {"", "secret"}, "unborn": {"ref: refs/heads/none\n", "main"},
	}, func(t *testing.T, c struct{ head, want string }) {
		r := newEnv(t, options{})
		up := r.proxy()
		if c.head == "" {
			gitkit.Git(t, up.dir, "update-ref", "refs/heads/secret", gitkit.Git(t, up.dir, "commit-tree", "-m", "x", "main^{tree}"))
			c.head = gitkit.Git(t, up.dir, "rev-parse", "secret") + "\n"
		}
		require.NoError(t, os.WriteFile(filepath.Join(up.dir, "HEAD"), []byte(c.head), 0o600))
		repo := r.made("repo-1", schemas.RepoOrder{Name: "copy", ImportURL: up.UpstreamURL})
		assert.Equal(t, []any{schemas.RepoHosted, c.want, up.UpstreamURL}, []any{repo.Mode, repo.DefaultBranch, repo.ImportURL})
		head, err := r.git.Head(t.Context(), repo.ID, "main")
		require.NoError(t, err)
		assert.Equal(t, up.main, head)
		left := r.evidence(schemas.EvidenceAttempt)
		require.NotEmpty(t, left)
		assert.Equal(t, "repo-1", left[0].ActionID)
	})
}
