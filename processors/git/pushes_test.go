package git_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
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
		Bytes: int64(len(pack)), Report: true, SideBand: true,
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
	errGone := errors.New("the client is gone")
	type testCase struct {
		order   func(*schemas.PushOrder)
		body    func(base string) (io.Reader, string)
		before  func(*room)
		limits  gitwire.PackLimits
		outcome schemas.Outcome
		code    schemas.Code
		says    string
	}
	table.Run(t, map[string]testCase{
		"denied at the door": {
			order:   func(o *schemas.PushOrder) { o.Denied = "this token updates agent/work alone" },
			outcome: schemas.OutcomeDenied, code: schemas.GitRefDenied, says: "this token updates agent/work alone",
		},
		"another branch than the task's": {
			order:   func(o *schemas.PushOrder) { o.Ref = "refs/heads/main" },
			outcome: schemas.OutcomeDenied, code: schemas.GitRefDenied, says: "the branch is not the task's",
		},
		"the repository is gone": {
			order:   func(o *schemas.PushOrder) { o.Repo = "other" },
			outcome: schemas.OutcomeFailed, code: schemas.GitRejected, says: "not there any more",
		},
		"half a pack": {
			body: func(base string) (io.Reader, string) {
				pack, head := commit("x", base)
				return bytes.NewReader(pack[:len(pack)-1]), head
			},
			outcome: schemas.OutcomeFailed, code: schemas.GitIncomplete, says: "push again",
		},
		"the client leaves": {
			body: func(base string) (io.Reader, string) {
				pack, head := commit("x", base)
				return io.MultiReader(bytes.NewReader(pack[:len(pack)-30]), broken{errGone}), head
			},
			outcome: schemas.OutcomeFailed, code: schemas.GitIncomplete, says: "before it was whole",
		},
		"a wrong checksum": {
			body: func(base string) (io.Reader, string) {
				pack, head := commit("x", base)
				pack[len(pack)-1] ^= 1
				return bytes.NewReader(pack), head
			},
			outcome: schemas.OutcomeFailed, code: schemas.GitIncomplete, says: "broken",
		},
		"something behind the pack": {
			body: func(base string) (io.Reader, string) {
				pack, head := commit("x", base)
				return bytes.NewReader(append(pack, 'x')), head
			},
			outcome: schemas.OutcomeFailed, code: schemas.GitIncomplete, says: "broken",
		},
		"too large": {
			limits:  gitwire.PackLimits{Bytes: 60},
			outcome: schemas.OutcomeFailed, code: schemas.GitPackTooLarge, says: "larger than is allowed",
		},
		"too large unpacked": {
			body: func(string) (io.Reader, string) {
				return bytes.NewReader(gitkit.DeltaBomb(1 << 30)), gitkit.BlobOf("x").ID()
			},
			limits:  gitwire.PackLimits{Unpacked: 64 << 20},
			outcome: schemas.OutcomeFailed, code: schemas.GitPackTooLarge, says: "unpacks to",
		},
		"no descendant": {
			body: func(string) (io.Reader, string) {
				pack, head := commit("x", "")
				return bytes.NewReader(pack), head
			},
			outcome: schemas.OutcomeFailed, code: schemas.GitRejected,
		},
		"what fsck refuses": {
			body: func(base string) (io.Reader, string) {
				pack, head := gitkit.BadTree(".git", base)
				return bytes.NewReader(pack), head
			},
			outcome: schemas.OutcomeFailed, code: schemas.GitRejected,
		},
		"the branch is elsewhere by now": {
			order:   func(o *schemas.PushOrder) { o.Old = gitkit.BlobOf("y").ID() },
			outcome: schemas.OutcomeFailed, code: schemas.GitRejected,
		},
		"the task has ended": {
			before:  (*room).complete,
			outcome: schemas.OutcomeCanceled, code: schemas.Canceled, says: "the task has ended",
		},
		"the lease is lost": {
			order:   func(o *schemas.PushOrder) { o.Lease = 1 },
			outcome: schemas.OutcomeCanceled, code: schemas.Canceled, says: "lease",
		},
		"the push was canceled": {
			before:  func(r *room) { r.stop.Pull() },
			outcome: schemas.OutcomeCanceled, code: schemas.Canceled, says: "canceled",
		},
	}, func(t *testing.T, c testCase) {
		r, repo, base := hosting(t, options{limits: c.limits})
		if c.before != nil {
			c.before(r)
		}
		pack, head := commit("one", base)
		body := io.Reader(bytes.NewReader(pack))
		if c.body != nil {
			body, head = c.body(base)
		}
		o := order(repo, base, head)
		if c.order != nil {
			c.order(&o)
		}
		p := r.push("push-1", o, body)
		assert.Equal(t, c.outcome, p.Outcome, p.Message)
		assert.Equal(t, c.code, p.Code)
		assert.Contains(t, p.result.Reason, c.says)
		assert.NotEmpty(t, p.result.Reason)
		assert.Equal(t, base, r.head(repo), "the branch is where it was")
		assert.Zero(t, r.task().Pushes)
		assert.Equal(t, string(c.code), r.audit().Result)
		assert.Equal(t, c.code, r.evidence(schemas.EvidencePush)[0].Code)
	})
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func TestForcedPush(t *testing.T) {
	t.Parallel()
	r := newRoom(t, options{})
	repo := r.host()
	_, base := r.file(repo, true)
	pack, head := commit("x", "")
	o := order(repo, base, head)
	o.Force = true
	p := r.push("push-1", o, bytes.NewReader(pack))
	assert.Equal(t, schemas.OutcomeSucceeded, p.Outcome, p.Message)
	assert.Equal(t, head, r.head(repo))
}

