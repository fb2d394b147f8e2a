package git_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	hosted "weir/internal/git"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/processors/git"
	"weir/schemas"
)

// noisy is a pack of more than a size, which does not get smaller. Of 256 KiB it is too large for the memory of a spool.
func noisy(size int, parent string) (pack []byte, head string) {
	noise := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(noise)
	return commit(string(noise), parent)
}

// asked is a git that says when it is asked for a turn, and does something meanwhile.
type asked struct {
	*hosted.Git
	meanwhile func()
}

func (a *asked) ReceivePack(ctx context.Context, id string, p hosted.Push) (gitwire.Report, error) {
	a.meanwhile()
	return a.Git.ReceivePack(ctx, id, p)
}

// TestAPackArrivesBeforeItsTurn: git is not asked for one while the client sends.
func TestAPackArrivesBeforeItsTurn(t *testing.T) {
	t.Parallel()
	turn := make(chan struct{}, 1)
	r := newEnv(t, options{program: func(g *hosted.Git) git.Hosted { return &asked{g, func() { turn <- struct{}{} }} }})
	repo := r.host()
	_, base := r.file(repo, false)
	pack, head := noisy(256<<10, base)
	body := stutter(pack, len(pack)-1)
	st := r.accept(schemas.KindPush, "push-1", order(repo, base, head))
	upload := &githttp.Upload{Body: body}
	done := make(chan pushed, 1)
	go func() {
		p, err := r.try(upload.In(t.Context()), st)
		assert.NoError(t, err)
		done <- p
	}()
	<-body.at
	require.Empty(t, turn)
	body.goOn()
	<-turn
	p := <-done
	assert.Equal(t, schemas.OutcomeSucceeded, p.Outcome, p.Message)
	assert.Equal(t, head, r.head(repo))
	assert.EqualValues(t, len(pack), p.result.Bytes)
}

// TestATaskThatEndsWhileItsPushWaits for its turn pushes nothing, also where nobody has told this node of that.
func TestATaskThatEndsWhileItsPushWaits(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]func(*env){
		"unheard":  (*env).complete,
		"heard of": func(r *env) { r.complete(); close(r.over) },
		"canceled": func(r *env) { r.stop.Pull() },
	}, func(t *testing.T, end func(*env)) {
		var r *env
		r = newEnv(t, options{program: func(g *hosted.Git) git.Hosted { return &asked{g, func() { end(r) }} }})
		repo := r.host()
		_, base := r.file(repo, false)
		pack, head := commit("one", base)
		p := r.push("push-1", order(repo, base, head), bytes.NewReader(pack))
		assert.Equal(t, schemas.OutcomeCanceled, p.Outcome, p.Message)
		assert.Equal(t, base, r.head(repo))
		assert.Zero(t, r.task().Pushes)
	})
}

// TestATaskHearsOfItsPush although who told it died before it was woken.
func TestATaskHearsOfItsPush(t *testing.T) {
	t.Parallel()
	deaf := true
	r := newEnv(t, options{hooks: memlog.Hooks{Before: func(m schemas.Append) error {
		if _, _, section := schemas.Split(m.Subject); section == schemas.SectionWake && len(m.Data) == 0 && deaf {
			return fault.ErrUnavailable
		}
		return nil
	}}})
	repo := r.host()
	task, base := r.file(repo, false)
	pack, head := commit("one", base)
	p, err := r.tryPush("push-1", order(repo, base, head), bytes.NewReader(pack))
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.Equal(t, 1, r.task().Pushes)
	deaf = false
	p = r.perform(r.again(p.st))
	assert.Equal(t, schemas.OutcomeSucceeded, p.Outcome)
	assert.Equal(t, 1, r.task().Pushes, "it is told once")
	told, _, err := r.log.Page(t.Context(), schemas.LogStream(0), r.ledger.Layout().Subject(task.Ref, schemas.SectionWake), 1, 10, 1<<30)
	require.NoError(t, err)
	require.Len(t, told, 2)
	assert.True(t, told[1].Notifies(), "once")
}

// TestAPushTooMany: what an agent writes to its task's log is bounded.
func TestAPushTooMany(t *testing.T) {
	t.Parallel()
	r := newEnv(t, options{})
	repo := r.host()
	task, base := r.file(repo, false)
	st := r.again(task)
	for i := range schemas.MaxTaskPushes {
		require.NoError(t, r.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventStatus, Task: &schemas.TaskEvent{
			What: schemas.TaskPushed, Status: schemas.TaskStatusRunning, Head: base, Push: strconv.Itoa(i),
		}}))
	}
	pack, head := commit("one", base)
	p := r.push("push-1", order(repo, base, head), bytes.NewReader(pack))
	assert.Equal(t, schemas.GitRejected, p.Code)
	assert.Contains(t, p.Message, "10000 times")
	assert.Equal(t, base, r.head(repo))
	assert.Equal(t, schemas.MaxTaskPushes, r.task().Pushes)
}

