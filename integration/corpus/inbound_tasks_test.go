//go:build e2e

package corpus_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/app"
	"weir/schemas"
)

// taskSurface are the rows of agents at their tasks.
const taskSurface = "agent-task"

// What rows of tasks assert.
const (
	assertOneEnd    = "one terminal event"
	assertNoMarkup  = "UI/CLI escapes; not in logs"
	assertUnchanged = "status unchanged"
	assertSays      = "says=" // the answer has this text
	assertView      = "view=" // the task, as its people see it, has this text
)

// races is how often requests are sent that come at the same time.
const races = 8

// task sends a row about tasks.
func (r *inboundRow) task(t *testing.T, g *gateway) {
	t.Helper()
	if r.With != nil {
		for range races {
			r.own = nil
			r.race(t, g)
		}
		return
	}
	before := ""
	if strings.Contains(r.Assert, assertUnchanged) {
		g.set("of the row", r.errand(t, g).Token)
		require.Equal(t, http.StatusOK, g.ask(t, "of the row", http.MethodGet, schemas.RouteAgentTask, nil).status) // the first request takes it
		before = g.taskEvents(t, r.own.ID)
	}
	raw := r.bytes(t, g)
	began := grown()
	h := g.send(t, raw)
	if r.Repeat == 2 {
		again := g.send(t, raw)
		assert.Equal(t, h.status, again.status, again.body)
		assert.Equal(t, h.header.Get("Weir-Action-Id"), again.header.Get("Weir-Action-Id"))
		assert.Equal(t, h.body, again.body)
	}
	r.judge(t, g, h, began)
	if before != "" {
		assert.Equal(t, before, g.taskEvents(t, r.own.ID), "what happened to the task")
	}
	r.told(t, g, h)
	r.hushed(t, g)
}

// race sends two requests that cannot both be the last word.
func (r *inboundRow) race(t *testing.T, g *gateway) {
	t.Helper()
	other := *r
	other.Method, other.Path, other.Body = r.With.Method, r.With.Path, mustEncode(t, r.With.Body)
	raws := []string{r.bytes(t, g), ""}
	other.own = r.own
	raws[1] = other.bytes(t, g)
	all := make([]heard, len(raws))
	began := grown()
	var group sync.WaitGroup
	for i, raw := range raws {
		group.Go(func() { all[i] = g.send(t, raw) })
	}
	group.Wait()
	won := -1
	for i, h := range all {
		if h.status == http.StatusOK {
			require.Equal(t, -1, won, "both have won")
			won = i
		}
		r.judge(t, g, h, began)
	}
	require.NotEqual(t, -1, won, "nobody has won: %s %s", all[0].body, all[1].body)
	v := g.view(t, "tasks_token", r.own.ID)
	assert.Equal(t, []schemas.TaskStatus{schemas.TaskStatusCompleted, schemas.TaskStatusFailed}[won], v.Status)
	assert.Equal(t, []string{"x", "y"}[won], v.Result)
}

// told checks what a row says of its answer, and of the task behind it.
func (r *inboundRow) told(t *testing.T, g *gateway, h heard) {
	t.Helper()
	for part := range strings.SplitSeq(r.Assert, "; ") {
		if text, ok := strings.CutPrefix(part, assertSays); ok {
			assert.Contains(t, h.body, g.fill(t, r, text))
		}
		if text, ok := strings.CutPrefix(part, assertView); ok {
			view := g.ask(t, "tasks_token", http.MethodGet, schemas.RouteTasks+"/"+r.errand(t, g).ID, nil)
			assert.Contains(t, view.body, g.fill(t, r, text))
		}
	}
}

// hushed: neither the log nor an answer to anybody has the token of the row's task.
func (r *inboundRow) hushed(t *testing.T, g *gateway) {
	t.Helper()
	if r.own != nil {
		token := r.own.Token
		assert.NotContains(t, g.log.String(), token[len(token)-43:], "the secret of a token")
	}
}

// taskAssertions are what only rows of tasks say.
func (r *inboundRow) taskAssertions(t *testing.T, g *gateway, h heard) {
	t.Helper()
	if r.Surface != taskSurface {
		return
	}
	if strings.Contains(r.Assert, assertOneEnd) {
		r.oneEnd(t, g)
	}
	if strings.Contains(r.Assert, assertNoMarkup) {
		r.noMarkup(t, g)
	}
	if strings.Contains(r.Assert, assertUnchanged) {
		var told schemas.AgentTask
		require.NoError(t, json.Unmarshal([]byte(h.body), &told))
		assert.Equal(t, schemas.TaskStatusRunning, told.Status)
		assert.Equal(t, schemas.TaskStatusRunning, g.view(t, "tasks_token", r.own.ID).Status)
	}
}

