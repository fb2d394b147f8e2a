//go:build e2e

package canary_test

import (
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"

	"weir/schemas"
)

// runDoor is what is refused before it is a run, and a run that there is already.
func (h *house) runDoor() {
	for _, route := range routes() {
		for class, body := range map[string]string{
			"not json": `{"request_id":"%s`, "twice": `{"task_type":"ECHO","%s":1,"%s":2}`, "not utf8": "{\"mode\":\"\xff%s\"}", "trailing": `{} "%s"`, "list": `["%s"]`, "text": `"%s"`,
			"case": `{"Task_Type":"%s"}`, "deep": `{"inputs":` + strings.Repeat(`{"%s":`, 70) + "1" + strings.Repeat("}", 71), "budget": `{"request_id":"r","task_type":"ECHO","budgets":{"max_time_ms":"%s"}}`,
			"no task": `{"request_id":"r","mode":"%s"}`, "control": `{"request_id":"r","task_type":"ECHO","user_id":"\u0000%s"}`, "steps": `{"request_id":"r","task_type":"ECHO","inputs":{"steps":"%s"}}`,
		} {
			text := h.g.plant("run " + class + route)
			status, answer := h.owner.ask(http.MethodPost, route, strings.ReplaceAll(body, "%s", text))
			assert.GreaterOrEqual(h.t, status, http.StatusBadRequest, answer)
		}
		h.owner.ask(http.MethodPost, route, `{"request_id":"r","task_type":"ECHO","inputs":{"x":"`+strings.Repeat(h.g.plant("run too large"), 20000)+`"}}`)
		h.owner.ask(http.MethodPost, route, h.g.plant("run media type body"), "Content-Type", "text/"+h.g.plant("media type of a run"))
		h.owner.ask(http.MethodGet, route+"?"+h.g.plant("query of a run")+"=1", "")
		h.owner.ask(http.MethodDelete, route+"/"+h.g.plant("path of a run"), "")
		status, answer := h.owner.ask(http.MethodPost, route, h.jsonOf(h.order(h.g.plant("unregistered task type"), "", object{})))
		assert.Equal(h.t, http.StatusBadRequest, status, answer)
		h.owner.ask(http.MethodPost, route, h.jsonOf(h.order(schemas.TaskEcho, "", object{})), "Idempotency-Key", h.g.plant("key of a run"))
		run := h.order("RUN.FULL", "", object{})
		run["trace_id"], run["budgets"] = h.g.plant("trace of a run"), object{"own": object{h.g.plant("name in a budget"): h.g.plant("budget")}}
		run["user_id"] = h.g.plant("run that is the first of two")
		h.owner.ask(http.MethodPost, route, h.jsonOf(run))
		for _, text := range []string{"first of two", "other of two"} {
			run["user_id"] = h.g.plant("run that is the " + text)
			h.owner.ask(http.MethodPost, route, h.jsonOf(run), "Last-Event-ID", h.g.plant("last event id of a run"))
		}
		status, answer = h.owner.ask(http.MethodPost, route, h.jsonOf(run))
		assert.Equal(h.t, http.StatusConflict, status, answer)
		id, _ := run["request_id"].(string)
		h.owner.ask(http.MethodGet, "/v1/actions/"+id+"/events", "", "Accept", "text/event-stream")
		h.runStrangers(id, run)
	}
}

// runStrangers ask for the owner's run by its right name, and for one of their own.
func (h *house) runStrangers(id string, run object) {
	own := maps.Clone(run)
	own["inputs"], own["user_id"] = object{"of": "the stranger"}, "stranger"
	own["task_type"] = schemas.TaskEcho
	for _, p := range []*person{h.stranger, h.nobody} {
		for _, path := range []string{"", "/events"} {
			p.ask(http.MethodGet, "/v1/actions/"+id+path, "", "Accept", "application/json")
		}
		p.ask(http.MethodPost, "/v1/actions/"+id+"/cancel", "")
		p.ask(http.MethodGet, "/v1/evidence?action_id="+id, "", "Accept", "application/json")
		for _, route := range routes() {
			p.ask(http.MethodPost, route, h.jsonOf(own))
		}
		p.ask(http.MethodGet, "/health", "")
		p.ask(http.MethodGet, "/health/ready", "")
	}
}

// runsCut are runs that somebody stops, and runs whose time is up, while their
// agent is at them.
func (h *house) runsCut() {
	for _, tier := range tiers() {
		run := h.order("RUN.HANGS", tier, object{"text": h.g.plant("run to cancel")})
		resp, text := h.owner.send(http.MethodPost, schemas.RouteRunSync, h.jsonOf(run), "Prefer", "respond-async")
		if !assert.Equal(h.t, http.StatusAccepted, resp.StatusCode, text) {
			return
		}
		h.hangsAtAgent()
		id, _ := run["request_id"].(string)
		h.owner.ask(http.MethodPost, "/v1/actions/"+id+"/cancel", "")
		h.settled(id)
		h.owner.ask(http.MethodGet, "/v1/actions/"+id+"/events", "", "Accept", "text/event-stream")

		late := h.order("RUN.HANGS", tier, object{"text": h.g.plant("run out of time")})
		late["budgets"] = object{"timeout_ms": 8000} // enough to get there
		_, text = h.owner.ask(http.MethodPost, schemas.RouteRunStream, h.jsonOf(late))
		assert.Contains(h.t, text, string(schemas.DeadlineExceeded))
		h.hangsAtAgent()
	}
}

// hangsAtAgent waits until one more run has come to the agent that does not end it.
func (h *house) hangsAtAgent() {
	h.t.Helper()
	select {
	case <-h.hung:
	case <-time.After(patience):
		assert.Fail(h.t, "the run did not come to its agent")
	}
}
