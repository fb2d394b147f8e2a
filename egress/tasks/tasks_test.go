package tasks_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/tasks"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/internal/weirtest/fixture"
	"weir/schemas"
)

func golden(t *testing.T, name string, v any) {
	t.Helper()
	doc, err := ledger.Encode(v)
	require.NoError(t, err)
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, doc, "", "  "))
	body := append(indented.Bytes(), '\n')
	fixture.Golden(t, name, body)
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// life is a task with events, each a minute after the one before.
func life(order string, events ...schemas.Event) *ledger.State {
	a := schemas.Action{
		ID: "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", Tenant: "acme", Kind: schemas.KindTask, Principal: "tok-1", TokenHash: "00",
		AcceptedAt: start, Deadline: start.Add(8 * time.Hour), Payload: json.RawMessage(order),
	}
	st := &ledger.State{Ref: schemas.Ref{Tenant: a.Tenant, Kind: a.Kind, ID: a.ID}, Action: a}
	all := append([]schemas.Event{{Type: schemas.EventAccepted, Action: &a}, {Type: schemas.EventStarted}}, events...)
	for i, ev := range all {
		ev.N, ev.Time = i+1, start.Add(time.Duration(i)*time.Minute)
		ev.Seq = uint64(i + 1)
		st.Events = append(st.Events, ev)
	}
	return st
}

const (
	short = `{"description":"Fix <it>","repo":"shop","pool":"default"}`
	long  = `{"description":"Fix the rounding\nof totals","repo":"shop","base_ref":"dev","branch":"fix/rounding","model":"m-1",` +
		`"budget":{"requests":10,"tokens":2000,"usd":1.5},"force_push":true,"pool":"night","metadata":{"ticket":"A-1"}}`
)

func signal(e schemas.TaskEvent) schemas.Event {
	return schemas.Event{Type: schemas.EventSignal, Task: &e}
}

func word(e schemas.TaskEvent) schemas.Event {
	return schemas.Event{Type: schemas.EventStatus, Task: &e}
}

var (
	opened  = word(schemas.TaskEvent{What: schemas.TaskOpened, Status: "Queued", Base: "b0"})
	claimed = signal(schemas.TaskEvent{What: schemas.TaskClaimed, Status: "Running", Lease: 1, Holder: "pool-1", TokenHash: "01"})
	own     = signal(schemas.TaskEvent{What: schemas.TaskClaimed, Status: "Running"})
	asked   = signal(schemas.TaskEvent{What: schemas.TaskAsked, Status: "Running", Lease: 1, Inquiry: &schemas.TaskInquiry{N: 1, Key: "k", Text: "half up?"}})
	answer  = signal(schemas.TaskEvent{What: schemas.TaskAnswered, Status: "Running", Inquiry: &schemas.TaskInquiry{N: 1, Text: "half <even>", By: "tok-2"}})
	pushed  = word(schemas.TaskEvent{What: schemas.TaskPushed, Status: "Running", Lease: 1, Head: "c1", Push: "p-1"})
	done    = signal(schemas.TaskEvent{What: schemas.TaskReported, Status: "Completed", Lease: 1, Report: &schemas.TaskReport{Completed: true, Description: "it is fixed"}})
	failed  = signal(schemas.TaskEvent{What: schemas.TaskReported, Status: "Failed", Report: &schemas.TaskReport{Description: "no", Reason: schemas.ReasonTaskIssues}})
	closed  = word(schemas.TaskEvent{What: schemas.TaskClosed, Status: "Expired", Code: schemas.DeadlineExceeded, Message: "the task's time is up"})
	cancel  = schemas.Event{Type: schemas.EventCancel}
)

func settled(o schemas.Outcome, code schemas.Code, message string) schemas.Event {
	return schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: o, Code: code, Message: message}}
}

func TestViews(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]*ledger.State{
		"queued":         life(short),
		"everything":     life(long, opened, claimed, asked, pushed),
		"answered":       life(short, opened, claimed, asked, answer),
		"completed":      life(short, opened, claimed, pushed, done, settled(schemas.OutcomeSucceeded, "", "")),
		"failed":         life(short, opened, own, failed, settled(schemas.OutcomeFailed, schemas.TaskFailed, "the agent reported")),
		"to_be_canceled": life(short, opened, own, cancel),
		"canceled":       life(short, opened, own, cancel, settled(schemas.OutcomeCanceled, schemas.Canceled, "canceled")),
		"closed":         life(short, opened, own, closed),
		"expired":        life(short, opened, own, closed, settled(schemas.OutcomeExpired, schemas.DeadlineExceeded, "the task's time is up")),
		"unreadable":     life(`[]`, settled(schemas.OutcomeFailed, schemas.Poison, "the payload is not an order of a task")),
	} {
		s, _ := task.Fold(st.Action, st.Action.Payload, st.Events)
		golden(t, name, tasks.View(st.Action, s, "http://weir.example/git/shop.git"))
	}
	st := life(long, opened, claimed)
	s, err := task.Fold(st.Action, st.Action.Payload, st.Events)
	require.NoError(t, err)
	golden(t, "agent", tasks.Agent(s, "http://weir.example/git/shop.git")) // the six texts of the protocol
}

func repo(name string) schemas.Repo {
	return schemas.Repo{ID: "secret-id", Name: name, Tenant: "acme", Mode: schemas.RepoHosted, DefaultBranch: "main", Created: start, By: "act-1"}
}

func TestWhatBecameOfARepository(t *testing.T) {
	t.Parallel()
	doc, err := json.Marshal(repo("shop"))
	require.NoError(t, err)
	ok := &schemas.Settled{Outcome: schemas.OutcomeSucceeded}
	made, err := tasks.Made(ok, doc)
	require.NoError(t, err)
	require.Equal(t, repo("shop"), made)
	shown := string(tasks.RepoResult(ok, doc))
	require.Contains(t, shown, `"name":"shop"`)
	require.NotContains(t, shown, "secret-id")
	require.NotContains(t, shown, "acme")
	require.Nil(t, tasks.RepoResult(ok, json.RawMessage(`[]`)))
	for _, tt := range []struct {
		end    schemas.Settled
		status int
		code   schemas.Code
	}{
		{schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.Conflict, Message: "the name is taken"}, 409, schemas.Conflict},
		{schemas.Settled{Outcome: schemas.OutcomeDenied, Code: schemas.DenyHost, Message: "not allowed"}, 403, schemas.DenyHost},
		{schemas.Settled{Outcome: schemas.OutcomeCanceled}, 409, schemas.Canceled},
		{schemas.Settled{Outcome: schemas.OutcomeExpired}, 504, schemas.DeadlineExceeded},
		{schemas.Settled{Outcome: schemas.OutcomeUnknown}, 424, schemas.OutcomeUnknownCode},
		{schemas.Settled{Outcome: schemas.OutcomeFailed}, 500, schemas.Internal},
	} {
		_, err := tasks.Made(&tt.end, nil)
		var public *problem.Error
		require.ErrorAs(t, err, &public)
		p := problem.Of(err)
		require.Equal(t, []any{tt.status, tt.code}, []any{p.Status, p.Code})
		require.NotEmpty(t, p.Detail)
		require.Nil(t, tasks.RepoResult(&tt.end, nil))
	}
}
