//go:build e2e

package canary_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// ownRepo is the owner's repository. A name is an identifier by contract.
const ownRepo = "owned"

func (h *house) ownRepository() {
	h.t.Helper()
	status, text := h.owner.ask(http.MethodPost, schemas.RouteRepos, h.jsonOf(object{"name": ownRepo}))
	require.Equal(h.t, http.StatusCreated, status, text)
}

// errand is a task of the owner's, and the agent that has its token.
type errand struct {
	*person
	task schemas.TaskView
}

var taskTokens = regexp.MustCompile(`weirt1_[a-z2-7]+_[A-Za-z0-9_-]{43}`)

// shown is ask where the answer may show a task's token, this once: it is a secret
// from here on.
func (p *person) shown(method, path, body string) (status int, text string) {
	p.h.t.Helper()
	resp, text := p.send(method, path, body)
	for _, token := range taskTokens.FindAllString(text+resp.Header.Get(schemas.HeaderTaskToken), -1) {
		p.h.g.known("a task's token", secretOf(token))
	}
	fmt.Fprintf(&p.seen, "%s\n%s\n", resp.Status, taskTokens.ReplaceAllString(text, ""))
	return resp.StatusCode, text
}

// file files a task with a canary in each of its texts. Nobody may lease it unless more says so.
func (h *house) file(class string, more object) errand {
	h.t.Helper()
	doc := object{
		"repo": ownRepo, "pool": schemas.PoolNone, "description": h.g.plant(class + " description"), "model": h.g.plant(class + " model"),
		"metadata": object{h.g.plant(class + " metadata name"): h.g.plant(class + " metadata")},
	}
	maps.Copy(doc, more)
	status, text := h.owner.shown(http.MethodPost, schemas.RouteTasks, h.jsonOf(doc))
	require.Equal(h.t, http.StatusCreated, status, text)
	var made schemas.NewTask
	require.NoError(h.t, json.Unmarshal([]byte(text), &made))
	e := errand{person: &person{h: h, token: made.Token}, task: made.TaskView}
	require.Eventually(h.t, func() bool {
		e.task = h.task(made.ID)
		return e.task.Base != ""
	}, patience, tick)
	return e
}

// task is one as its owner sees it.
func (h *house) task(id string) (v schemas.TaskView) {
	h.t.Helper()
	status, text := h.read(schemas.RouteTasks + "/" + id)
	require.Equal(h.t, http.StatusOK, status, text)
	require.NoError(h.t, json.Unmarshal([]byte(text), &v))
	return v
}

// asks has the agent ask, and returns once the owner sees it; got waits for the answer.
func (e errand) asks(text string) (got func() string) {
	h := e.h
	before := len(h.task(e.task.ID).Inquiries)
	answer := make(chan string, 1)
	go func() {
		_, text := e.ask(http.MethodPost, schemas.RouteAgentInquiry, h.jsonOf(object{"inquiry": text}))
		answer <- text
	}()
	require.Eventually(h.t, func() bool { return len(h.task(e.task.ID).Inquiries) > before }, patience, tick)
	return func() string { return <-answer }
}

// asking is a task whose agent waits for an answer.
func (h *house) asking() string {
	h.t.Helper()
	e := h.file("asking", nil)
	e.asks(h.g.plant("question of the asking")) // it ends with the first answer, or with its patience
	return e.task.ID
}

// closed is the end of an agent's part: all that it saw is its owner's.
func (e errand) closed() { fmt.Fprintf(&e.h.owner.seen, "%s\n", e.seen.String()) }

// agentForms are the bodies that agents send, and where.
func agentForms() map[string]string {
	return map[string]string{"CompleteRequest": schemas.RouteAgentComplete, "FailRequest": schemas.RouteAgentFail, "InquiryRequest": schemas.RouteAgentInquiry}
}

