package git_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/gitkit"
	"weir/processors/call"
	gitcall "weir/processors/call/git"
	"weir/processors/git"
	"weir/processors/guard"
	"weir/schemas"
)

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
	var rest *call.Rest
	require.ErrorAs(t, err, &rest)
	st = r.rested(st, rest)
	now = now.Add(11 * time.Second)

	dir := repo.Root + "/app.git"
	gitkit.Git(t, dir, "update-ref", schemas.RefOf(branch), "refs/heads/secret")
	theirs := gitkit.Git(t, dir, "rev-parse", schemas.RefOf(branch))
	_, err = r.branches.Open(t.Context(), st, order, branch)
	var said *fault.Error
	require.ErrorAs(t, err, &said)
	assert.Equal(t, schemas.Conflict, said.Code)
	assert.Empty(t, up.sent)
	assert.Equal(t, theirs, gitkit.Git(t, dir, "rev-parse", schemas.RefOf(branch)))
}
