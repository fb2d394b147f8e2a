package git_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	hosted "weir/internal/git"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/git"
	"weir/schemas"
)

// bare is a node that has no git, or not the repository.
type bare struct{}

func (bare) Create(context.Context, string, string) (string, error) { return "", hosted.ErrNoRepo }

func (bare) Import(context.Context, string, string, string, string, func(schemas.RepoProgress)) (string, error) {
	return "", hosted.ErrNoRepo
}

func (bare) Head(context.Context, string, string) (string, error) { return "", hosted.ErrNoRepo }

func (bare) Branch(context.Context, string, string, string, string) (string, error) {
	return "", hosted.ErrNoRepo
}

func (bare) Remove(context.Context, string) error { return hosted.ErrNoRepo }

// left asserts that somebody else is to look, and gives when.
func left(t *testing.T, err error) *call.Rest {
	t.Helper()
	var rest *call.Rest
	require.ErrorAs(t, err, &rest)
	require.Equal(t, schemas.WaitDelay, rest.For)
	return rest
}

// rested writes down what a pipeline does.
func (r *room) rested(st *ledger.State, rest *call.Rest) *ledger.State {
	r.t.Helper()
	require.NoError(r.t, r.ledger.Append(r.t.Context(), st, schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: rest.For, Until: rest.Until}}))
	return r.again(st)
}

// TestABranchIsLeftToWhoHasTheRepository, however late the first look comes.
func TestABranchIsLeftToWhoHasTheRepository(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := newRoom(t, options{now: func() time.Time { return now }})
	repo := r.made("repo-1", schemas.RepoOrder{Name: "app"})
	o := schemas.TaskOrder{Repo: repo.Name}
	st := r.accept(schemas.KindTask, taskID, o)
	here := git.NewBranches(nil, git.BranchConfig{Repos: r.catalog, Hosted: bare{}, Now: func() time.Time { return now }})
	open := func() *call.Rest {
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
	r := newRoom(t, options{now: func() time.Time { return now }})
	up := r.proxy()
	here := git.NewRepos(r.recorder, git.RepoConfig{Log: r.ledger, Catalog: r.catalog, Hosted: bare{}, Upstream: r.upstream, Now: func() time.Time { return now }})
	for id, o := range map[string]schemas.RepoOrder{"repo-1": {Name: "new"}, "repo-2": {Name: "copy", ImportURL: up.UpstreamURL}} {
		st := r.accept(schemas.KindRepo, id, o)
		_, err := here.Perform(t.Context(), st, r.stop)
		rest := left(t, err)
		st = r.rested(st, rest)
		_, err = here.Perform(t.Context(), st, r.stop)
		require.True(t, left(t, err).Quiet)
		v, err := r.repos.Perform(t.Context(), st, r.stop)
		require.NoError(t, err)
		require.Equal(t, schemas.OutcomeSucceeded, v.Outcome, v.Message)
	}
	require.Len(t, r.evidence(schemas.EvidenceRepo), 2, "who cannot make it says nothing of it")

	st := r.accept(schemas.KindRepo, "repo-3", schemas.RepoOrder{Name: "late"})
	st.Action.Deadline = time.Now().Add(-time.Second)
	v, err := here.Perform(t.Context(), st, r.stop)
	require.NoError(t, err)
	require.Equal(t, schemas.OutcomeExpired, v.Outcome)
	r.stop.stop()
	v, err = here.Perform(t.Context(), r.accept(schemas.KindRepo, "repo-4", schemas.RepoOrder{Name: "canceled"}), r.stop)
	require.NoError(t, err)
	require.Equal(t, schemas.OutcomeCanceled, v.Outcome)
	_, err = r.catalog.Get(t.Context(), tenant, "late")
	require.ErrorIs(t, err, fault.ErrNotFound)
}