// agentFormPlaces send a body of an agent's with a canary in each of its places, each
// as the holder of a task.
func (h *house) agentFormPlaces(form, route string, places []place) (refusals int) {
	base := object{"description": "d"}
	if form == "InquiryRequest" {
		base = object{"inquiry": "q"}
	}
	for _, p := range places {
		e := h.file(form+" "+p.String(), nil)
		text := h.g.plant(form + " " + p.String())
		if p.String() == "inquiry" {
			got := e.asks(text)
			h.owner.ask(http.MethodPost, schemas.RouteTasks+"/"+e.task.ID+"/answer", h.jsonOf(object{"answer": h.g.plant("answer to a place")}))
			got()
			e.closed()
			continue
		}
		status, body := e.ask(http.MethodPost, route, h.jsonOf(p.put(base, text)))
		if p.bounded {
			refusals++
			assert.GreaterOrEqual(h.t, status, http.StatusBadRequest, "%s %s: %s", form, p, body)
		} else {
			assert.Equal(h.t, http.StatusOK, status, "%s %s: %s", form, p, body)
		}
		e.closed()
	}
	return refusals
}

// taskEnds are tasks with every end that there is.
func (h *house) taskEnds() {
	post := http.MethodPost
	for end, finish := range map[string]func(e errand){
		"completed": func(e errand) {
			status, text := e.ask(post, schemas.RouteAgentComplete, h.jsonOf(object{"description": h.g.plant("task result")}))
			assert.Equal(h.t, http.StatusOK, status, text)
			e.ask(post, schemas.RouteAgentComplete, h.jsonOf(object{"description": h.g.plant("task result that comes too late")}))
		},
		"failed": func(e errand) {
			status, text := e.ask(post, schemas.RouteAPI+schemas.RouteAgentFail, h.jsonOf(object{"reason": schemas.ReasonTaskIssues, "description": h.g.plant("task failure")}))
			assert.Equal(h.t, http.StatusOK, status, text)
		},
		"canceled": func(e errand) { h.owner.ask(post, schemas.RouteTasks+"/"+e.task.ID+"/cancel", "") },
		"expired":  func(errand) {},
	} {
		more := object{"request_id": "task-" + end}
		if end == "expired" {
			more["deadline"] = "20s"
		}
		e := h.file("task "+end, more)
		status, text := e.ask(http.MethodGet, schemas.RouteAgentTask, h.g.plant("body of a GET"))
		assert.Equal(h.t, http.StatusOK, status, text)
		got := e.asks(h.g.plant("inquiry of the " + end))
		h.owner.ask(http.MethodGet, schemas.RouteTasks+"/"+e.task.ID, "")
		status, text = h.owner.ask(post, schemas.RouteTasks+"/"+e.task.ID+"/answer", h.jsonOf(object{"answer": h.g.plant("answer of the " + end)}))
		assert.Equal(h.t, http.StatusOK, status, text)
		got()
		e.push(h.commit("pushed by the "+end, e.task.Base), http.StatusOK)
		finish(e)
		h.settled(e.task.ID)
		e.push(h.commit("pushed too late by the "+end, e.task.Base), http.StatusUnauthorized)
		e.ask(http.MethodGet, schemas.RouteAgentTask, "")
		for _, path := range []string{"", "/events"} {
			h.owner.ask(http.MethodGet, schemas.RouteTasks+"/"+e.task.ID+path, "", "Accept", "application/json")
			h.owner.ask(http.MethodGet, "/v1/actions/"+e.task.ID+path, "", "Accept", "application/json")
		}
		h.owner.ask(http.MethodGet, schemas.RouteTasks+"/"+e.task.ID+"/events", "", "Accept", "text/event-stream")
		e.closed()
	}
	h.owner.ask(http.MethodGet, schemas.RouteTasks, "")
	h.owner.shown(post, schemas.RouteTasks, h.jsonOf(object{"request_id": "task-failed", "repo": ownRepo, "description": h.g.plant("another task of the same id")}))
}

