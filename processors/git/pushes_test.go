package git_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	hosted "weir/internal/git"
	"weir/internal/gitwire"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/processors/git"
	"weir/processors/guard"
	"weir/schemas"
)

func TestPushToThisNode(t *testing.T) {
	t.Parallel()
	r, repo, base := hosting(t, options{})
	pack, head := commit("one", base)
	p := r.push("push-1", order(repo, base, head), bytes.NewReader(pack))
	assert.Equal(t, schemas.OutcomeSucceeded, p.Outcome, p.Message)
	assert.Equal(t, schemas.PushResult{
		Repo: "app", Ref: schemas.RefOf(branch), Old: base, New: head, TaskID: taskID, Unpack: "ok",
		Bytes: int64(len(pack)),
	}, p.result)
	assert.Equal(t, head, r.head(repo))
	s := r.task()
	assert.Equal(t, head, s.Head)
	assert.Equal(t, 1, s.Pushes)
	a := r.audit()
	assert.Equal(t, []string{schemas.AuditOK, head, taskID}, []string{a.Result, a.New, a.TaskID})
	assert.Equal(t, "push-1.push", r.evidence(schemas.EvidencePush)[0].ID)
	assert.Equal(t, "t-1", r.evidence(schemas.EvidencePush)[0].Principal)

	// Whoever takes the action up again finds it done, and does and tells nothing twice.
	again := r.perform(r.again(p.st))
	assert.Equal(t, schemas.OutcomeSucceeded, again.Outcome)
	assert.Equal(t, 1, r.task().Pushes)
	assert.Len(t, r.evidence(schemas.EvidencePush), 1)
}

func TestPushEnds(t *testing.T) {
	t.Parallel()
	const failed, denied, canceled = schemas.OutcomeFailed, schemas.OutcomeDenied, schemas.OutcomeCanceled
	slip := readerFunc(func([]byte) (int, error) { panic("a slip") }) // that ends its push, and not the program
	bomb := func(string) ([]byte, string) { return gitkit.DeltaBomb(1 << 30), gitkit.BlobOf("x").ID() }
	r, repo, base := hosting(t, options{})
	for _, c := range []struct {
		name    string
		order   func(*schemas.PushOrder)
		pack    func(base string) ([]byte, string) // default: a good commit
		spoil   func(pack []byte) io.Reader
		before  func(*env)
		on      *options // of another node
		outcome schemas.Outcome
		code    schemas.Code
		says    string
	}{
		{
			name: "denied-at-the-door", order: func(o *schemas.PushOrder) { o.Denied = "this token updates agent/work alone" },
			outcome: denied, code: schemas.GitRefDenied, says: "this token updates agent/work alone",
		},
		{
			name: "another-branch", order: func(o *schemas.PushOrder) { o.Ref = "refs/heads/main" },
			outcome: denied, code: schemas.GitRefDenied, says: "the branch is not the task's",
		},
		{name: "the-repository-is-gone", order: func(o *schemas.PushOrder) { o.Repo = "other" }, outcome: failed, code: schemas.GitRejected, says: "not there any more"},
		{
			name: "half-a-pack", spoil: func(pack []byte) io.Reader { return bytes.NewReader(pack[:len(pack)-1]) },
			outcome: failed, code: schemas.GitIncomplete, says: "push again",
		},
		{
			name: "the-client-leaves", spoil: func(pack []byte) io.Reader {
				return io.MultiReader(bytes.NewReader(pack[:len(pack)-30]), iotest.ErrReader(errors.New("the client is gone")))
			},
			outcome: failed, code: schemas.GitIncomplete, says: "before it was whole",
		},
		{
			name: "a-wrong-checksum", spoil: func(pack []byte) io.Reader { pack[len(pack)-1] ^= 1; return bytes.NewReader(pack) },
			outcome: failed, code: schemas.GitIncomplete, says: "broken",
		},
		{name: "too-large", on: &options{limits: gitwire.PackLimits{Bytes: 60}}, outcome: failed, code: schemas.GitPackTooLarge, says: "larger than is allowed"},
		{name: "too-large-unpacked", pack: bomb, on: &options{limits: gitwire.PackLimits{Unpacked: 64 << 20}}, outcome: failed, code: schemas.GitPackTooLarge, says: "unpacks to"},
		{name: "no-descendant", pack: func(string) ([]byte, string) { return commit("x", "") }, outcome: failed, code: schemas.GitRejected},
		{name: "what-fsck-refuses", pack: func(base string) ([]byte, string) { return gitkit.BadTree(".git", base) }, outcome: failed, code: schemas.GitRejected},
		{
			name: "the-branch-is-elsewhere-by-now", order: func(o *schemas.PushOrder) { o.Old = gitkit.BlobOf("y").ID() }, outcome: failed, code: schemas.GitRejected,
		},
		{
			name: "no-room", pack: func(base string) ([]byte, string) { return noisy(256<<10, base) }, on: &options{spools: hosted.NewSpools(t.TempDir(), 1<<10, 100)},
			outcome: failed, code: schemas.GitRejected, says: "limits.tenant_share",
		},
		{name: "a-slip", spoil: func([]byte) io.Reader { return slip }, outcome: failed, code: schemas.GitIncomplete, says: "cannot be read here"},
		{name: "the-task-has-ended", before: (*env).complete, outcome: canceled, code: schemas.Canceled, says: "the task has ended"},
		{name: "the-lease-is-lost", order: func(o *schemas.PushOrder) { o.Lease = 1 }, outcome: canceled, code: schemas.Canceled, says: "lease"},
		{name: "the-push-was-canceled", before: func(r *env) { r.stop.Pull() }, outcome: canceled, code: schemas.Canceled, says: "canceled"},
	} {
		r, repo, base := r, repo, base
		if c.before != nil {
			c.on = &options{}
		}
		if c.on != nil {
			r, repo, base = hosting(t, *c.on)
		}
		if c.before != nil {
			c.before(r)
		}
		pack, head := commit("one", base)
		if c.pack != nil {
			pack, head = c.pack(base)
		}
		body := io.Reader(bytes.NewReader(pack))
		if c.spoil != nil {
			body = c.spoil(pack)
		}
		o := order(repo, base, head)
		if c.order != nil {
			c.order(&o)
		}
		p := r.push(c.name, o, body)
		assert.Equal(t, []any{c.outcome, c.code}, []any{p.Outcome, p.Code}, c.name+": "+p.Message)
		assert.Contains(t, p.result.Reason, c.says, c.name)
		assert.NotEmpty(t, p.result.Reason, c.name)
		assert.Equal(t, base, r.head(repo), c.name+": the branch is where it was")
		assert.Zero(t, r.task().Pushes, c.name)
		left := r.evidence(schemas.EvidencePush)
		last := left[len(left)-1]
		assert.Equal(t, []any{c.name + ".push", c.code}, []any{last.ID, last.Code})
		assert.Equal(t, string(c.code), fixture.Decode[schemas.PushAudit](t, last.Payload).Result, c.name)
	}
}

