package task_test

import (
	"encoding/json"
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
	require.JSONEq(t, `{"lease":7}`, string(task.EncodeHeartbeat(7)))
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tt := range map[string]struct {
		event schemas.Event
		want  *schemas.TaskUpdate // TaskID, Time and N aside; nil: it changes nothing
	}{
		"accepted": {schemas.Event{Type: schemas.EventAccepted}, &schemas.TaskUpdate{What: "accepted", Status: "Queued"}},
		"started":  {schemas.Event{Type: schemas.EventStarted}, nil},
		"waiting":  {schemas.Event{Type: schemas.EventWaiting}, nil},
		"opened": {
			schemas.Event{Type: schemas.EventStatus, Task: &schemas.TaskEvent{What: schemas.TaskOpened, Status: "Running", Base: "b0"}},
			&schemas.TaskUpdate{What: "opened", Status: "Running", Head: "b0"},
		},
		"claimed": {
			schemas.Event{Type: schemas.EventSignal, Task: &schemas.TaskEvent{What: schemas.TaskClaimed, Status: "Running", Lease: 2, Holder: "h", TokenHash: "x"}},
			&schemas.TaskUpdate{What: "claimed", Status: "Running", Lease: 2},
		},
		"asked": {
			schemas.Event{Type: schemas.EventSignal, Task: &schemas.TaskEvent{What: schemas.TaskAsked, Status: "Running", Inquiry: &schemas.TaskInquiry{N: 3, Text: "CANARY"}}},
			&schemas.TaskUpdate{What: "asked", Status: "Running", Inquiry: 3},
		},
		"pushed": {
			schemas.Event{Type: schemas.EventStatus, Task: &schemas.TaskEvent{What: schemas.TaskPushed, Status: "Running", Base: "b0", Head: "c1", Push: "p"}},
			&schemas.TaskUpdate{What: "pushed", Status: "Running", Head: "c1", Push: "p"},
		},
		"reported": {
			schemas.Event{Type: schemas.EventSignal, Task: &schemas.TaskEvent{What: schemas.TaskReported, Status: "Failed", Report: &schemas.TaskReport{Description: "CANARY", Reason: "TaskIssues"}}},
			&schemas.TaskUpdate{What: "reported", Status: "Failed", Reason: "TaskIssues"},
		},
		"closed": {
			schemas.Event{Type: schemas.EventStatus, Task: &schemas.TaskEvent{What: schemas.TaskClosed, Status: "Expired", Code: schemas.DeadlineExceeded, Message: "CANARY"}},
			&schemas.TaskUpdate{What: "closed", Status: "Expired", Code: schemas.DeadlineExceeded},
		},
		"cancel":             {schemas.Event{Type: schemas.EventCancel}, &schemas.TaskUpdate{What: "cancel"}},
		"a signal of nought": {schemas.Event{Type: schemas.EventSignal}, nil},
		"a settled without":  {schemas.Event{Type: schemas.EventSettled}, nil},
		"settled": {
			schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{
				Outcome: schemas.OutcomeFailed, Code: schemas.TaskFailed, Message: "CANARY", Result: json.RawMessage(`{"description":"CANARY","head":"c1","reason":"TaskIssues"}`),
			}},
			&schemas.TaskUpdate{What: "settled", Status: "Failed", Code: schemas.TaskFailed, Head: "c1", Reason: "TaskIssues"},
		},
		"settled, its result aside": {
			schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeCanceled, Code: schemas.Canceled, ResultBlob: "x"}},
			&schemas.TaskUpdate{What: "settled", Status: "Canceled", Code: schemas.Canceled},
		},
	} {
		tt.event.N, tt.event.Time = 7, at
		got, ok := task.Update("t-1", tt.event)
		require.Equal(t, tt.want != nil, ok, name)
		if ok {
			want := *tt.want
			want.TaskID, want.N, want.Time = "t-1", 7, at
			require.Equal(t, want, got, name)
			doc, err := json.Marshal(got)
			require.NoError(t, err)
			require.NotContains(t, string(doc), "CANARY", name)
		}
	}
}
