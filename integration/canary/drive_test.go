//go:build e2e

package canary_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// drive sends the program through all it can do, as the owner, with a canary in
// every place on the way.
func (h *house) drive() {
	h.answers()
	h.ownRepository()
	parallel(
		h.places, h.parameters, h.headers, h.urls, h.everything, h.failures, h.statusCodes, h.denials, h.plans,
		h.canceled, h.panicked, h.door, h.repeats, h.streams, h.console, h.strangers, h.tokens, h.reloads, h.slow,
	)
	parallel(h.agents, h.agentPlaces, h.builtins, h.proved, h.runDoor, h.runsCut, h.rules)
	parallel(h.taskEnds, h.pushes, h.proxied, h.taskDoor, h.gitDoor, h.pooled, h.contested)
	parallel(h.completions, h.modelPlaces, h.modelNames, h.chatsCut, h.budgets, h.chatDoor, h.chatTasks, h.poisoned)
	h.chatStrangers()
	h.taskStrangers()
}

func parallel(parts ...func()) {
	var group sync.WaitGroup
	for _, part := range parts {
		group.Go(part)
	}
	group.Wait()
}

// jsonOf is a document as it is sent.
func (h *house) jsonOf(v any) string {
	h.t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(h.t, err)
	return string(raw)
}

type object = map[string]any

// surface is a route that takes a body of a schema.
type surface struct {
	path string
	base object
}

// surfaces say where the form of a body goes, and a body of it that passes.
func (h *house) surfaces() map[string]surface {
	args := object{"method": "POST", "url": "http://plain.example/ok", "headers": object{"X-Plain": "v"}, "body": object{"a": 1}}
	decision := object{"effect_ref": "e", "target_state": object{"url": "http://plain.example/ok", "method": "POST", "allowlist_key": "plain"}}
	return map[string]surface{
		"ExecuteRequest":   {"/v1/execute", object{"type": "Http", "args": args}},
		"ExecuteBare":      {"/v1/execute", args},
		"PlanRequest":      {"/v1/plans", object{"state:env.snapshot": object{"snapshot_id": "s"}, "artifact:proposed.plan": object{"decisions": []any{decision}}}},
		"ResolveRequest":   {"/v1/actions/" + h.unknownAction() + "/resolve", object{"effect": "applied"}},
		"RedriveRequest":   {"/v1/dead-letters/redrive", object{"sequence": 999999}},
		"ReloadRequest":    {"/v1/policy/reload", object{"all": false}},
		"ExplainRequest":   {"/v1/policy/explain", object{"url": "http://plain.example/ok", "method": "GET"}},
		"AgentEnvelope":    {routeAgentAPI, object{"type": schemas.AgentAPIType, "request": object{"request_id": "r", "operation": schemas.OpRulesCreate, "args": object{"if_match": "none", "rule": object{}}}}},
		"AgentRequest":     {routeAgentAPI, object{"request_id": "r", "operation": schemas.OpRulesCreate, "args": object{"if_match": "none", "rule": object{}}}},
		"PreviewRequest":   {"/v1/rules/preview", object{"url": "http://plain.example/ok", "method": "GET"}},
		"RecordRequest":    {"/v1/rules/record", object{"action_id": "none"}},
		"RepoRequest":      {schemas.RouteRepos, object{"name": "of-the-places"}},
		"TaskRequest":      {schemas.RouteTasks, object{"repo": ownRepo, "description": "d", "pool": schemas.PoolNone}},
		"LeaseRequest":     {schemas.RouteTaskLease, object{"pool": "nobodys"}},
		"AnswerRequest":    {schemas.RouteTasks + "/" + h.asking() + "/answer", object{"answer": "a"}},
		"OperationRequest": {schemas.RouteOperationsResume, object{"entry": "plain"}},
		"TokenRequest":     {"/v1/tokens", object{"name": "n", "scopes": []any{"actions:read"}}},
	}
}

// unknownAction is one whose outcome nobody knows, to be resolved.
func (h *house) unknownAction() string {
	h.t.Helper()
	resp, body := h.owner.send(http.MethodPost, "/v1/execute", `{"method":"POST","url":"http://plain.example/close","body":1}`)
	require.Contains(h.t, body, "OUTCOME_UNKNOWN")
	return resp.Header.Get("Weir-Action-Id")
}

