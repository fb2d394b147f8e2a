package task_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/task"
	"weir/schemas"
)

func TestFold(t *testing.T) {
	t.Parallel()
	a := schemas.Action{Tenant: "t", ID: "a", TokenHash: own.Hash()}
	events := []schemas.Event{{Type: schemas.EventAccepted, Action: &a}, opened, claimed, completed}
	s, err := task.Fold(a, []byte(`{"repo":"shop","branch":"b"}`), events)
	require.NoError(t, err)
	require.Equal(t, []any{"shop", "b", schemas.TaskStatusCompleted}, []any{s.Order.Repo, s.Branch, s.Status})
	for _, payload := range []string{"", "[]", `{"repo":5}`} {
		s, err = task.Fold(a, []byte(payload), events)
		require.Error(t, err)
		require.Equal(t, schemas.TaskStatusCompleted, s.Status, "what happened to it is known all the same")
		require.Empty(t, s.Order)
	}
}

// TestTheEndIsFrozen by the event that decides it, whichever that is; what is pushed
// later moves the branch and nothing else.
func TestTheEndIsFrozen(t *testing.T) {
	t.Parallel()
	at := func(n int, ev schemas.Event) schemas.Event {
		ev.N, ev.Time = n, begun.Add(time.Duration(n)*time.Second)
		return ev
	}
	later := at(8, happened(schemas.TaskEvent{What: schemas.TaskPushed, Head: "h2", Push: "q"}))
	for name, end := range map[string]schemas.Event{
		"completed": completed, "failed": failed, "closed": stopped, "settled": settled(schemas.OutcomeExpired),
	} {
		s := told(schemas.TaskOrder{}, at(1, opened), at(2, claimed), at(3, pushed), at(4, end), at(5, cancel), at(6, stopped), at(7, settled(schemas.OutcomeCanceled)), later)
		require.Equal(t, []any{4, "h1", begun.Add(4 * time.Second)}, []any{s.Last, s.Left, s.Ended}, name)
		require.Equal(t, []any{"h2", 2}, []any{s.Head, s.Pushes}, name)
	}
}

// TestALeaseTooMany: nobody takes a task for ever.
func TestALeaseTooMany(t *testing.T) {
	t.Parallel()
	s := told(schemas.TaskOrder{Pool: "p"}, opened)
	for n := 1; n <= schemas.MaxTaskLeases; n++ {
		require.True(t, s.Leasable(), n)
		require.False(t, s.Spent())
		s.Apply(happened(schemas.TaskEvent{What: schemas.TaskClaimed, Lease: n}))
		require.False(t, s.Spent(), "somebody has it")
		s.Apply(happened(schemas.TaskEvent{What: schemas.TaskReleased, Lease: n}))
	}
	require.True(t, s.Spent())
	require.False(t, s.Leasable())
}

func TestTheRecordOfALease(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a%2Eb.x%3A1.7", task.LeaseKey(schemas.Ref{Tenant: "a.b", ID: "x:1"}, 7))
	for _, n := range []int{0, 1, 1000} {
		doc := task.EncodeHeartbeat(n)
		require.JSONEq(t, `{"lease":`+strconv.Itoa(n)+`}`, string(doc))
		got, ok := task.DecodeHeartbeat(doc)
		require.True(t, ok)
		require.Equal(t, n, got)
	}
	for _, bad := range []string{"", "{}", "[]", `{"lease":"1"}`} {
		_, ok := task.DecodeHeartbeat([]byte(bad))
		require.False(t, ok, bad)
	}
}