// pooled is a task that goes from one of a pool's agents to another.
func (h *house) pooled() {
	e := h.file("pooled", object{"pool": "grown"})
	lease := func() errand {
		status, text := h.owner.shown(http.MethodPost, schemas.RouteTaskLease, `{"pool":"grown","wait_ms":10000}`)
		require.Equal(h.t, http.StatusOK, status, text)
		var got schemas.LeasedTask
		require.NoError(h.t, json.Unmarshal([]byte(text), &got))
		return errand{person: &person{h: h, token: got.Token}, task: e.task}
	}
	first := lease()
	first.push(h.commit("pushed by the first of a pool", e.task.Base), http.StatusOK)
	status, text := first.ask(http.MethodPost, schemas.RouteTaskRelease, "")
	assert.Equal(h.t, http.StatusNoContent, status, text)
	first.ask(http.MethodPost, schemas.RouteAgentComplete, h.jsonOf(object{"description": h.g.plant("result of one that was released")}))
	second := lease()
	status, text = second.ask(http.MethodPost, schemas.RouteAgentComplete, h.jsonOf(object{"description": h.g.plant("result of a pool")}))
	assert.Equal(h.t, http.StatusOK, status, text)
	h.settled(e.task.ID)
	h.owner.ask(http.MethodGet, schemas.RouteTasks+"/"+e.task.ID, "")
	first.closed()
	second.closed()
}

// taskDoor is what agents and people are refused.
func (h *house) taskDoor() {
	e := h.file("at the door", nil)
	for class, body := range map[string]string{
		"not json": `{"description":"%s`, "twice": `{"description":"a","%s":1,"%s":2}`, "not utf8": "{\"description\":\"\xff%s\"}", "trailing": `{} "%s"`,
		"list": `["%s"]`, "text": `"%s"`, "case": `{"Description":"%s"}`, "object": `{"description":{"%s":1}}`, "surrogate": `{"description":"\ud800%s"}`,
	} {
		body = strings.ReplaceAll(body, "%s", h.g.plant("agent's body "+class))
		for _, route := range []string{schemas.RouteAgentComplete, schemas.RouteAgentFail, schemas.RouteAgentInquiry} {
			status, text := e.ask(http.MethodPost, route, body)
			assert.Equal(h.t, http.StatusBadRequest, status, text)
		}
		for _, route := range []string{schemas.RouteTasks, schemas.RouteRepos, schemas.RouteTaskLease, schemas.RouteTasks + "/" + e.task.ID + "/answer"} {
			status, text := h.owner.ask(http.MethodPost, route, body)
			assert.GreaterOrEqual(h.t, status, http.StatusBadRequest, text)
		}
	}
	long := strings.Repeat(h.g.plant("too long"), 12000)
	for _, member := range []string{"description", "inquiry"} {
		for _, route := range []string{schemas.RouteAgentComplete, schemas.RouteAgentFail, schemas.RouteAgentInquiry} {
			e.ask(http.MethodPost, route, h.jsonOf(object{member: long}))
		}
	}
	for _, more := range []object{
		{"branch": "a b " + h.g.plant("branch that is none")},
		{"base_ref": h.g.plant("base that is none")},
		{"repo": strings.ToLower(h.g.plant("repository that is none"))},
		{"deadline": h.g.plant("deadline that is none")},
		{"budget": h.g.plant("budget that is none")},
		{"metadata": h.g.plant("metadata that is none")},
		{"model": "\x1b" + h.g.plant("model with an escape")},
		{"metadata": object{h.g.plant("metadata that is no text"): 1}},
	} {
		more["description"] = h.g.plant("task that is refused")
		if more["repo"] == nil {
			more["repo"] = ownRepo
		}
		status, text := h.owner.shown(http.MethodPost, schemas.RouteTasks, h.jsonOf(more))
		assert.GreaterOrEqual(h.t, status, http.StatusBadRequest, text)
	}
	for _, path := range []string{schemas.RouteAgentTask, schemas.RouteAPI + "/" + schemas.RouteAgentTask} {
		e.ask(http.MethodGet, path+"?"+h.g.plant("agent's query")+"=1", "", "X-Agent", h.g.plant("agent's header"), "User-Agent", h.g.plant("agent's name"))
		e.ask(http.MethodGet, path+"/"+h.g.plant("agent's path"), "")
		h.nobody.ask(http.MethodGet, path, "", "Authorization", "Bearer weirt1_"+h.g.plant("form of a task's token"))
	}
	e.ask(http.MethodPost, schemas.RouteAgentInquiry, h.jsonOf(object{"inquiry": h.g.plant("inquiry with a bad key")}), "Idempotency-Key", h.g.plant("key of an inquiry")+"\u00e9")
	h.owner.ask(http.MethodPost, schemas.RouteAgentComplete, h.jsonOf(object{"description": h.g.plant("result of nobody's task")}))
	e.closed()
}

