package git_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	hosted "weir/internal/git"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/processors/git"
	"weir/schemas"
)

// take has git take a push past everybody.
func (r *env) take(repo schemas.Repo, o schemas.PushOrder, pack []byte) {
	r.t.Helper()
	rep, err := r.git.ReceivePack(r.t.Context(), repo.ID, hosted.Push{
		Force: o.Force, Pack: bytes.NewReader(pack),
		Command: gitwire.Command{Old: o.Old, New: o.New, Ref: o.Ref}, Capabilities: o.Capabilities,
	})
	require.NoError(r.t, err)
	require.Empty(r.t, rep.Reason)
}

// lost is a push whose worker is gone.
func (r *env) lost(id string, o schemas.PushOrder) *ledger.State {
	r.t.Helper()
	st := r.accept(schemas.KindPush, id, o)
	harness.Start(r.t, r.ledger, st)
	return r.again(st)
}

// TestFate: what became of a push whose worker died is what the branch says, also where others
// have pushed to it since.
func TestFate(t *testing.T) {
	t.Parallel()
	type line struct{ base, one, two, aside string } // two is on one, which is on base; aside on nothing
	type testCase struct {
		force       bool
		from, to    func(line) string
		at          func(line) string // where the branch is at last, by way of one
		outcome     schemas.Outcome
		code        schemas.Code
		gone, taken bool
	}
	table.Run(t, map[string]testCase{
		"not taken":           {at: func(l line) string { return l.base }, outcome: schemas.OutcomeFailed, code: schemas.GitIncomplete},
		"taken":               {at: func(l line) string { return l.one }, taken: true, outcome: schemas.OutcomeSucceeded},
		"taken and pushed on": {at: func(l line) string { return l.two }, taken: true, outcome: schemas.OutcomeSucceeded},
		"another was first": {
			to: func(l line) string { return l.aside },
			at: func(l line) string { return l.one }, taken: true, outcome: schemas.OutcomeFailed, code: schemas.GitIncomplete,
		},
		"taken and dropped again": {
			force: true, at: func(l line) string { return l.aside }, taken: true, outcome: schemas.OutcomeUnknown, code: schemas.OutcomeUnknownCode,
		},
		"forced, not taken": {
			force: true, at: func(l line) string { return l.base }, outcome: schemas.OutcomeFailed, code: schemas.GitIncomplete,
		},
		"forced back, not taken": {
			force: true, from: func(l line) string { return l.one }, to: func(l line) string { return l.base },
			at: func(l line) string { return l.one }, taken: true, outcome: schemas.OutcomeFailed, code: schemas.GitIncomplete,
		},
		"forced back, and others pushed": { // perhaps on what was there before
			force: true, from: func(l line) string { return l.one }, to: func(l line) string { return l.base },
			at: func(l line) string { return l.two }, taken: true, outcome: schemas.OutcomeUnknown, code: schemas.OutcomeUnknownCode,
		},
		"forced aside, and others pushed": {
			force: true, from: func(l line) string { return l.aside },
			at: func(l line) string { return l.two }, taken: true, outcome: schemas.OutcomeSucceeded,
		},
		"the branch is gone": {gone: true, outcome: schemas.OutcomeUnknown, code: schemas.OutcomeUnknownCode},
	}, func(t *testing.T, c testCase) {
		r := newEnv(t, options{})
		repo := r.host()
		_, base := r.file(repo, true)
		one, first := commit("one", base)
		two, second := commit("two", first)
		aside, other := commit("aside", "")
		l := line{base: base, one: first, two: second, aside: other}
		o := order(repo, l.base, l.one)
		o.Force = c.force
		if c.from != nil {
			o.Old = c.from(l)
		}
		if c.to != nil {
			o.New = c.to(l)
		}
		if c.gone {
			o.Ref = schemas.RefOf("nowhere")
		}
		st := r.lost("push-1", o)
		if c.taken {
			r.take(repo, order(repo, l.base, l.one), one)
			switch to := c.at(l); to {
			case l.two:
				r.take(repo, order(repo, l.one, to), two)
			case l.aside:
				forced := order(repo, l.one, to)
				forced.Force = true
				r.take(repo, forced, aside)
			}
		}
		require.NoError(t, r.pushes.Here(t.Context(), st))
		p := r.perform(st)
		assert.Equal(t, c.outcome == schemas.OutcomeSucceeded, r.task().Pushes == 1)
		assert.Equal(t, c.outcome, p.Outcome, p.Message)
		assert.Equal(t, c.code, p.Code)
		if c.outcome != schemas.OutcomeSucceeded {
			assert.NotEmpty(t, p.result.Reason)
		}
		assert.Zero(t, p.result.Bytes)
		assert.NotContains(t, string(r.evidence(schemas.EvidencePush)[0].Payload), "bytes", "nobody knows")
	})
}

// unsynced is a git whose disk does not take what the branch says.
type unsynced struct {
	*hosted.Git
	err error
}

func (g unsynced) PushState(context.Context, string, string, string) (hosted.PushState, error) {
	return hosted.PushState{}, g.err
}

// TestFateWaitsForTheDisk: a push is not said to have succeeded while what it left may still be lost.
func TestFateWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk")
	r, repo, base := hosting(t, options{program: func(g *hosted.Git) git.Hosted { return unsynced{g, broken} }})
	pack, head := commit("one", base)
	o := order(repo, base, head)
	st := r.lost("push-1", o)
	r.take(repo, o, pack)
	_, err := r.try(t.Context(), st)
	require.ErrorAs(t, err, new(*fault.RetryAfter))
	require.ErrorIs(t, err, broken)
	assert.Zero(t, r.task().Pushes)
	assert.Empty(t, r.evidence(schemas.EvidencePush))
}

// TestPushWithoutTheDirectory: to push again does not bring it back.
func TestPushWithoutTheDirectory(t *testing.T) {
	t.Parallel()
	r, repo, base := hosting(t, options{})
	require.NoError(t, r.git.Remove(t.Context(), repo.ID))
	pack, head := commit("one", base)
	p := r.push("push-1", order(repo, base, head), bytes.NewReader(pack))
	assert.Equal(t, schemas.GitRejected, p.Code)
	assert.Contains(t, p.result.Reason, "not on this node")
	assert.NotContains(t, p.result.Reason, "push again")
}
