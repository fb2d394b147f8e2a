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
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/app"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// agentAnswer is an answer of the agent API, which has one form for good and bad.
type agentAnswer struct {
	OK        *bool           `json:"ok"`
	RequestID *string         `json:"request_id"`
	Operation *string         `json:"operation"`
	Data      json.RawMessage `json:"data"`
	Error     *struct {
		Code    string  `json:"code"`
		Message string  `json:"message"`
		Detail  *string `json:"detail"`
	} `json:"error"`
}

func (h answer) agent(t *testing.T) (a agentAnswer) {
	t.Helper()
	require.Equal(t, "application/json", h.header.Get("Content-Type"), cut(h.body))
	require.NoError(t, readStrictly([]byte(h.body), &a), cut(h.body))
	require.True(t, a.OK != nil && a.RequestID != nil && a.Operation != nil, cut(h.body))
	require.Equal(t, *a.OK, h.status == http.StatusOK, cut(h.body))
	require.Equal(t, *a.OK, a.Error == nil, cut(h.body))
	require.Equal(t, *a.OK, a.Data != nil, cut(h.body))
	return a
}

// createRule creates a rule with the token of that placeholder.
func (c *call) createRule(token string, rule map[string]any) {
	secret := c.value(token)
	c.g.operate(c.t, secret, schemas.OpRulesCreate, map[string]any{"rule": rule, "if_match": c.g.by(secret).Etag(c.t)})
}

func (c *call) mock(id string) map[string]any {
	return map[string]any{
		"id": id, "type": schemas.RuleMock, "match": map[string]any{"url_pattern": c.g.upstream.URL + "/v1/" + id}, "action": map[string]any{"status": http.StatusCreated},
	}
}

// ruleSet is all that the row's tenant has.
func (c *call) ruleSet() string {
	token := c.value("operator_token")
	return string(c.g.operate(c.t, token, schemas.OpStatus, nil)) + string(c.g.operate(c.t, token, schemas.OpRulesList, nil))
}

// rules sends a row of rules. A refused write has changed nothing: the set is the same, byte for
// byte.
func (c *call) rules() {
	raw := c.bytes()
	before := c.ruleSet()
	h := c.send(raw)
	c.check(h)
	c.checkEcho(raw, h)
	after := c.ruleSet()
	if h.status != http.StatusOK {
		assert.Equal(c.t, before, after, "the rule set after a refusal")
	}
	if c.Repeat == 2 {
		assert.Equal(c.t, h.body, c.send(raw).body)
		assert.Equal(c.t, after, c.ruleSet(), "the rule set after a repeat")
	}
}

// checkEcho: an answer, also a refusal, has the request's id and operation as they were sent.
// The log does not have an id that is no identifier.
func (c *call) checkEcho(raw string, h answer) {
	if c.place(c.Method, c.Path) != routeAgentAPI {
		return
	}
	a := h.agent(c.t)
	_, body, _ := strings.Cut(raw, "\r\n\r\n")
	var doc map[string]any
	if c.asserts("unread") || json.Unmarshal([]byte(body), &doc) != nil {
		return
	}
	if inner, ok := doc["request"].(map[string]any); ok {
		doc = inner
	}
	if id := member(doc, "request_id"); id != "" && len(id) <= 256 && utf8.ValidString(id) && !strings.ContainsFunc(id, unicode.IsControl) {
		assert.Equal(c.t, id, *a.RequestID, "request_id")
		if strings.ContainsAny(id, "<>*/") {
			assert.NotContains(c.t, c.g.log.String(), id, "an agent's id is no identifier of ours")
		}
	}
	if op := member(doc, "operation"); op != "" && len(op) <= 64 {
		assert.Equal(c.t, op, *a.Operation, "operation")
	}
	if (h.status == http.StatusUnauthorized || h.status == http.StatusForbidden) && a.Error.Detail != nil {
		assert.Contains(c.t, []string{schemas.DetailAuthRequired, schemas.DetailScopeRequired, schemas.DetailAPIDisabled}, *a.Error.Detail)
	}
}

// races is how often two requests are sent at the same time.
const races = 8

// race sends the row's two requests, of which one alone can be the task's end.
func (c *call) race() {
	for range races {
		c.task, c.values = nil, map[string]string{}
		row := *c.inboundRow
		row.Method, row.Path, row.Body = c.With.Method, c.With.Path, encode(c.With.Body)
		raws := []string{c.bytes(), (&call{inboundRow: &row, t: c.t, g: c.g, values: c.values, task: c.task}).bytes()}
		all := make([]answer, len(raws))
		var group sync.WaitGroup
		for i, raw := range raws {
			group.Go(func() { all[i] = c.g.send(c.t, strings.NewReader(raw), c.Method) })
		}
		group.Wait()
		won := -1
		for i, h := range all {
			if h.status == http.StatusOK {
				require.Equal(c.t, -1, won, "both were accepted")
				won = i
			}
			c.check(h)
		}
		require.NotEqual(c.t, -1, won, "none was accepted: %s %s", all[0].body, all[1].body)
		v := c.view(c.g.tasks, c.task.ID)
		assert.Equal(c.t, []schemas.TaskStatus{schemas.TaskStatusCompleted, schemas.TaskStatusFailed}[won], v.Status)
		assert.Equal(c.t, []string{"x", "y"}[won], v.Result)
	}
}

