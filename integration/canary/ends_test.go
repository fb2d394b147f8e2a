//go:build e2e

package canary_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// call is one call as the owner, with a canary in it, and the code it must end with.
func (h *house) call(method, target string, want schemas.Code, extra object) {
	h.t.Helper()
	args := object{"method": method, "url": target, "headers": object{"X-Content": h.g.plant(method + " " + target + " header")}}
	if method != http.MethodGet {
		args["body"] = object{"content": h.g.plant(method + " " + target + " body")}
	}
	maps.Copy(args, extra)
	_, text := h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(args))
	if want == "" {
		assert.NotContains(h.t, text, `"variant"`, target)
		return
	}
	assert.Contains(h.t, text, `"`+string(want)+`"`, "%s %s", method, target)
}

// failures are the ends that a call can come to.
func (h *house) failures() {
	deny := object{"type": "object", "required": []any{h.g.plant("required member")}, "properties": object{"ok": object{"const": h.g.plant("wanted constant")}}}
	var group sync.WaitGroup
	for _, c := range []struct {
		method, target string
		want           schemas.Code
		extra          object
	}{
		{"GET", "http://plain.example/busy", "", nil},
		{"GET", "http://plain.example/never", schemas.RetriesExhausted, nil},
		{"GET", "http://plain.example/reset", schemas.RetriesExhausted, nil},
		{"POST", "http://plain.example/reset", schemas.OutcomeUnknownCode, nil},
		{"GET", "http://plain.example/hang", schemas.RetriesExhausted, object{"timeout_ms": 150}},
		{"POST", "http://plain.example/hang", schemas.OutcomeUnknownCode, object{"timeout_ms": 1500}}, // enough to send it
		{"GET", "http://plain.example/moved", schemas.DenyRedirect, nil},
		{"GET", "http://hop.example/hop", "", nil},
		{"GET", "http://hop.example/hop/away", schemas.DenyRedirect, nil},
		{"POST", "http://plain.example/garbage", "", object{"response_schema": true}},
		{"POST", "http://plain.example/badheader", "", nil},
		{"POST", "http://plain.example/short", schemas.UpstreamTruncated, nil},
		{"POST", "http://plain.example/chunks", "", nil},
		{"POST", "http://plain.example/large", schemas.UpstreamTooLarge, nil},
		{"GET", "http://plain.example/headers", schemas.UpstreamHeadersTooLarge, nil},
		{"POST", "http://plain.example/coding", schemas.UpstreamEncoding, nil},
		{"POST", "http://plain.example/zip", schemas.UpstreamEncoding, nil},
		{"GET", "http://plain.example/zipped", "", nil},
		{"GET", "http://plain.example/text", "", nil},
		{"GET", "http://plain.example/text", schemas.ResponseNotJSON, object{"response_schema": true}},
		{"GET", "http://plain.example/binary", "", nil},
		{"GET", "http://plain.example/bare", "", nil},
		{"GET", "http://plain.example/ok", schemas.ResponseSchemaInvalid, object{"response_schema": deny}},
		{"GET", "https://bad.example/", schemas.RetriesExhausted, nil},
		{"GET", "http://refused.example/", schemas.RetriesExhausted, nil},
		{"GET", "http://private.example/", schemas.DenyAddress, nil},
		{"GET", "http://missing.example/ok", schemas.SecretUnavailable, nil},
		{"GET", "http://" + tidy(strings.ToLower(h.g.plant("name to resolve"))) + ".open.example/", schemas.UpstreamDNS, nil},
	} {
		group.Go(func() {
			if c.want == "" && c.method == "POST" { // how it fails is not what is looked at
				h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"method": c.method, "url": c.target, "body": h.g.plant(c.target + " body")}))
				return
			}
			h.call(c.method, c.target, c.want, c.extra)
		})
	}
	for _, condition := range []any{
		object{"type": "json_path", "path": "$." + tidy(h.g.plant("path of a condition")), "equals": h.g.plant("value of a condition")},
		object{"type": "dom_contains", "text": h.g.plant("text of a condition")},
		object{"type": "json_path", "path": "$.deep", "equals": object{h.g.plant("key of a condition"): 1}},
		object{"assertions": []any{object{"type": "http_status", "equals": 418}}, h.g.plant("metadata key"): h.g.plant("metadata")},
		object{"type": h.g.plant("type of a condition")},
		h.g.plant("condition"),
	} {
		group.Go(func() {
			_, text := h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"type": "Http", "args": object{"method": "GET", "url": "http://plain.example/ok"}, "postcondition": condition}))
			assert.Contains(h.t, text, `"variant"`)
		})
	}
	group.Wait()
}

