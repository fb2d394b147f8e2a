//go:build e2e

package canary_test

import (
	"net/http"

	"github.com/stretchr/testify/assert"

	"weir/schemas"
)

// chatTasks are completions that the agents of tasks ask for by their tasks' tokens.
func (h *house) chatTasks() {
	e := h.file("chatting", object{"request_id": "task-that-chats", "model": "any/full", "budget": object{"requests": 3, "tokens": 1000000, "usd": 50}})
	for _, stream := range []bool{false, true} {
		class := "chat of a task"
		status, text := e.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.conversation(class, "any/full", stream)), h.chatHeaders(class)...)
		assert.Equal(h.t, http.StatusOK, status, text)
	}
	e.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.conversation("chat of another model", "any/fine", false)))
	e.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.conversation("chat of a model of nobody's", h.g.word("model of nobody's"), true)))
	for range 2 {
		e.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.conversation("chat at the end of a task's budget", "any/full", false)))
	}
	status, text := e.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.conversation("chat behind a task's budget", "any/full", false)))
	assert.Equal(h.t, http.StatusPaymentRequired, status, text)
	for _, path := range []string{schemas.RouteModels, schemas.RouteModels + "/any/full", schemas.RouteBudgets, "/v1/actions?kind=chat"} {
		e.ask(http.MethodGet, path, "")
	}
	h.owner.ask(http.MethodGet, schemas.RouteTasks+"/"+e.task.ID, "")
	h.owner.ask(http.MethodGet, schemas.RouteBudgets+"?budget="+schemas.BudgetOfTask, "")
	status, text = e.ask(http.MethodPost, schemas.RouteAgentComplete, h.jsonOf(object{"description": h.g.plant("result of a task that chats")}))
	assert.Equal(h.t, http.StatusOK, status, text)
	h.settled(e.task.ID)
	status, text = e.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.conversation("chat that is too late", "any/full", true)))
	assert.Equal(h.t, http.StatusUnauthorized, status, text)
	e.closed()

	// A task whose own model is any text.
	e = h.file("chatting of nothing", object{"model": h.g.plant("model that is text") + " b"})
	status, text = e.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.brief("chat of a task of no model", "any/fine", false)))
	assert.Equal(h.t, http.StatusForbidden, status, text)
	e.closed()
}