// places sends one request a place, with a canary there and nowhere else.
func (h *house) places() {
	surfaces, refusals := h.surfaces(), 0
	for _, schema := range bodies(h.t) {
		for form, places := range placesOf(h.t, schema) {
			if wide, ok := map[string]func([]place){"RunRequest": h.runPlaces, "ChatRequest": h.chatPlaces}[form]; ok {
				wide(places)
				continue
			}
			if route, ok := agentForms()[form]; ok {
				refusals += h.agentFormPlaces(form, route, places)
				continue
			}
			s, ok := surfaces[form]
			if !assert.True(h.t, ok, "nothing drives %s", form) {
				continue
			}
			for _, p := range places {
				text := h.g.plant(form + " " + p.String())
				if identifier(p) {
					text += " b"
				}
				status, body := h.owner.shown(http.MethodPost, s.path, h.jsonOf(p.put(s.base, text)))
				// A token has a place in the agent's request, and this is none.
				assert.Equal(h.t, p.path[len(p.path)-1] == "auth_token", status == http.StatusUnauthorized, "%s %s: %d", form, p, status)
				if p.bounded {
					refusals++
					assert.GreaterOrEqual(h.t, status, http.StatusBadRequest, "%s %s: %s", form, p, body)
				}
			}
		}
	}
	assert.Greater(h.t, refusals, 10)
}

// identifier says that a place's text is an identifier by contract, and is
// planted as what is none.
func identifier(p place) bool {
	last := p.path[len(p.path)-1]
	switch last {
	case "request_id", "tenant", "branch", "pool", "default_branch":
		return !p.name
	default:
		return false
	}
}

// parameters sends one request a parameter of the published API.
func (h *house) parameters() {
	_, document := h.nobody.ask(http.MethodGet, "/openapi.json", "")
	all := parameters(h.t, []byte(document))
	assert.GreaterOrEqual(h.t, len(all), 20)
	_, list := h.owner.ask(http.MethodPost, "/v1/execute", `{"type":"Http","request_id":"with-parameters","args":{"method":"GET","url":"http://plain.example/ok"}}`)
	assert.NotContains(h.t, list, `"variant"`)
	for _, p := range all {
		text := h.g.plant(p.method + " " + p.path + " " + p.in + " " + p.name)
		path, header := strings.NewReplacer("{id}", "with-parameters", "{name}", ownRepo).Replace(p.path), []string(nil)
		switch p.in {
		case "path":
			path = strings.NewReplacer("{id}", text, "{name}", text).Replace(p.path)
		case "query":
			path += "?" + url.Values{p.name: {text}}.Encode()
		case "header":
			header = []string{p.name, text}
		}
		body := ""
		if p.method == http.MethodPost {
			body = `{"method":"GET","url":"http://plain.example/ok"}`
		}
		h.owner.ask(p.method, path, body, header...)
		h.owner.ask(p.method, path+"/"+text, body, header...) // and on a path that is none
		h.owner.ask(p.method, path+"?"+text+"="+text, body, header...)
	}
}

// headers sends what clients and proxies send, each with a canary.
func (h *house) headers() {
	for _, name := range []string{
		"Cookie", "X-Api-Key", "User-Agent", "Referer", "Origin", "Accept", "Accept-Language", "Accept-Encoding", "Content-Type", "Content-Encoding",
		"Traceparent", "Tracestate", "Baggage", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Prefix", "Forwarded", "X-Real-Ip", "X-B3-Traceid",
		"If-Match", "If-None-Match", "Range", "Prefer", schemas.HeaderOrderingKey, schemas.HeaderPriority, schemas.HeaderDelay, schemas.HeaderNotBefore, "Proxy-Authorization", "Last-Event-Id", "Idempotency-Key", "X-Original-Url", "X-Http-Method-Override",
		"Cloudevents-Id", "Webhook-Id", "Weir-Action-Id", "Nats-Msg-Id",
	} {
		text := h.g.plant("request header " + name)
		h.owner.ask(http.MethodGet, "/v1/actions", "", name, text)
		h.owner.ask(http.MethodPost, "/v1/execute", `{"method":"GET","url":"http://plain.example/ok"}`, name, text)
	}
	// By contract an X-Request-ID is an identifier; what is none is replaced.
	h.owner.ask(http.MethodGet, "/v1/actions", "", "X-Request-ID", h.g.plant("request header X-Request-ID")+" b")
	h.owner.ask(http.MethodGet, "/v1/actions", "", h.g.plant("request header name"), "v")
	// Tokens that are none.
	for _, class := range []string{"bearer", "basic", "no scheme", "form of a token"} {
		text := h.g.plant("authorization " + class)
		value := map[string]string{"bearer": "Bearer " + text, "basic": "Basic " + text, "no scheme": text, "form of a token": "Bearer weir1_" + text}[class]
		h.nobody.ask(http.MethodGet, "/v1/actions", "", "Authorization", value)
		h.nobody.ask(http.MethodGet, "/metrics", "", "Authorization", value)
		h.nobody.ask(http.MethodGet, "/v1/actions?access_token="+text, "")
	}
}