// TestForcedPush: what a task lets be dropped, the upstream may let be dropped, too.
func TestForcedPush(t *testing.T) {
	t.Parallel()
	r := newEnv(t, options{})
	repo := r.proxy()
	_, base := r.file(repo.Repo, true)
	pack, head := commit("x", "")
	o := order(repo.Repo, base, head)
	o.Force = true
	p := r.push("push-1", o, bytes.NewReader(pack))
	assert.Equal(t, schemas.OutcomeSucceeded, p.Outcome, p.Message)
	repo.is(t, head)
}

// TestTaskEndsDuringPush: what a task's end finds under way does not get through, as
// the end of the pack waits for a look at the task, whether the client goes on or not.
func TestTaskEndsDuringPush(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]func(*env, *stuttering){
		"and the client goes on": func(r *env, s *stuttering) {
			r.complete()
			s.goOn()
		},
		"and the board says so": func(r *env, _ *stuttering) {
			r.complete()
			close(r.over)
		},
		"by a cancel of the push": func(r *env, _ *stuttering) { r.stop.Pull() },
	}, func(t *testing.T, end func(*env, *stuttering)) {
		r, repo, base := hosting(t, options{})
		pack, head := commit("one", base)
		p := r.interrupted(order(repo, base, head), pack, 40, func(s *stuttering) { end(r, s) })
		assert.Equal(t, schemas.OutcomeCanceled, p.Outcome, p.Message)
		assert.Equal(t, base, r.head(repo))
		assert.Zero(t, r.task().Pushes)
	})
}

// TestPushOfAnotherNode is left to that node until its time is up.
func TestPushOfAnotherNode(t *testing.T) {
	t.Parallel()
	now := time.Now()
	clock := func() time.Time { return now }
	r, repo, base := hosting(t, options{now: clock})
	_, head := commit("one", base)
	st := r.accept(schemas.KindPush, "push-1", order(repo, base, head))
	require.NoError(t, r.pushes.Here(t.Context(), st), "only this node could execute it")
	p := r.perform(st)
	assert.Equal(t, schemas.GitIncomplete, p.Code)
	assert.Equal(t, base, r.head(repo))

	other := repo
	other.ID = "elsewhere"
	r.put(other)
	begun := st.Action.AcceptedAt
	for name, c := range map[string]struct {
		mode  schemas.RepoMode
		after time.Duration
		here  bool
	}{
		"just now":               {schemas.RepoHosted, 0, false},
		"it may be on its way":   {schemas.RepoHosted, 14 * time.Minute, false},
		"its time is up":         {schemas.RepoHosted, 15 * time.Minute, true},
		"to an upstream":         {schemas.RepoProxy, 9 * time.Minute, false},
		"to an upstream, in all": {schemas.RepoProxy, 10 * time.Minute, true},
	} {
		other.Mode = c.mode
		r.put(other)
		now = begun.Add(c.after)
		err := r.pushes.Here(t.Context(), st)
		if c.here {
			require.NoError(t, err, name)
			continue
		}
		assert.Equal(t, 2*time.Second, harness.As[*fault.RetryAfter](t, err).After, name)
	}

	now = begun
	denied := order(repo, base, head)
	denied.Denied = "no"
	require.NoError(t, r.pushes.Here(t.Context(), r.accept(schemas.KindPush, "push-2", denied)), "nobody needs its body")
	alone := git.NewPushes(git.Config{Repos: r.catalog, Alone: true, Now: clock})
	require.NoError(t, alone.Here(t.Context(), st), "there is no other node")
}

