//go:build e2e

package canary_test

import (
	"net/http"
	"strings"

	"github.com/stretchr/testify/assert"

	"weir/schemas"
)

// chatDoor is what is refused before it is a completion.
func (h *house) chatDoor() {
	g := h.g
	ask := func(p *person, body string, header ...string) int {
		status, text := p.ask(http.MethodPost, h.chatRoute(), body, header...)
		assert.GreaterOrEqual(h.t, status, http.StatusBadRequest, text)
		return status
	}
	for class, body := range map[string]string{
		"not json": `{"model":"%s`, "twice": `{"model":"any/fine","%s":1,"%s":2}`, "not utf8": "{\"model\":\"\xff%s\"}", "trailing": `{} "%s"`, "list": `["%s"]`, "text": `"%s"`, "case": `{"Model":"%s"}`,
		"deep": `{"x":` + strings.Repeat(`{"%s":`, 200) + "1" + strings.Repeat("}", 201), "surrogate": `{"model":"\ud800%s"}`, "no messages": `{"model":"any/fine","user":"%s"}`,
		"message": `{"model":"any/fine","messages":["%s"]}`, "role": `{"model":"any/fine","messages":[{"role":{"%s":1}}]}`, "model": `{"model":"a b %s","messages":[{"role":"user","content":"c"}]}`,
		"models": `{"model":"any/fine","models":["%s/../x"],"messages":[{"role":"user","content":"c"}]}`, "n": `{"model":"any/fine","n":"%s","messages":[{"role":"user","content":"c"}]}`,
		"options": `{"model":"any/fine","stream_options":{"include_usage":"%s"},"messages":[{"role":"user","content":"c"}]}`, "pointer": `{"model":"any/fine","messages":[{"role":"user","content":"c"}],"%s":{"%s":{"api_key":"%s"}}}`,
		"not passed": `{"model":"closed","messages":[{"role":"user","content":"c"}],"%s":{"%s":1},"tools":[{"type":"%s"}]}`,
		"address":    `{"model":"any/fine","messages":[{"role":"user","content":"c"}],"%s":"http://%s.example/%s"}`,
	} {
		ask(h.owner, strings.ReplaceAll(body, "%s", g.plant("chat "+class)))
	}
	for _, name := range []string{"api_base", "base_url", "api_key", "headers", "extra_headers", "extra_body", "webhook", "callback_url", "fallbacks", "organization", "deployment_id", "authorization", "password", "litellm_params", "model_list"} {
		ask(h.owner, h.jsonOf(with(h.brief("chat with "+name, "any/fine", true), object{name: object{g.plant("name in " + name): "https://" + g.plant("text in "+name) + ".example/"}})))
	}
	ask(h.owner, h.jsonOf(h.brief("chat of another media type", "any/fine", true)), "Content-Type", "text/"+g.plant("media type of a chat"))
	ask(h.owner, h.jsonOf(object{"model": "any/fine", "messages": []any{object{"role": "user", "content": strings.Repeat(g.plant("chat too large"), 30000)}}}))
	for name, value := range map[string]string{
		schemas.HeaderOnDisconnect: g.plant("X-Weir-On-Disconnect"), "Idempotency-Key": g.plant("key of a chat") + "\u00e9", "Content-Encoding": g.plant("coding of a chat"),
	} {
		ask(h.owner, h.jsonOf(h.brief("chat with a bad "+name, "any/fine", true)), name, value)
	}
	for _, p := range []*person{h.nobody, {h: h, token: "weirt1_" + g.plant("form of a task's token")}, {h: h, token: g.plant("key of a provider")}} {
		assert.Equal(h.t, http.StatusUnauthorized, ask(p, h.jsonOf(h.brief("chat of nobody", "any/fine", false)), "Idempotency-Key", g.plant("key of nobody")))
		h.nobody.seen.Write(p.seen.Bytes()) //nolint:errcheck // never fails
	}
	for _, base := range schemas.ChatBases() {
		for _, path := range []string{schemas.RouteChat, schemas.RouteModels, schemas.RouteModels + "/any/fine"} {
			for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPost} {
				for _, tail := range []string{"/" + g.plant("path of a chat"), "?" + g.plant("query of a chat") + "=1", "/%2e%2e/" + g.plant("dots of a chat")} {
					h.owner.ask(method, base+path+tail, "")
				}
			}
		}
	}
	h.limited()
}

// limited is a token that few models and few entries may be used by.
func (h *house) limited() {
	for class, more := range map[string]object{
		"models": {"models": []any{"named/*"}}, "entries": {"entries": []any{"model:any:any"}}, "scopes": {"scopes": []any{"actions:read"}}, "other models": {"models": []any{h.g.plant("model of a token") + "/*"}},
	} {
		p := h.made(with(object{"name": h.g.plant("token for " + class), "scopes": []any{"actions:write"}}, more))
		for _, model := range []string{"any/fine", "named/fine", h.g.word("model for a limited token")} {
			p.ask(http.MethodPost, h.chatRoute(), h.jsonOf(with(h.brief("chat of a limited token", model, false), object{"models": []any{"named/" + h.g.word("further model for a limited token"), "slow/fine"}})))
		}
		for _, path := range []string{schemas.RouteModels, schemas.RouteModels + "/any/fine", schemas.RouteBudgets} {
			p.ask(http.MethodGet, path, "")
		}
		h.owner.seen.Write(p.seen.Bytes()) //nolint:errcheck // never fails
	}
}

// chatStrangers ask for the owner's completion by its right name, and for one of their own
// under its key.
func (h *house) chatStrangers() {
	key := "shared-key-of-a-chat"
	resp, text := h.owner.send(http.MethodPost, h.chatRoute(), h.jsonOf(h.conversation("chat that is looked for", "any/full", false)), "Idempotency-Key", key)
	assert.Equal(h.t, http.StatusOK, resp.StatusCode, text)
	id := resp.Header.Get(schemas.HeaderGeneration)
	h.shows(id)
	shapes := h.g.shapes()
	shaped := []any{object{"role": "user", "content": shapes["ssn"] + " " + shapes["mrn"] + " " + shapes["birth"] + " " + shapes["mail"]}}
	_, text = h.owner.ask(http.MethodPost, h.chatRoute(), h.jsonOf(object{"model": "any/echo", "messages": shaped}))
	assert.Contains(h.t, text, shapes["mail"])
	own := object{"model": "wire.away", "messages": []any{object{"role": "user", "content": "of the stranger"}}}
	for _, p := range []*person{h.stranger, h.nobody} {
		for _, path := range []string{"", "/events"} {
			p.ask(http.MethodGet, "/v1/actions/"+id+path, "", "Accept", "application/json")
		}
		p.ask(http.MethodPost, "/v1/actions/"+id+"/cancel", "")
		p.ask(http.MethodGet, "/v1/evidence?action_id="+id, "", "Accept", "application/json")
		for _, stream := range []bool{false, true} {
			p.ask(http.MethodPost, h.chatRoute(), h.jsonOf(with(own, object{"stream": stream})), "Idempotency-Key", key, "Last-Event-ID", "1", "X-Generation-Id", id)
		}
		for _, path := range []string{"/v1/actions?kind=chat", schemas.RouteBudgets, schemas.RouteBudgets + "?budget=each", schemas.RouteModels, "/v1/policy"} {
			p.ask(http.MethodGet, path, "")
		}
	}
}