// urls are targets with a canary in each part of them.
func (h *house) urls() {
	for part, form := range map[string]string{
		"path": "http://plain.example/ok/%s", "query": "http://plain.example/ok?q=%s", "parameter": "http://plain.example/ok?%s=1", "fragment": "http://plain.example/ok#%s",
		"user": "http://%s@plain.example/ok", "password": "http://u:%s@plain.example/ok", "host": "http://%s/ok", "subdomain": "http://%s.open.example/ok",
		"scheme": "%s://plain.example/ok", "port": "http://plain.example:%s/ok", "opaque": "mailto:%s", "escape": "http://plain.example/%%41%s%%zz", "whole": "%s", "params": "http://plain.example/ok;%s",
	} {
		text := h.g.plant("url " + part)
		target := fmt.Sprintf(form, text)
		call := h.jsonOf(object{"method": "GET", "url": target})
		h.owner.ask(http.MethodPost, "/v1/execute", call)
		h.owner.ask(http.MethodPost, "/v1/policy/explain", call)
		lower := fmt.Sprintf(form, strings.ToLower(text)) // a host has no capitals
		h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"method": "GET", "url": lower}))
		h.owner.ask(http.MethodPost, "/v1/plans", h.plan(object{"url": lower, "allowlist_key": "plain", "params": object{h.g.plant("param name " + part): h.g.plant("param " + part)}}))
	}
}

func (h *house) plan(state object) string {
	return h.jsonOf(object{
		"state:env.snapshot":     object{"snapshot_id": h.g.plant("snapshot id"), h.g.plant("snapshot key"): h.g.plant("snapshot value")},
		"artifact:proposed.plan": object{"plan_id": h.g.plant("plan id"), "decisions": []any{object{"effect_ref": h.g.plant("effect ref"), "idempotency_key": h.g.plant("decision key"), "target_state": state}}},
	})
}

// everything is one call that succeeds, with a canary in all of its places: what
// is planted here must have reached the upstream, and what that answered the owner.
func (h *house) everything() {
	shapes := h.g.shapes()
	body := object{
		h.g.plant("sent key"): h.g.plant("sent value"), "list": []any{h.g.plant("sent item"), object{h.g.plant("sent deep key"): nil}},
		"ssn": shapes["ssn"], "mrn": shapes["mrn"], "birth": shapes["birth"], "mail": shapes["mail"],
	}
	call := object{
		"type": "Http", "idempotency_key": h.g.plant("sent idempotency key"),
		"args": object{
			"method": "POST", "url": "http://plain.example/ok?q=" + h.g.plant("sent query") + "&" + h.g.plant("sent parameter") + "=1",
			"headers":         object{h.g.plant("sent header name"): h.g.plant("sent header"), "X-Ssn": shapes["ssn"], "X-Mail": shapes["mail"]},
			"body":            body,
			"response_schema": object{"type": "object", "description": h.g.plant("schema text"), "$defs": object{h.g.plant("schema key"): true}},
		},
		"postcondition": []any{object{"type": "http_status", "equals": 200}},
	}
	for _, path := range []string{"/v1/execute", "/v1/execute"} { // and again, under the key, as it is stored
		status, text := h.owner.ask(http.MethodPost, path, h.jsonOf(call), "Idempotency-Key", h.g.text(h.t, "sent idempotency key"))
		assert.Equal(h.t, http.StatusOK, status, text)
		assert.Contains(h.t, text, h.g.text(h.t, "upstream ok value"))
		assert.Contains(h.t, text, h.g.text(h.t, "upstream ok deep key"))
	}
	for _, target := range []string{"http://plain.example/echo", "http://plain.example/echo/busy"} {
		sent := h.g.plant("echoed body")
		args := object{"method": "POST", "url": target + "?a=" + h.g.plant("echoed query"), "body": object{"echo": sent}}
		_, text := h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(args))
		assert.Contains(h.t, text, sent, "the echo reached its owner")
	}
	h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"method": "GET", "url": "http://plain.example/shadow"}))
	h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{
		"type": "Http", "idempotency_key": h.g.plant("upstream key"),
		"args": object{"method": "POST", "url": "http://keyed.example/echo", "body": object{"b": h.g.plant("keyed body")}},
	}))
	_, text := h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"method": "POST", "url": "https://good.example/ok", "body": h.g.plant("over tls")}))
	assert.Contains(h.t, text, h.g.text(h.t, "upstream tls ok value"))
}