// failing is an adapter whose first exchange ends before anything was sent, though some of the
// pack may have been read for it.
type failing struct {
	call.Adapter

	talk   git.PushCall
	read   int64
	code   schemas.Code
	failed *bool
}

// fails puts one before a room's pushes.
func fails(code schemas.Code, read int64) func(push) push {
	failed := false
	return func(next push) push {
		return func(t git.PushCall) call.Adapter { return failing{next(t), t, read, code, &failed} }
	}
}

func (f failing) Open(ctx context.Context, p guard.Pass) (call.Exchange, error) {
	if *f.failed {
		return f.Adapter.Open(ctx, p)
	}
	*f.failed = true
	pack, _, err := f.talk.Pack()
	if err == nil {
		_, err = io.CopyN(io.Discard, pack, f.read)
	}
	if err != nil {
		return nil, err
	}
	return nil, &fault.Call{Code: f.code}
}

// TestAWholePackIsSent, however much of it was read for an attempt that sent nothing.
func TestAWholePackIsSent(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]int64{"untouched": 0, "begun": 100}, func(t *testing.T, read int64) {
		r := newEnv(t, options{adapter: fails(schemas.UpstreamReset, read)})
		asked := 0
		repo := r.proxy()
		repo.Answer(func(_ http.ResponseWriter, r *http.Request, git http.Handler) {
			asked++
			git.ServeHTTP(httptest.NewRecorder(), r)
		})
		base := r.begin(repo)
		pack, head := noisy(2<<20, base)
		r.push("push-1", order(repo.Repo, base, head), bytes.NewReader(pack))
		assert.Equal(t, 1, asked)
		repo.is(t, head)
	})
}

// begin has a task's branch be at the upstream, and the task run.
func (r *env) begin(repo upstreamDouble) (base string) {
	r.t.Helper()
	gitkit.Git(r.t, repo.dir, "update-ref", schemas.RefOf(branch), repo.main)
	r.accept(schemas.KindTask, taskID, schemas.TaskOrder{Description: "d", Repo: repo.Name, Branch: branch, Pool: "none"})
	r.tell(schemas.EventStatus, schemas.TaskEvent{What: schemas.TaskOpened, Base: repo.main})
	r.tell(schemas.EventSignal, schemas.TaskEvent{What: schemas.TaskClaimed})
	return repo.main
}

// TestPushDoesNotRest: its client, and with it its body, would be gone by then.
func TestPushDoesNotRest(t *testing.T) {
	t.Parallel()
	type testCase struct {
		before func(*testing.T, *env, upstreamDouble)
		says   string
	}
	table.Run(t, map[string]testCase{
		"for a traffic rule": {func(t *testing.T, r *env, e upstreamDouble) {
			t.Helper()
			r.book.Put(t, rulebook.Delay("d", e.Backend.URL+"/*", 60_000))
		}, "the traffic rules hold the push back"},
		"for an upstream": {func(_ *testing.T, r *env, e upstreamDouble) { r.leave(e.Repo) }, "could not be reached"},
	}, func(t *testing.T, c testCase) {
		r, up, base := proxying(t, options{pause: time.Minute})
		c.before(t, r, up)
		pack, head := commit("one", base)
		p := r.push("push-1", order(up.Repo, base, head), bytes.NewReader(pack))
		assert.Equal(t, schemas.GitRejected, p.Code)
		assert.Contains(t, p.result.Reason, c.says)
		assert.Contains(t, p.result.Reason, "nothing was sent")
		up.is(t, base)
	})
}

// TestABranchIsLookedForAgain: a branch that somebody has made while the upstream was
// away is not the task's, and nothing that would take it away is sent.
func TestABranchIsLookedForAgain(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := newEnv(t, options{pause: 10 * time.Second, now: func() time.Time { return now }, adapter: fails(schemas.UpstreamConnect, 0)})
	repo := r.proxy()
	order := schemas.TaskOrder{Repo: repo.Name}
	st := r.accept(schemas.KindTask, taskID, order)
	_, err := r.branches.Open(t.Context(), st, order, branch)
	rest := harness.As[*call.Deferral](t, err)
	st = r.rested(st, rest)
	now = now.Add(11 * time.Second)

	gitkit.Git(t, repo.dir, "update-ref", schemas.RefOf(branch), "refs/heads/secret")
	theirs := gitkit.Git(t, repo.dir, "rev-parse", schemas.RefOf(branch))
	_, err = r.branches.Open(t.Context(), st, order, branch)
	said(t, err, schemas.Conflict)
	assert.NotContains(t, repo.Requests(), "POST /app.git/git-receive-pack")
	assert.Equal(t, theirs, gitkit.Git(t, repo.dir, "rev-parse", schemas.RefOf(branch)))
}