// taskStrangers ask for all that is the owner's, by its right name.
func (h *house) taskStrangers() {
	e := h.file("looked for", nil)
	e.push(h.commit("looked for", e.task.Base), http.StatusOK)
	for _, p := range []*person{h.stranger, h.nobody} {
		for _, id := range []string{e.task.ID, "task-completed", "task-failed"} {
			for _, path := range []string{"", "/events"} {
				p.ask(http.MethodGet, schemas.RouteTasks+"/"+id+path, "", "Accept", "application/json")
				p.ask(http.MethodGet, "/v1/actions/"+id+path, "", "Accept", "application/json")
			}
			p.ask(http.MethodPost, schemas.RouteTasks+"/"+id+"/cancel", "")
			p.ask(http.MethodPost, schemas.RouteTasks+"/"+id+"/token", "")
			p.ask(http.MethodPost, schemas.RouteTasks+"/"+id+"/answer", `{"answer":"mine"}`)
			p.ask(http.MethodGet, "/v1/evidence?action_id="+id, "", "Accept", "application/json")
		}
		for _, path := range []string{
			schemas.RouteTasks, schemas.RouteRepos, schemas.RouteRepos + "/" + ownRepo, schemas.RouteAgentTask,
			"/git/" + ownRepo + "/info/refs?service=git-upload-pack", "/git/" + ownRepo + ".git/info/refs?service=git-receive-pack",
		} {
			p.ask(http.MethodGet, path, "")
		}
		p.ask(http.MethodPost, "/git/"+ownRepo+"/git-upload-pack", "0014command=ls-refs\n0000", "Content-Type", uploadType, "Git-Protocol", "version=2")
		p.ask(http.MethodPost, schemas.RouteTasks, h.jsonOf(object{"request_id": "task-completed", "repo": ownRepo, "description": "mine"}))
		p.ask(http.MethodPost, schemas.RouteRepos, h.jsonOf(object{"name": "proxied", "upstream_url": "http://git.example/x.git"}))
	}
	e.closed()
}

// tasksReached proves that what was not found was there to be found.
func (h *house) tasksReached() {
	t, mine := h.t, h.owner.seen.String()
	for _, end := range []string{"completed", "failed", "canceled", "expired"} {
		for _, class := range []string{"task " + end + " description", "task " + end + " model", "task " + end + " metadata name", "task " + end + " metadata", "inquiry of the " + end, "answer of the " + end} {
			assert.Contains(t, mine, h.g.text(t, class), "the owner did not get the %s", class)
		}
		h.kept("pushed by the " + end)
	}
	for _, class := range []string{
		"task result", "task failure", "result of a pool", "CompleteRequest description", "FailRequest description", "InquiryRequest inquiry",
		"said by the git server", "why the git server refuses", "git's word on a filter",
	} {
		assert.Contains(t, mine, h.g.text(t, class), "the owner did not get the %s", class)
	}
	for _, class := range []string{"looked for", "good push", "pushed by the first of a pool", "imported"} {
		h.kept(class)
	}
	h.git.has(t, h.g, "pushed upstream")
	told := string(h.updates())
	for _, id := range []string{"task-completed", "task-failed", "task-canceled", "task-expired"} {
		assert.Regexp(t, `"task_id":"`+id+`"[^\n]*"what":"settled"`, told, "observers heard of it")
	}
}