// TestTaskEndsDuringPush: what a task's end finds under way does not get through, as
// the end of the pack waits for a look at the task, whether the client goes on or not.
func TestTaskEndsDuringPush(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]func(*room, *stuttering){
		"and the client goes on": func(r *room, s *stuttering) {
			r.complete()
			s.goOn()
		},
		"and the board says so": func(r *room, _ *stuttering) {
			r.complete()
			close(r.over)
		},
		"by a cancel of the push": func(r *room, _ *stuttering) { r.stop.Pull() },
	}, func(t *testing.T, end func(*room, *stuttering)) {
		r, repo, base := hosting(t, options{})
		pack, head := commit("one", base)
		p := r.interrupted(order(repo, base, head), pack, 40, func(s *stuttering) { end(r, s) })
		assert.Equal(t, schemas.OutcomeCanceled, p.Outcome, p.Message)
		assert.Equal(t, base, r.head(repo))
		assert.Zero(t, r.task().Pushes)
	})
}

// TestBoardMayBeWrong: that a board says that a task is over is a reason to look, and
// no more.
func TestBoardMayBeWrong(t *testing.T) {
	t.Parallel()
	r, repo, base := hosting(t, options{})
	close(r.over)
	pack, head := commit("one", base)
	p := r.push("push-1", order(repo, base, head), bytes.NewReader(pack))
	assert.Equal(t, schemas.OutcomeSucceeded, p.Outcome, p.Message)
}

func TestPushOfAnotherNode(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r, repo, base := hosting(t, options{now: func() time.Time { return now }})
	_, head := commit("one", base)
	st := r.accept(schemas.KindPush, "push-1", order(repo, base, head))
	now = st.Action.AcceptedAt
	later := harness.As[*fault.Later](t, r.pushes.Here(st))
	assert.Equal(t, 500*time.Millisecond, later.After)

	now = now.Add(31 * time.Second)
	require.NoError(t, r.pushes.Here(st), "nobody has it")
	p := r.perform(st)
	assert.Equal(t, schemas.GitIncomplete, p.Code)
	assert.Equal(t, base, r.head(repo))

	denied := order(repo, base, head)
	denied.Denied = "no"
	require.NoError(t, r.pushes.Here(r.accept(schemas.KindPush, "push-2", denied)), "nobody needs its body")
}