// statusCodes is every status that says that it went wrong.
func (h *house) statusCodes() {
	for _, status := range statuses() {
		if status == http.StatusRequestTimeout || status == http.StatusUnauthorized {
			h.call("GET", fmt.Sprintf("http://plain.example/status/%d", status), schemas.HTTPFailure, nil)
		}
		args := object{"method": "POST", "url": fmt.Sprintf("http://plain.example/status/%d", status), "body": h.g.plant(fmt.Sprintf("sent for %d", status))}
		_, text := h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(args))
		assert.Contains(h.t, text, "HTTP_FAILURE")
	}
}

// denials are what policy refuses, each for content that it saw.
func (h *house) denials() {
	key := func(s string) object { return object{"allowlist_key": s} }
	for _, c := range []struct {
		method, target string
		want           schemas.Code
		extra          object
	}{
		{"GET", "http://plain.example/ok", schemas.DenyKeyUnknown, key(h.g.plant("unknown key"))},
		{"GET", "http://plain.example/shadow", schemas.DenyKeyUnknown, key("rehearsed")},
		{"GET", "https://plain.example/" + h.g.plant("denied scheme"), schemas.DenyScheme, key("plain")},
		{"GET", "http://x:" + h.g.plant("denied userinfo") + "@plain.example/ok", schemas.DenyUserinfo, key("plain")},
		{"GET", "http://" + strings.ToLower(h.g.plant("denied host")) + ".example/", schemas.DenyHost, nil},
		{"GET", "http://plain.example:81/" + h.g.plant("denied port"), schemas.DenyPort, key("plain")},
		{"POST", "http://narrow.example/only/here/" + h.g.plant("denied method"), schemas.DenyMethod, key("narrow")},
		{"GET", "http://narrow.example/elsewhere/" + h.g.plant("denied path"), schemas.DenyPath, key("narrow")},
		{"GET", "http://plain.example/../" + h.g.plant("denied dots"), schemas.DenyPath, key("plain")},
		{"GET", "http://plain.example/%zz" + h.g.plant("denied url"), schemas.DenyURLInvalid, key("plain")},
		{"GET", "http://plain.example/ok?key_in_query=" + h.g.plant("denied parameter"), schemas.DenyURLInvalid, key("plain")},
		{"GET", "http://plain.example/ok", schemas.DenyHeader, object{"allowlist_key": "plain", "headers": object{"Authorization": h.g.plant("denied header")}}},
		{"GET", "http://plain.example/ok", schemas.DenyHeader, object{"allowlist_key": "plain", "headers": object{"X-Basic": h.g.plant("denied own header")}}},
		{"POST", "http://keyed.example/ok", schemas.DenyBody, object{"allowlist_key": "keyed", "body": object{"key_in_body": h.g.plant("denied member")}}},
		{"POST", "http://keyed.example/ok", schemas.DenyBody, object{"allowlist_key": "keyed", "body": h.g.plant("denied body")}},
	} {
		h.call(c.method, c.target, c.want, c.extra)
	}
}

