//go:build e2e

package canary_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// talk is a completion that the owner has asked for and that is under way.
type talk struct {
	id    string
	leave func()
	rest  func() string // to its end
}

// begin asks for a completion of a model that waits, and returns once it does.
func (h *house) begin(doc object, header ...string) talk {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.at+h.chatRoute(), strings.NewReader(h.jsonOf(doc)))
	require.NoError(h.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+h.owner.token)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	head, text := make(chan string, 1), make(chan string, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil { // it was left
			head <- ""
			text <- ""
			return
		}
		defer resp.Body.Close()
		head <- resp.Header.Get(schemas.HeaderGeneration)
		data, _ := io.ReadAll(resp.Body) // as far as it was read
		fmt.Fprintf(&h.owner.seen, "%s\n", data)
		text <- string(data)
	}()
	h.talksAtModel()
	t := talk{leave: cancel, rest: func() string { defer cancel(); return <-text }}
	if doc["stream"] == true {
		t.id = <-head
	} else { // whoever waits for the whole hears of its name at its end
		resp, text := h.owner.send(http.MethodPost, h.chatRoute(), h.jsonOf(doc), append([]string{"Prefer", "respond-async"}, header...)...)
		require.Equal(h.t, http.StatusAccepted, resp.StatusCode, text)
		t.id = resp.Header.Get(schemas.HeaderGeneration)
	}
	require.NotEmpty(h.t, t.id)
	return t
}

// chatsCut are completions that somebody stops, or whose readers leave, while their model
// is at them.
func (h *house) chatsCut() {
	for _, stream := range []bool{false, true} {
		stopped := h.begin(h.brief("chat to cancel", "any/held", stream), "Idempotency-Key", h.g.plant("key of a chat to cancel"))
		h.owner.ask(http.MethodPost, "/v1/actions/"+stopped.id+"/cancel", "")
		h.settled(stopped.id)
		assert.Contains(h.t, stopped.rest(), string(schemas.Canceled))
		h.shows(stopped.id)

		left := h.begin(h.brief("chat that is left", "any/held", stream), "Idempotency-Key", h.g.plant("key of a chat that is left"), schemas.HeaderOnDisconnect, schemas.DisconnectCancel)
		left.leave()
		h.settled(left.id)
		_, text := h.owner.ask(http.MethodGet, "/v1/actions/"+left.id, "")
		assert.Contains(h.t, text, string(schemas.Canceled))
		h.shows(left.id)
	}
	key, doc := h.g.plant("key of a chat that is come back to"), h.brief("chat that is come back to", "any/paused", true)
	h.begin(doc, "Idempotency-Key", key, schemas.HeaderOnDisconnect, schemas.DisconnectContinue).leave()
	h.goOn <- struct{}{}
	for _, last := range []string{"", "1", h.g.plant("last event id of a chat")} {
		status, text := h.owner.ask(http.MethodPost, h.chatRoute(), h.jsonOf(doc), "Idempotency-Key", key, "Last-Event-ID", last)
		if len(last) < 2 {
			assert.Equal(h.t, http.StatusOK, status, text)
			assert.Contains(h.t, text, h.g.text(h.t, "model paused behind the pause"))
		}
	}
	status, text := h.owner.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.brief("other body of a chat", "any/fine", true)), "Idempotency-Key", key)
	assert.Equal(h.t, http.StatusUnprocessableEntity, status, text)
}

// shows looks at a completion in every way.
func (h *house) shows(id string) {
	h.owner.ask(http.MethodGet, "/v1/actions/"+id, "")
	for _, accept := range []string{"application/json", "text/event-stream"} {
		h.owner.ask(http.MethodGet, "/v1/actions/"+id+"/events", "", "Accept", accept)
	}
}

// chatsExpired are completions whose time is up before they have ended.
func (h *house) chatsExpired() {
	for _, stream := range []bool{false, true} {
		_, text := h.owner.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.brief("chat out of time", "any/held", stream)))
		assert.Contains(h.t, text, string(schemas.DeadlineExceeded))
		h.talksAtModel()
	}
}

// budgets are used up: for good, for a window, at the door and behind it.
func (h *house) budgets() {
	for _, stream := range []bool{false, true, true} {
		h.owner.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.conversation("chat that spends", "spent/fine", stream)))
	}
	_, text := h.owner.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.conversation("chat that nothing is left for", "spent/fine", false)))
	assert.Contains(h.t, text, `"limit_source":"spent"`)
	h.crowd()
	for _, query := range []string{"", "?budget=spent", "?budget=" + h.g.plant("budget that is none"), "?cursor=" + h.g.plant("cursor of budgets"), "?limit=" + h.g.plant("limit of budgets"), "?" + h.g.plant("query of budgets")} {
		for _, p := range []*person{h.owner, h.stranger, h.nobody} {
			p.ask(http.MethodGet, schemas.RouteBudgets+query, "", "X-Budgets", h.g.plant("header of budgets"))
		}
	}
	_, text = h.owner.ask(http.MethodGet, schemas.RouteBudgets+"?limit=1000", "")
	for _, name := range []string{"everybody", "each", "spent", "windows"} {
		assert.Contains(h.t, text, `"budget":"`+name+`"`)
	}
}

// crowd has several ask for the one place in a window until one of them has passed the
// door and is refused behind it.
func (h *house) crowd() {
	const rounds, many = 50, 6
	for round := range rounds {
		var group sync.WaitGroup
		for range many {
			group.Go(func() {
				doc := h.brief("chat in a crowd", fmt.Sprintf("window/%d/fine", round), false)
				status, text := h.owner.ask(http.MethodPost, h.chatRoute(), h.jsonOf(doc))
				assert.Contains(h.t, []int{http.StatusOK, http.StatusTooManyRequests}, status, text)
			})
		}
		group.Wait()
		_, list := h.owner.send(http.MethodGet, "/v1/actions?limit=1000&kind=chat", "")
		if strings.Contains(list, `"`+string(schemas.RateLimited)+`"`) {
			status, text := h.owner.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.brief("chat before a full window", fmt.Sprintf("window/%d/fine", round), true)))
			assert.Equal(h.t, http.StatusTooManyRequests, status, text)
			return
		}
	}
	h.t.Error("nobody was refused behind the door")
}

// poisoned is a completion on which the worker panics until it is parked, and that is
// redriven when its model is gone.
func (h *house) poisoned() {
	resp, text := h.owner.send(http.MethodPost, schemas.RouteChat, h.jsonOf(h.conversation("poisonous chat", "poison", false)), "Prefer", "respond-async")
	require.Equal(h.t, http.StatusAccepted, resp.StatusCode, text)
	id := resp.Header.Get(schemas.HeaderGeneration)
	h.settled(id)
	_, text = h.owner.ask(http.MethodGet, "/v1/dead-letters", "")
	var page schemas.Page[schemas.DeadLetterView]
	require.NoError(h.t, json.Unmarshal([]byte(text), &page))
	h.loads <- h.withoutModel("poison")
	status, text := h.admin.ask(http.MethodPost, "/v1/policy/reload", "")
	require.Equal(h.t, http.StatusOK, status, text)
	for _, d := range page.Items {
		if d.ActionID == id {
			resp, text = h.owner.send(http.MethodPost, "/v1/dead-letters/redrive", fmt.Sprintf(`{"sequence":%d}`, d.Seq))
			require.Equal(h.t, http.StatusAccepted, resp.StatusCode, text)
			var again schemas.Receipt
			require.NoError(h.t, json.Unmarshal([]byte(text), &again))
			h.settled(again.ID)
			h.shows(again.ID)
		}
	}
	h.shows(id)
}
