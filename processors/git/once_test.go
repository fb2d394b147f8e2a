package git_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	gitcall "weir/processors/call/git"
	"weir/processors/git"
	"weir/processors/guard"
	"weir/schemas"
)

// attempts are the records of the attempts of one push.
func (r *room) attempts(push string) (n int) {
	r.t.Helper()
	for _, e := range r.evidence(schemas.EvidenceAttempt) {
		if e.ActionID == push {
			n++
		}
	}
	return n
}

// TestRefusedPackIsTriedOnce: the pack of a second attempt would be no other.
func TestRefusedPackIsTriedOnce(t *testing.T) {
	t.Parallel()
	r, up, base := proxying(t, options{limits: gitwire.PackLimits{Bytes: 60}})
	pack, head := commit("one", base)
	before := len(up.Requests())
	p := r.push("push-1", order(up.Repo, base, head), bytes.NewReader(pack))
	assert.Equal(t, schemas.GitPackTooLarge, p.Code)
	st := r.again(p.st)
	assert.Len(t, st.Attempts, 1)
	assert.Equal(t, 1, r.attempts("push-1"))
	assert.Len(t, up.Requests(), before)

	again := r.perform(st) // by a worker that has no pack, and nothing was sent
	assert.Equal(t, schemas.GitIncomplete, again.Code)
}

// failing is an adapter whose first exchange ends before anything was sent, though some of the
// pack may have been read for it.
type failing struct {
	git.Adapter

	read   int64
	failed bool
}

func (f *failing) For(t gitcall.Talk) call.Adapter {
	return &failingTalk{failing: f, next: f.Adapter.For(t), talk: t}
}

type failingTalk struct {
	*failing

	next call.Adapter
	talk gitcall.Talk
}

func (f *failingTalk) Open(ctx context.Context, p guard.Pass) (call.Exchange, error) {
	if f.failed {
		return f.next.Open(ctx, p)
	}
	f.failed = true
	load, err := f.talk.Pack()
	if err == nil && f.read > 0 {
		_, err = io.CopyN(io.Discard, load.Rest, f.read)
		_ = load.Rest.Close()
	}
	if err != nil {
		return nil, err
	}
	return nil, &fault.Call{Code: schemas.UpstreamReset}
}

// TestNoStumpIsSent: what was begun to be sent is not all of the pack any more; what was not, is.
func TestNoStumpIsSent(t *testing.T) {
	t.Parallel()
	type testCase struct {
		read int64
		code schemas.Code
	}
	table.Run(t, map[string]testCase{
		"untouched": {0, ""}, "begun": {100, schemas.GitIncomplete},
	}, func(t *testing.T, c testCase) {
		r := newRoom(t, options{adapter: func(a git.Adapter) git.Adapter { return &failing{Adapter: a, read: c.read} }})
		asked := 0
		repo := r.streamed(&streaming{answer: func(_ http.ResponseWriter, _ *http.Request, git func(io.Writer)) {
			asked++
			git(io.Discard)
		}})
		base := r.begin(repo)
		pack, head := large(base)
		p := r.push("push-1", order(repo.Repo, base, head), bytes.NewReader(pack))
		if c.code != "" {
			assert.Equal(t, c.code, p.Code, p.Message)
			assert.Zero(t, asked)
			repo.is(t, base)
			return
		}
		assert.Equal(t, 1, asked)
		repo.is(t, head)
	})
}

// begin has a task's branch be at the upstream, and the task run.
func (r *room) begin(repo elsewhere) (base string) {
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
		before func(*testing.T, *room, elsewhere)
		says   string
	}
	table.Run(t, map[string]testCase{
		"for a traffic rule": {func(t *testing.T, r *room, e elsewhere) {
			t.Helper()
			r.book.Put(t, rulebook.Delay("d", e.Backend.URL+"/*", 60_000))
		}, "the traffic rules hold the push back"},
		"for an upstream": {func(_ *testing.T, r *room, e elsewhere) { r.leave(e.Repo) }, "could not be asked"},
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

// TestFalseParent: what looks like a parent in a commit's text is none, so that a task without
// force_push does not drop what was pushed by it.
func TestFalseParent(t *testing.T) {
	t.Parallel()
	r, up, base := proxying(t, options{})
	tree := gitkit.TreeOf()
	evil := gitkit.Object{Type: gitkit.Commit, Data: []byte("tree " + tree.ID() + "\n" +
		"author a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\nparent " + base + "\n\nrewound\n")}
	p := r.push("push-1", order(up.Repo, base, evil.ID()), bytes.NewReader(gitkit.Pack(evil, tree)))
	assert.Equal(t, schemas.GitRejected, p.Code)
	assert.Contains(t, p.result.Reason, "force_push")
	up.is(t, base)
	assert.True(t, strings.HasPrefix(p.result.Reason, "the push is not seen to build"))
}

// away is an upstream that cannot be reached the first time, and what was to be sent.
type away struct {
	git.Adapter
	asked int
	sent  []string
}

func (a *away) For(t gitcall.Talk) call.Adapter {
	return &awayOnce{Adapter: a.Adapter.For(t), away: a, oid: t.Commands.List[0].New}
}

type awayOnce struct {
	call.Adapter
	away *away
	oid  string
}

func (o *awayOnce) Open(ctx context.Context, p guard.Pass) (call.Exchange, error) {
	if o.away.asked++; o.away.asked == 1 {
		return nil, &fault.Call{Code: schemas.UpstreamConnect}
	}
	o.away.sent = append(o.away.sent, o.oid)
	return o.Adapter.Open(ctx, p)
}

// TestABranchIsLookedForAgain: a branch that somebody has made while the upstream was
// away is not the task's, and nothing that would take it away is sent.
func TestABranchIsLookedForAgain(t *testing.T) {
	t.Parallel()
	now := time.Now()
	up := &away{}
	r := newRoom(t, options{pause: 10 * time.Second, now: func() time.Time { return now }, adapter: func(a git.Adapter) git.Adapter {
		up.Adapter = a
		return up
	}})
	repo := r.proxy()
	order := schemas.TaskOrder{Repo: repo.Name}
	st := r.accept(schemas.KindTask, taskID, order)
	_, err := r.branches.Open(t.Context(), st, order, branch)
	rest := harness.As[*call.Rest](t, err)
	st = r.rested(st, rest)
	now = now.Add(11 * time.Second)

	dir := repo.Root + "/app.git"
	gitkit.Git(t, dir, "update-ref", schemas.RefOf(branch), "refs/heads/secret")
	theirs := gitkit.Git(t, dir, "rev-parse", schemas.RefOf(branch))
	_, err = r.branches.Open(t.Context(), st, order, branch)
	said := harness.As[*fault.Error](t, err)
	assert.Equal(t, schemas.Conflict, said.Code)
	assert.Empty(t, up.sent)
	assert.Equal(t, theirs, gitkit.Git(t, dir, "rev-parse", schemas.RefOf(branch)))
}