// TestAPushBehindItsTasksEnd is told of all the same: the branch is where it is.
func TestAPushBehindItsTasksEnd(t *testing.T) {
	t.Parallel()
	r, repo, base := hosting(t, options{})
	pack, head := commit("one", base)
	_ = r.push("push-0", order(repo, base, head), bytes.NewReader(pack))
	st := r.accept(schemas.KindPush, "push-1", order(repo, base, head)) // as if it were this one's work
	harness.Start(r.t, r.ledger, st)
	r.complete()
	_ = r.perform(r.again(st))
	s := r.task()
	assert.Equal(t, []any{2, head, schemas.TaskStatusCompleted}, []any{s.Pushes, s.Head, s.Status})
	assert.Equal(t, head, s.Left)
}

// bare is a node that has no git.
func (r *env) bare() git.Config {
	cfg, none := r.cfg, fmt.Errorf("%w: no git", hosted.ErrNoRepo)
	cfg.Hosted = hosted.None(none, none)
	return cfg
}

// left asserts that somebody else is to look, and gives when.
func left(t *testing.T, err error) *call.Deferral {
	t.Helper()
	rest := harness.As[*call.Deferral](t, err)
	require.Equal(t, schemas.WaitNode, rest.Reason)
	return rest
}

// rested writes down what a pipeline does.
func (r *env) rested(st *ledger.State, rest *call.Deferral) *ledger.State {
	r.t.Helper()
	harness.Append(r.t, r.ledger, st, schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: rest.Reason, Until: rest.Until}})
	return r.again(st)
}

// TestABranchIsLeftToWhoHasTheRepository, however late the first look comes.
func TestABranchIsLeftToWhoHasTheRepository(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := newEnv(t, options{now: func() time.Time { return now }})
	repo := r.made("repo-1", schemas.RepoOrder{Name: "app"})
	o := schemas.TaskOrder{Repo: repo.Name}
	st := r.accept(schemas.KindTask, taskID, o)
	here := git.NewBranches(r.bare())
	open := func() *call.Deferral {
		_, err := here.Open(t.Context(), st, o, branch)
		return left(t, err)
	}
	rest := open()
	require.False(t, rest.Quiet)
	require.Equal(t, 500*time.Millisecond, rest.Until.Sub(now))
	st = r.rested(st, rest)
	for _, tt := range [][2]time.Duration{
		{30 * time.Second, 3750 * time.Millisecond}, {10 * time.Minute, 10 * time.Second}, {15*time.Minute - time.Second, time.Second},
	} {
		now = st.Action.AcceptedAt.Add(tt[0])
		rest = open()
		require.True(t, rest.Quiet, "the log was told")
		require.Equal(t, tt[1], rest.Until.Sub(now))
	}
	_, err := here.Exists(t.Context(), repo, "main")
	require.ErrorIs(t, err, hosted.ErrNoRepo, "nor does it say that there is none")
	base, err := r.branches.Open(t.Context(), st, o, branch)
	require.NoError(t, err, "and then it comes to the one that has it")
	assert.NotEmpty(t, base)
}

// TestARepositoryIsLeftToWhoHasGit, until it is canceled or its time is up.
func TestARepositoryIsLeftToWhoHasGit(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := newEnv(t, options{now: func() time.Time { return now }})
	up := r.proxy()
	here := git.NewRepos(r.bare())
	for id, o := range map[string]schemas.RepoOrder{"repo-1": {Name: "new"}, "repo-2": {Name: "copy", ImportURL: up.UpstreamURL}} {
		st := r.accept(schemas.KindRepo, id, o)
		_, err := here.Execute(t.Context(), st, r.stop.Stop)
		rest := left(t, err)
		st = r.rested(st, rest)
		_, err = here.Execute(t.Context(), st, r.stop.Stop)
		require.True(t, left(t, err).Quiet)
		v, err := r.repos.Execute(t.Context(), st, r.stop.Stop)
		require.NoError(t, err)
		require.Equal(t, schemas.OutcomeSucceeded, v.Outcome, v.Message)
	}
	require.Len(t, r.evidence(schemas.EvidenceRepo), 2, "who cannot make it says nothing of it")

	st := r.accept(schemas.KindRepo, "repo-3", schemas.RepoOrder{Name: "late"})
	st.Action.Deadline = time.Now().Add(-time.Second)
	v, err := here.Execute(t.Context(), st, r.stop.Stop)
	require.NoError(t, err)
	require.Equal(t, schemas.OutcomeExpired, v.Outcome)
	r.stop.Pull()
	v, err = here.Execute(t.Context(), r.accept(schemas.KindRepo, "repo-4", schemas.RepoOrder{Name: "canceled"}), r.stop.Stop)
	require.NoError(t, err)
	require.Equal(t, schemas.OutcomeCanceled, v.Outcome)
	_, err = r.catalog.Get(t.Context(), tenant, "late")
	require.ErrorIs(t, err, fault.ErrNotFound)
}
