//go:build e2e

package canary_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

const routeAgentAPI = "/v1/agent-api"

// ruled is where all rules of this test lead from: nothing else goes there.
const ruled = "http://plain.example/ruled/"

// operate sends an operation with a canary wherever one can stand, and the newest
// etag unless there is one among the arguments.
func (h *house) operate(name string, args object) (status int, answer string) {
	if args["if_match"] == nil {
		args["if_match"] = h.etag()
	}
	args[h.g.plant("unknown argument")] = h.g.plant("unknown argument's value")
	return h.owner.ask(http.MethodPost, routeAgentAPI, h.jsonOf(object{
		"type": schemas.AgentAPIType, h.g.plant("unknown member"): h.g.plant("unknown member's value"),
		"request": object{"request_id": h.g.plant("agent's request_id") + " <b>", "operation": name, "args": args, "auth_token": h.owner.token},
	}))
}

func (h *house) etag() string {
	h.t.Helper()
	_, answer := h.owner.ask(http.MethodPost, routeAgentAPI, `{"request_id":"status","operation":"status","args":{}}`)
	var got struct {
		Data struct {
			Etag string `json:"rules_etag"`
		} `json:"data"`
	}
	require.NoError(h.t, json.Unmarshal([]byte(answer), &got), answer)
	require.NotEmpty(h.t, got.Data.Etag, answer)
	return got.Data.Etag
}

// rule makes one that must be taken.
func (h *house) rule(kind, id, pattern string, action object) object {
	h.t.Helper()
	rule := object{
		"id": id, "type": kind, "name": h.g.plant("rule name " + id), "action": action, h.g.plant("rule member " + id): h.g.plant("rule member's value " + id),
		"match": object{"url_pattern": pattern, "resource_type": h.g.plant("kind " + id)},
	}
	status, answer := h.operate(schemas.OpRulesCreate, object{"rule": rule})
	assert.Equal(h.t, http.StatusOK, status, answer)
	return rule
}

// rules are made with a canary in each of their texts, take effect on calls of
// every surface, and are refused for each of their members.
func (h *house) rules() {
	path := func(class string) string { return ruled + class + "/" + h.g.plant("rule path "+class) }
	mocked, from, marked, slow, denied := path("mock"), path("from"), path("marked"), path("slow"), path("denied")
	mock := h.rule(schemas.RuleMock, "m-json", mocked, object{
		"status": 200, "body": object{h.g.plant("mock key"): h.g.plant("mock value")}, "headers": object{h.g.plant("mock header name"): h.g.plant("mock header")},
	})
	h.rule(schemas.RuleMock, "m-text", mocked+"/text", object{"body_mode": "text", "body": h.g.plant("mock text"), "status": 500})
	h.rule(schemas.RuleRedirect, "r-to", from+"/*", object{"to_url": ruled + "to/" + h.g.plant("redirect path") + "/$1?" + h.g.plant("redirect parameter") + "=" + h.g.plant("redirect query")})
	h.rule(schemas.RuleRedirect, "r-denied", denied, object{"to_url": "http://narrow.example/only/here/" + h.g.plant("denied path")})
	h.rule(schemas.RuleHeaders, "h-both", marked, object{
		"request_headers":  []any{object{"op": "set", "name": h.g.plant("ruled header name"), "value": h.g.plant("ruled header")}, object{"op": "append", "name": "X-Ruled", "value": h.g.plant("appended header")}, object{"op": "remove", "name": h.g.plant("removed header")}},
		"response_headers": []any{object{"op": "set", "name": "X-Marked", "value": h.g.plant("marked answer")}},
	})
	h.rule(schemas.RuleDelay, "d-one", slow, object{"delay_ms": 1})
	h.ruledCalls(mocked, from, marked, slow, denied)
	h.ruleViews(mocked, mock)
	h.ruleRefusals(mock)
	h.ruleLimit()
	for _, operation := range []string{schemas.OpRulesPatch, schemas.OpRulesDisable, schemas.OpRulesEnable, schemas.OpGlobalOff, schemas.OpGlobalOn} {
		status, answer := h.operate(operation, object{"id": "m-json", "patch": object{"name": h.g.plant("patched name"), "action": object{"body": h.g.plant("patched body")}}})
		assert.Equal(h.t, http.StatusOK, status, answer)
	}
}

// ruledCalls are calls that the rules apply to, on every surface that makes any.
func (h *house) ruledCalls(mocked, from, marked, slow, denied string) {
	for _, target := range []string{mocked, mocked + "/text", from + "/" + h.g.plant("wildcard"), marked, slow, denied} {
		args := object{"method": "GET", "url": target, "allowlist_key": "plain"}
		_, answer := h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(args))
		if target == denied {
			assert.Contains(h.t, answer, string(schemas.DenyRule))
		}
		h.owner.ask(http.MethodPost, "/v1/plans", h.plan(object{"url": target, "allowlist_key": "plain"}))
		for _, tier := range []string{schemas.RiskNonSensitive, schemas.RiskPHI} {
			h.owner.ask(http.MethodPost, schemas.RouteRunSync, h.jsonOf(h.order(schemas.TaskHTTPExecute, tier, args)))
		}
	}
}

