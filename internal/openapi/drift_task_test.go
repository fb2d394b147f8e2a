package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// TestTasksFitTheirSchemas: what the routes of tasks and repositories write.
func TestTasksFitTheirSchemas(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	answer := "yes"
	for _, status := range schemas.TaskStatuses() {
		view := schemas.TaskView{ID: "t", Status: status, Repo: "r", Pool: schemas.PoolDefault, Created: now, Deadline: now}
		if status.Final() {
			view.Inquiries = []schemas.TaskInquiryView{{N: 1, Question: "q", Asked: now}, {N: 2, Question: "q", Asked: now, Answer: &answer, Answered: now, By: "b"}}
			view.Budget, view.Metadata, view.Code = &schemas.TaskBudget{USD: 0.5}, map[string]string{"a": "b"}, schemas.TaskFailed
		}
		for file, v := range map[string]any{
			"task.json": view, "task.page.json": schemas.TaskPage{Items: []schemas.TaskView{view}},
			"task.new.json": schemas.NewTask{TaskView: view, Token: "t"}, "agent.task.json": schemas.AgentTask{Status: status},
			"task.lease.json": schemas.LeasedTask{Task: schemas.AgentTask{Status: status}, Deadline: now},
			"task.audit.json": schemas.TaskAudit{TaskUpdate: schemas.TaskUpdate{Status: status, Time: now}},
		} {
			fits(t, file, v)
		}
	}
	for _, mode := range []schemas.RepoMode{schemas.RepoHosted, schemas.RepoProxy} {
		fits(t, "repo.page.json", schemas.Page[schemas.Repo]{Items: []schemas.Repo{{Name: "r", Mode: mode, Created: now}}})
		fits(t, "repo.audit.json", schemas.RepoAudit{Repo: "r", Mode: mode, Result: schemas.AuditOK})
		fits(t, "push.audit.json", schemas.PushAudit{Repo: "r", Mode: mode, Result: string(schemas.GitRefDenied)})
	}
	require.NotEmpty(t, compiled(t, "task.json").Validate(json.RawMessage(`{"id":"t","status":"running"}`)))
}

func fits(t *testing.T, file string, v any) {
	t.Helper()
	doc, err := json.Marshal(v)
	require.NoError(t, err)
	require.Empty(t, compiled(t, file).Validate(doc), "%s: %s", file, doc)
}

// TestEventsOfTasksFitTheirSchemas: as their owners see them, and as they are told.
func TestEventsOfTasksFitTheirSchemas(t *testing.T) {
	t.Parallel()
	event, update := compiled(t, "event.json"), compiled(t, "task.update.json")
	for _, what := range []schemas.TaskWhat{
		schemas.TaskOpened, schemas.TaskClaimed, schemas.TaskReleased, schemas.TaskLost, schemas.TaskReissued,
		schemas.TaskAsked, schemas.TaskAnswered, schemas.TaskReported, schemas.TaskPushed,
	} {
		for _, kind := range []schemas.EventType{schemas.EventSignal, schemas.EventStatus} {
			doc, err := json.Marshal(schemas.EventView{Type: kind, Task: &schemas.EventViewTask{What: what, Status: schemas.TaskStatusRunning}})
			require.NoError(t, err)
			require.Empty(t, event.Validate(doc), "%s", doc)
			u, ok := task.Update("t", schemas.Event{Type: kind, N: 2, Task: &schemas.TaskEvent{What: what, Status: schemas.TaskStatusRunning}})
			if !ok {
				continue
			}
			doc, err = json.Marshal(u)
			require.NoError(t, err)
			require.Empty(t, update.Validate(doc), "%s", doc)
		}
	}
}

// TestEveryCodeIsAProblem that the schema knows, and that has a status which says
// whose fault it is.
func TestEveryCodeIsAProblem(t *testing.T) {
	t.Parallel()
	s := compiled(t, "problem.json")
	for _, code := range append(schemas.DoorCodes(), schemas.SettleCodes()...) {
		w := httptest.NewRecorder()
		problem.Write(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody), fault.New(code, "m"))
		require.Empty(t, s.Validate(w.Body.Bytes()), "%s", w.Body)
	}
	for code, status := range map[schemas.Code]int{
		schemas.GitRefDenied: 403, schemas.GitRejected: 422, schemas.GitIncomplete: 400, schemas.GitPackTooLarge: 413, schemas.GitProtocolRequired: 400,
		schemas.TaskNotRunning: 400,
	} {
		require.Equal(t, status, problem.Status(code), code)
		require.False(t, problem.Retryable(code), code)
	}
}
