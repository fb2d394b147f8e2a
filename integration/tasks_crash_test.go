//go:build e2e

package integration_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"

	"weir/internal/weirtest/program"
	"weir/schemas"
)

// TestTaskOutlivesKills: the whole story of a task, and Weir is killed between each
// two of its steps. It ends once, and nothing of it is lost or told twice.
func TestTaskOutlivesKills(t *testing.T) {
	t.Parallel()
	for _, durability := range []string{"disk", "process"} {
		t.Run(durability, func(t *testing.T) {
			t.Parallel()
			s := &taskStory{dir: t.TempDir(), durability: durability}
			for _, step := range []func(*testing.T){
				s.repo, s.file, s.fetch, s.clone, s.push, s.ask, s.answer, s.hear, s.pushAgain, s.complete, s.completeAgain, s.end,
			} {
				s.restart(t)
				step(t)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// taskStory is a task's story, a step at a time.
type taskStory struct {
	dir, durability string
	w               *weir
	task            schemas.NewTask
	git             *clientGit
	heads           []string
}

// restart kills the Weir that there is and starts another on what it left.
func (s *taskStory) restart(t *testing.T) {
	t.Helper()
	if s.w != nil {
		s.w.Kill()
	}
	w, err := tryServe(program.How{Environ: []string{"WEIR_LOG_DURABILITY=" + s.durability}}, s.dir)
	require.NoError(t, err)
	t.Cleanup(w.Kill)
	s.w = w
}

func (s *taskStory) repo(t *testing.T) {
	t.Helper()
	s.w.makeRepo(t, "shop")
}

func (s *taskStory) file(t *testing.T) {
	t.Helper()
	s.task = s.w.makeTask(t, `,"request_id":"story-1"`)
}

func (s *taskStory) fetch(t *testing.T) {
	t.Helper()
	status, text := s.w.asAgent(t, s.task.Token, http.MethodGet, schemas.RouteAgentTask, "")
	require.Equal(t, http.StatusOK, status, text)
}

func (s *taskStory) clone(t *testing.T) {
	t.Helper()
	s.git = newClientGit(t, s.task.Token)
	s.git.do(t, ".", "clone", "-q", "-b", s.task.Branch, s.w.gitURL("shop"), "repo")
}

func (s *taskStory) push(t *testing.T) {
	t.Helper()
	s.heads = append(s.heads, s.git.commit(t, strings.Repeat("a", len(s.heads)+1), []byte("a")))
	s.git.do(t, "repo", "push", "-q", s.w.gitURL("shop"), "HEAD:"+s.task.Branch)
}

// ask has the agent ask, and leaves while nobody has answered.
func (s *taskStory) ask(t *testing.T) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _, _ = s.w.try(ctx, http.MethodPost, schemas.RouteAgentInquiry, `{"inquiry":"Which colour?"}`, "Authorization", "Bearer "+s.task.Token)
	}()
	s.until(t, "asked")
	leave()
	<-asked
}

// until waits until something has happened to the task.
func (s *taskStory) until(t *testing.T, what string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.w.URL+schemas.RouteTasks+"/"+s.task.ID+"/events", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	for ev, err := range sse.Read(resp.Body, nil) {
		require.NoError(t, err)
		if strings.Contains(ev.Data, `"what":"`+what+`"`) {
			return
		}
	}
	t.Fatalf("the task ended, and it was not %s", what)
}

func (s *taskStory) answer(t *testing.T) {
	t.Helper()
	resp, text := s.w.request(t, http.MethodPost, schemas.RouteTasks+"/"+s.task.ID+"/answer", `{"answer":"Red"}`)
	require.Equal(t, http.StatusOK, resp.StatusCode, text)
}

// hear has the agent ask again what it had asked when it was cut off.
func (s *taskStory) hear(t *testing.T) {
	t.Helper()
	status, text := s.w.asAgent(t, s.task.Token, http.MethodPost, schemas.RouteAgentInquiry, `{"inquiry":"Which colour?"}`)
	require.Equal(t, http.StatusOK, status, text)
	assert.Equal(t, `"Red"`, strings.TrimSpace(text))
}

func (s *taskStory) pushAgain(t *testing.T) {
	t.Helper()
	s.push(t)
}

func (s *taskStory) complete(t *testing.T) {
	t.Helper()
	status, text := s.w.asAgent(t, s.task.Token, http.MethodPost, schemas.RouteAgentComplete, `{"description":"The shed is red"}`)
	require.Equal(t, http.StatusOK, status, text)
}

// completeAgain is what an agent does that did not hear the answer; another word
// comes too late.
func (s *taskStory) completeAgain(t *testing.T) {
	t.Helper()
	s.complete(t)
	status, text := s.w.asAgent(t, s.task.Token, http.MethodPost, schemas.RouteAgentFail, `{"description":"no"}`)
	require.Equal(t, http.StatusBadRequest, status, text)
	assert.Contains(t, text, "Task is not running")
}

func (s *taskStory) end(t *testing.T) {
	t.Helper()
	s.until(t, "settled")
	v := s.w.task(t, s.task.ID)
	assert.Equal(t, schemas.TaskStatusCompleted, v.Status)
	assert.Equal(t, "The shed is red", v.Result)
	assert.Equal(t, s.heads[len(s.heads)-1], v.Head)
	assert.Equal(t, 2, v.Pushes)
	require.Len(t, v.Inquiries, 1)
	status, text := s.w.asAgent(t, s.task.Token, http.MethodGet, schemas.RouteAgentTask, "")
	assert.Equal(t, http.StatusOK, status, text)
	assert.Equal(t, schemas.TaskStatusCompleted, decode[schemas.AgentTask](t, text).Status)
	status, _ = s.w.asAgent(t, s.task.Token, http.MethodPost, schemas.RouteAgentInquiry, `{"inquiry":"?"}`)
	assert.Equal(t, http.StatusUnauthorized, status)

	events, err := logged(t.Context(), s.w, s.task.ID)
	require.NoError(t, err)
	count := map[string]int{}
	for _, e := range events {
		count[string(e.Type)]++
		if e.Task != nil {
			count[string(e.Task.What)]++
		}
	}
	for _, once := range []string{"settled", "opened", "claimed", "asked", "answered", "reported"} {
		assert.Equal(t, 1, count[once], "%s: %v", once, count)
	}
	assert.Equal(t, 2, count["pushed"], count)

	audits := evidenceOf[schemas.TaskAudit](t, s.w, schemas.EvidenceTask, "&action_id="+s.task.ID)
	told := map[string]int{}
	for _, a := range audits {
		told[a.What]++
	}
	assert.Equal(t, map[string]int{"accepted": 1, "opened": 1, "claimed": 1, "asked": 1, "answered": 1, "pushed": 2, "reported": 1, "settled": 1}, told)
	for _, a := range evidenceOf[schemas.PushAudit](t, s.w, schemas.EvidencePush, "") {
		assert.Equal(t, schemas.AuditOK, a.Result)
		assert.Equal(t, s.task.ID, a.TaskID)
	}
}