// readStatus: a request that only reads a task, or is refused, leaves its events as they were.
func (c *call) readStatus() answer {
	events := func() string {
		return c.g.must(c.t, c.g.tasks, http.MethodGet, "/v1/actions/"+c.own().ID+"/events", nil, http.StatusOK).body
	}
	c.g.must(c.t, c.own().Token, http.MethodGet, schemas.RouteAgentTask, nil, http.StatusOK) // the first request takes it
	before := events()
	h := c.send(c.bytes())
	assert.Equal(c.t, before, events(), "the task's events")
	return h
}

// checkOneEnd: the log, the stream of the task's states and the evidence have one end each.
func checkOneEnd(c *call, _ answer, _ string) {
	id := c.own().ID
	type ends struct{ settled, reported int }
	count := func(e *ends, what string) {
		switch what {
		case "settled":
			e.settled++
		case string(schemas.TaskReported):
			e.reported++
		}
	}
	var log, states, evidence ends
	poll.Until(c.t, func() bool {
		log = ends{}
		for _, ev := range items[schemas.EventView](c.t, c.g.must(c.t, c.g.tasks, http.MethodGet, "/v1/actions/"+id+"/events", nil, http.StatusOK)) {
			count(&log, string(ev.Type))
			if ev.Task != nil {
				count(&log, string(ev.Task.What))
			}
		}
		return log.settled > 0
	}, "the task does not end")
	for _, u := range items[schemas.TaskUpdate](c.t, c.g.must(c.t, c.g.tasks, http.MethodGet, schemas.RouteTasks+"/"+id+"/events", nil, http.StatusOK)) {
		count(&states, u.What)
	}
	for _, a := range audits[schemas.TaskAudit](c, schemas.EvidenceTask) {
		count(&evidence, a.What)
	}
	assert.Equal(c.t, ends{1, 1}, log, "in the log")
	assert.Equal(c.t, 1, states.settled, "in the stream of states")
	assert.Equal(c.t, ends{1, 1}, evidence, "in the evidence")
}

// audits are the payloads of one kind of evidence about the row's task.
func audits[T any](c *call, kind string) (all []T) {
	h := c.g.must(c.t, c.g.tasks, http.MethodGet, "/v1/evidence?limit=1000&kind="+kind, nil, http.StatusOK)
	var page schemas.Page[schemas.Evidence]
	require.NoError(c.t, json.Unmarshal([]byte(h.body), &page), h.body)
	for _, e := range page.Items {
		if !strings.Contains(string(e.Payload)+e.ActionID, c.own().ID) {
			continue
		}
		var payload T
		require.NoError(c.t, json.Unmarshal(e.Payload, &payload))
		all = append(all, payload)
	}
	return all
}

// checkNoMarkup: what an agent says is kept as it is, for its people, as JSON that no browser
// takes for a page. The terminal gets no escape sequence of it.
func checkNoMarkup(c *call, _ answer, _ string) {
	var said schemas.CompleteRequest
	require.NoError(c.t, json.Unmarshal([]byte(c.text(c.Body)), &said))
	id := c.own().ID
	require.Equal(c.t, said.Description, c.view(c.g.tasks, id).Result, "kept as it is")
	for _, path := range []string{schemas.RouteTasks + "/" + id, schemas.RouteTasks, "/v1/actions/" + id} {
		h := c.g.must(c.t, c.g.tasks, http.MethodGet, path, nil, http.StatusOK)
		assert.Equal(c.t, "application/json", h.header.Get("Content-Type"), path)
		assert.Equal(c.t, "nosniff", h.header.Get("X-Content-Type-Options"), path)
		assert.NotContains(c.t, h.body, "\x1b", path)
	}
	file := filepath.Join(c.t.TempDir(), "token")
	require.NoError(c.t, os.WriteFile(file, []byte(c.g.tasks), 0o600))
	for _, args := range [][]string{{"tasks", "show", id}, {"tasks", "ls"}, {"tasks", "follow", id}, {"tail", "actions", id}} {
		var out, errs bytes.Buffer
		code := app.Main(c.t.Context(), append(args, "--server", c.g.url, "--token-file", file), []string{"HOME=" + c.t.TempDir()},
			app.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		require.Zero(c.t, code, "%v: %s", args, errs.String())
		assert.NotContains(c.t, out.String()+errs.String(), "\x1b", "%v", args)
		if args[1] == "show" {
			assert.Contains(c.t, out.String(), "<img src=x", "people see what was said")
		}
	}
}

// chat sends a row about completions: a refused one does not reach the provider, and the log
// does not have the provider's key.
func (c *call) chat() {
	raw := c.bytes()
	before := c.g.upstream.count(modelPath)
	h := c.send(raw)
	c.check(h)
	if h.status != http.StatusOK {
		assert.Equal(c.t, before, c.g.upstream.count(modelPath), "a refused completion reached the provider")
	}
}

// checkFraming: every event is one of the protocol, the text is whole, and there is one end,
// which is last.
func checkFraming(c *call, h answer, _ string) {
	require.Equal(c.t, "text/event-stream", h.header.Get("Content-Type"))
	require.NotContains(c.t, h.body, "\r")
	var text strings.Builder
	events := parseEvents(h.body)
	require.NotEmpty(c.t, events)
	for i, e := range events {
		require.Empty(c.t, e.name)
		if i == len(events)-1 {
			require.Equal(c.t, "[DONE]", e.data)
			break
		}
		var chunk struct {
			Object  string `json:"object"`
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		require.NoError(c.t, json.Unmarshal([]byte(e.data), &chunk), e.data)
		require.Equal(c.t, "chat.completion.chunk", chunk.Object)
		for _, choice := range chunk.Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
	require.Equal(c.t, forged, text.String())
}