// ruleViews look at rules, and at what they would do, also as a stranger.
func (h *house) ruleViews(mocked string, mock object) {
	call := object{"method": "GET", "url": mocked + "?" + h.g.plant("previewed query"), "headers": object{h.g.plant("previewed header name"): h.g.plant("previewed header")}, "rule": mock}
	_, answer := h.owner.ask(http.MethodPost, "/v1/rules/preview", h.jsonOf(call))
	assert.Contains(h.t, answer, schemas.PreviewMocked)
	_, answer = h.owner.ask(http.MethodGet, "/v1/rules", "")
	assert.Contains(h.t, answer, h.g.text(h.t, "mock value"))
	resp, _ := h.owner.send(http.MethodPost, "/v1/execute", h.jsonOf(object{"method": "POST", "url": "http://plain.example/ok?q=" + h.g.plant("recorded query"), "body": 1}))
	_, answer = h.owner.ask(http.MethodPost, "/v1/rules/record", h.jsonOf(object{"action_id": resp.Header.Get("Weir-Action-Id")}))
	assert.Contains(h.t, answer, `"rec-`)
	for _, request := range [][3]string{
		{http.MethodGet, "/v1/rules", ""},
		{http.MethodPost, "/v1/rules/preview", h.jsonOf(object{"url": "http://plain.example/ruled/mock/x"})},
		{http.MethodPost, routeAgentAPI, `{"request_id":"r","operation":"rules.list","args":{}}`},
		{http.MethodPost, routeAgentAPI, `{"request_id":"r","operation":"rules.get","args":{"id":"m-json"}}`},
		{http.MethodPost, "/v1/rules/record", h.jsonOf(object{"action_id": resp.Header.Get("Weir-Action-Id")})},
	} {
		h.stranger.ask(request[0], request[1], request[2])
		h.nobody.ask(request[0], request[1], request[2])
	}
}

// ruleRefusals put a canary where none may stand, in each member of a rule and of
// a request.
func (h *house) ruleRefusals(mock object) {
	n := 0
	for _, member := range []string{
		"id", "group", "type", "enabled", "priority", "expires_at", "match", "match.url_pattern", "match.method", "match.include_query", "action", "action.status", "action.body_mode", "action.headers",
		"scope", "scope.action_kind", "scope.agent", "scope.task_id", "scope.request_id", "action.to_url", "action.delay_ms", "action.request_headers", "action.request_headers.0.op", "action.request_headers.0.name",
	} {
		n++
		rule, _ := clone(mock).(object)
		rule["id"] = fmt.Sprintf("refused-%d", n)
		rule = place{path: strings.Split(member, ".")}.put(rule, h.g.plant("rule's "+member)+" b")
		h.operate(schemas.OpRulesCreate, object{"rule": rule})
		patch := place{path: strings.Split(member, ".")}.put(object{}, h.g.plant("patch's "+member)+" b")
		h.operate(schemas.OpRulesPatch, object{"id": "m-json", "patch": patch})
	}
	for _, refused := range []struct {
		operation string
		args      object
		says      string
	}{
		{schemas.OpRulesEnable, object{"id": "m-json", "if_match": h.g.plant("if_match")}, string(schemas.EtagMismatch)},
		{schemas.OpRulesEnable, object{"id": h.g.plant("unknown rule") + " b"}, string(schemas.NotFound)},
		{schemas.OpRulesCreate, object{"rule": mock, "group": h.g.plant("unknown group") + " b"}, string(schemas.NotFound)},
		{schemas.OpRulesCreate, object{"rule": mock}, string(schemas.ValidationError)},
		{schemas.OpRulesCreate, object{"rule": h.g.plant("a rule that is text")}, string(schemas.ValidationError)},
		{schemas.OpRulesCreate, object{"rule": object{"id": h.g.plant("refused id") + "/b", "type": "mock"}}, string(schemas.ValidationError)},
		{schemas.OpRulesList, object{"group": h.g.plant("group of a list")}, `"rules":[]`},
		{schemas.OpRulesGet, object{"id": h.g.plant("id of a get")}, string(schemas.NotFound)},
		{h.g.plant("operation"), object{}, string(schemas.InvalidRequest)},
	} {
		_, answer := h.operate(refused.operation, refused.args)
		assert.Contains(h.t, answer, refused.says)
	}
	// A token that is none is a secret all the same.
	lost := "weir1_" + random(8) + "_" + random(22)
	h.g.known("auth_token", lost)
	h.nobody.ask(http.MethodPost, routeAgentAPI, h.jsonOf(object{"request_id": "nobody", "operation": "status", "auth_token": lost}))
	h.owner.ask(http.MethodPost, routeAgentAPI, h.jsonOf(object{"request_id": "two tokens", "operation": "status", "auth_token": lost}))
}

// ruleLimit makes rules until there are too many.
func (h *house) ruleLimit() {
	for i := range 2 * maxRules {
		status, answer := h.operate(schemas.OpRulesCreate, object{"rule": object{
			"id": fmt.Sprintf("more-%d", i), "type": "delay", "match": object{"url_pattern": "http://nowhere.example/"}, "action": object{"delay_ms": 0},
		}})
		if status == http.StatusConflict {
			assert.Contains(h.t, answer, string(schemas.RuleLimitExceeded))
			return
		}
	}
	h.t.Error("there was no limit")
}

// rulesReached proves that what rules say got where it must.
func (h *house) rulesReached() {
	wire, mine := strings.ToLower(received(h.plain)), strings.ToLower(h.owner.seen.String())
	for _, class := range []string{"redirect path", "redirect parameter", "redirect query", "wildcard", "ruled header name", "ruled header", "appended header"} {
		assert.Contains(h.t, wire, strings.ToLower(h.g.text(h.t, class)), "%s did not reach the upstream", class)
	}
	for _, class := range []string{"mock key", "mock value", "mock header name", "mock header", "mock text", "marked answer", "rule path mock", "rule name m-json"} {
		assert.Contains(h.t, mine, strings.ToLower(h.g.text(h.t, class)), "the owner did not get the %s", class)
	}
	assert.NotContains(h.t, wire, "/ruled/mock/", "a mock was sent")
	assert.NotContains(h.t, wire, strings.ToLower(h.g.text(h.t, "denied path")))
}