// oneEnd: the log, the stream of the task's states and the evidence have one end each.
func (r *inboundRow) oneEnd(t *testing.T, g *gateway) {
	t.Helper()
	id := r.errand(t, g).ID
	var settled, reported int
	require.Eventually(t, func() bool {
		settled, reported = 0, 0
		for _, ev := range eventsOf[schemas.EventView](t, g, "/v1/actions/"+id+"/events") {
			if ev.Type == schemas.EventSettled {
				settled++
			}
			if ev.Task != nil && ev.Task.What == schemas.TaskReported {
				reported++
			}
		}
		return settled > 0
	}, 30*time.Second, 20*time.Millisecond)
	assert.Equal(t, 1, settled, "ends in the log")
	assert.Equal(t, 1, reported, "reports in the log")
	final := 0
	for _, u := range eventsOf[schemas.TaskUpdate](t, g, schemas.RouteTasks+"/"+id+"/events") {
		if u.What == "settled" {
			final++
		}
	}
	assert.Equal(t, 1, final, "ends in the stream of states")
	words := map[string]int{}
	for _, a := range evidence[schemas.TaskAudit](t, g, "action_id="+id, schemas.EvidenceTask) {
		words[a.What]++
	}
	assert.Equal(t, 1, words["settled"], "ends in the evidence: %v", words)
	assert.Equal(t, 1, words["reported"], "reports in the evidence: %v", words)
}

// taskEvents are the events of a task's log, as text.
func (g *gateway) taskEvents(t *testing.T, id string) string {
	t.Helper()
	return string(mustEncode(t, eventsOf[schemas.EventView](t, g, "/v1/actions/"+id+"/events")))
}

func eventsOf[T any](t *testing.T, g *gateway, path string) []T {
	t.Helper()
	h := g.ask(t, "tasks_token", http.MethodGet, path, nil, "Accept", "application/json")
	require.Equal(t, http.StatusOK, h.status, h.body)
	var page schemas.Page[T]
	require.NoError(t, json.Unmarshal([]byte(h.body), &page), h.body)
	return page.Items
}

// evidence are the payloads of a kind of records.
func evidence[T any](t *testing.T, g *gateway, query, kind string) []T {
	t.Helper()
	h := g.ask(t, "tasks_token", http.MethodGet, "/v1/evidence?limit=1000&kind="+kind+"&"+query, nil, "Accept", "application/json")
	require.Equal(t, http.StatusOK, h.status, h.body)
	var page schemas.Page[schemas.Evidence]
	require.NoError(t, json.Unmarshal([]byte(h.body), &page), h.body)
	all := make([]T, len(page.Items))
	for i, e := range page.Items {
		require.NoError(t, json.Unmarshal(e.Payload, &all[i]))
	}
	return all
}

// noMarkup: what an agent says is kept as it is, for its people, as JSON that no
// browser takes for a page. The terminal gets none of its escapes, the log none of it.
func (r *inboundRow) noMarkup(t *testing.T, g *gateway) {
	t.Helper()
	var said schemas.CompleteRequest
	require.NoError(t, json.Unmarshal([]byte(r.text(t, r.Body)), &said))
	id := r.errand(t, g).ID
	require.Equal(t, said.Description, g.view(t, "tasks_token", id).Result, "kept as it is")
	for _, path := range []string{schemas.RouteTasks + "/" + id, schemas.RouteTasks, "/v1/actions/" + id} {
		h := g.ask(t, "tasks_token", http.MethodGet, path, nil)
		require.Equal(t, http.StatusOK, h.status)
		assert.Equal(t, "application/json", h.header.Get("Content-Type"), path)
		assert.Equal(t, "nosniff", h.header.Get("X-Content-Type-Options"), path)
		assert.NotContains(t, h.body, "\x1b", path)
	}
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(g.get("tasks_token")), 0o600))
	for _, args := range [][]string{{"tasks", "show", id}, {"tasks", "ls"}, {"tasks", "follow", id}, {"tail", "actions", id}} {
		var out, errs bytes.Buffer
		code := app.Main(t.Context(), append(args, "--server", "http://"+g.addr, "--token-file", file), []string{"HOME=" + t.TempDir()},
			app.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		require.Zero(t, code, "%v: %s", args, errs.String())
		assert.NotContains(t, out.String()+errs.String(), "\x1b", "%v", args)
		if args[1] == "show" {
			assert.Contains(t, out.String(), "<img src=x", "people see what was said")
		}
	}
	for _, part := range []string{"onerror", "javascript:", "\x1b", `\u001b`} {
		assert.NotContains(t, g.log.String(), part)
	}
}