// plans are plans of many decisions, good and bad.
func (h *house) plans() {
	g := h.g
	state := func(more object) object {
		s := object{"url": "http://plain.example/ok/" + g.plant("plan path"), "allowlist_key": "plain", "method": "POST", "body": object{g.plant("plan key"): g.plant("plan value")}}
		maps.Copy(s, more)
		return s
	}
	var decisions []any
	for i, more := range []object{
		nil,
		{"headers": object{"X-" + g.plant("plan header name"): g.plant("plan header")}, "idempotency_key": g.plant("plan idempotency key")},
		{"params": object{g.plant("plan parameter"): g.plant("plan parameter value"), "n": 1}},
		{"body": g.plant("plan text body")},
		{"url": "http://plain.example/status/500"},
		{"url": "http://plain.example/close"},
		{"url": "http://plain.example/echo?q=" + g.plant("plan echoed query")},
		{"url": "http://plain.example/bare"},
		{"url": "http://" + strings.ToLower(g.plant("plan denied host")) + ".example/"},
		{"allowlist_key": g.plant("plan unknown key")},
		{"headers": g.plant("plan bad headers")},
		{"params": g.plant("plan bad params")},
		{"url": nil},
		{"allowlist_key": nil},
		{"method": g.plant("plan method")},
		{"url": object{g.plant("plan url key"): 1}},
		{"headers": object{"X-A": object{g.plant("plan header object"): 1}}},
		{g.plant("plan unknown member"): g.plant("plan unknown value")},
	} {
		decisions = append(decisions, object{"effect_ref": fmt.Sprintf("effect/%d/%s", i, g.plant("plan effect")), "idempotency_key": g.plant("plan decision key"), "target_state": state(more)})
	}
	doc := object{
		"state:env.snapshot":     object{"snapshot_id": g.plant("plan snapshot")},
		"artifact:proposed.plan": object{"plan_id": g.plant("plan id of many"), "decisions": decisions},
	}
	status, text := h.owner.ask(http.MethodPost, "/v1/plans", h.jsonOf(doc))
	assert.Equal(h.t, http.StatusOK, status, text)
	assert.Contains(h.t, text, g.text(h.t, "plan effect"))
	status, text = h.owner.ask(http.MethodPost, "/v1/plans", h.jsonOf(doc), "Prefer", "respond-async")
	assert.Equal(h.t, http.StatusAccepted, status, text)
}

// canceled is an action that is stopped while it is under way, and one that rests.
func (h *house) canceled() {
	held := make(chan struct{})
	h.plain.Handle("/held", upstream.Hold(held, upstream.OK()))
	for _, target := range []string{"http://plain.example/held?q=" + h.g.plant("canceled query"), "http://plain.example/later"} {
		resp, _ := h.owner.send(http.MethodPost, "/v1/execute", h.jsonOf(object{"method": "GET", "url": target}), "Prefer", "respond-async")
		id := resp.Header.Get("Weir-Action-Id")
		h.owner.ask(http.MethodPost, "/v1/actions/"+id+"/cancel", "")
	}
	close(held)
}

// expired is a call whose time is up before a worker has survived it.
func (h *house) expired() {
	resp, _ := h.owner.send(http.MethodPost, "/v1/execute", h.jsonOf(object{"method": "GET", "url": "http://panics.example/?q=" + h.g.plant("expired query")}), "Prefer", "respond-async")
	id := resp.Header.Get("Weir-Action-Id")
	h.settled(id)
	h.owner.ask(http.MethodGet, "/v1/actions/"+id, "")
	h.chatsExpired()
}

// panicked is a call on which the worker panics every time, until it is parked.
func (h *house) panicked() {
	resp, text := h.owner.send(http.MethodPost, "/v1/execute", h.jsonOf(object{"method": "GET", "url": "http://panics.example/?q=" + h.g.plant("poisonous query")}), "Prefer", "respond-async")
	require.Equal(h.t, http.StatusAccepted, resp.StatusCode, text)
	id := resp.Header.Get("Weir-Action-Id")
	h.settled(id)
	_, text = h.owner.ask(http.MethodGet, "/v1/dead-letters", "")
	assert.Contains(h.t, text, `"POISON"`)
	var page schemas.Page[schemas.DeadLetterView]
	require.NoError(h.t, json.Unmarshal([]byte(text), &page))
	for _, d := range page.Items {
		h.owner.ask(http.MethodPost, "/v1/dead-letters/redrive", fmt.Sprintf(`{"sequence":%d}`, d.Seq))
	}
}

// settled follows an action to its end.
func (h *house) settled(id string) {
	h.t.Helper()
	assert.Eventually(h.t, func() bool {
		_, text := h.owner.send(http.MethodGet, "/v1/actions/"+id, "")
		return strings.Contains(text, `"settled"`)
	}, patience, tick, "action %s did not end", id)
}

// How long an end is waited for, and how often it is looked for.
const (
	patience = 60 * time.Second
	tick     = 100 * time.Millisecond
)
