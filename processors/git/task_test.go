package git_test

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// TestATaskHearsOfItsPush although who told it died before it was woken.
func TestATaskHearsOfItsPush(t *testing.T) {
	t.Parallel()
	deaf := true
	r := newRoom(t, options{hooks: memlog.Hooks{Before: func(m schemas.Append) error {
		if _, tail, err := schemas.ParseSubject(m.Subject); err == nil && tail == schemas.TailWake && deaf {
			return fault.ErrUnavailable
		}
		return nil
	}}})
	repo := r.host()
	task, base := r.file(repo, false)
	pack, head := commit("one", base)
	p := r.push("push-1", order(repo, base, head), bytes.NewReader(pack))
	require.ErrorIs(t, p.err, fault.ErrUnavailable)
	require.Equal(t, 1, r.task().Pushes)
	deaf = false
	p = r.perform(t.Context(), r.again(p.st))
	require.NoError(t, p.err)
	assert.Equal(t, schemas.OutcomeSucceeded, p.Outcome)
	assert.Equal(t, 1, r.task().Pushes, "it is told once")
	wakes, err := r.log.Range(t.Context(), schemas.LogStream(0), r.ledger.Layout().Subject(task.Ref, schemas.TailWake), 1, 10)
	require.NoError(t, err)
	assert.Len(t, wakes, 1)
}

// TestAPushTooMany: what an agent writes to its task's log is bounded.
func TestAPushTooMany(t *testing.T) {
	t.Parallel()
	r := newRoom(t, options{})
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
	require.NoError(t, p.err)
	assert.Equal(t, schemas.GitRejected, p.Code)
	assert.Contains(t, p.Message, "10000 times")
	assert.Equal(t, base, r.head(repo))
	assert.Equal(t, schemas.MaxTaskPushes, r.task().Pushes)
}

// TestAPushBehindItsTasksEnd is told of all the same: the branch is where it is.
func TestAPushBehindItsTasksEnd(t *testing.T) {
	t.Parallel()
	r := newRoom(t, options{})
	repo := r.host()
	_, base := r.file(repo, false)
	pack, head := commit("one", base)
	p := r.push("push-0", order(repo, base, head), bytes.NewReader(pack))
	require.NoError(t, p.err)
	st := r.accept(schemas.KindPush, "push-1", order(repo, base, head)) // as if it were this one's work
	require.NoError(t, r.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w0"}}))
	r.complete()
	p = r.perform(t.Context(), r.again(st))
	require.NoError(t, p.err)
	s := r.task()
	assert.Equal(t, []any{2, head, schemas.TaskStatusCompleted}, []any{s.Pushes, s.Head, s.Status})
	assert.Equal(t, head, s.Left)
}
