package task_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/task"
	"weir/schemas"
)

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
