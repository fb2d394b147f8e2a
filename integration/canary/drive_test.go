//go:build e2e

package canary_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// drive uses every surface as the owner, with canaries in its requests and in the answers.
func (w *world) drive() {
	w.repository(beacon)
	w.marked()
	parallel(w.places, w.parameters, w.headers, w.urls, w.calls, w.failures, w.denials, w.plans, w.malformed, w.tokens, w.reload, w.rules)
	parallel(w.runs, w.tasks, w.pushes, w.upstreamRepos, w.chats)
	w.console()
	w.strangers()
}

// marked is an action, a request and a task whose ids are beacons.
func (w *world) marked() {
	status, text := w.owner.ask(http.MethodPost, "/v1/execute", w.json(object{"type": "Http", "request_id": beacon, "args": object{"method": "GET", "url": w.plain.URL() + "/ok"}}))
	require.Equal(w.t, http.StatusOK, status, text)
	for _, p := range []*person{w.stranger, w.nobody} {
		p.ask(http.MethodGet, "/v1/actions/none", "", "X-Request-Id", beacon)
	}
	w.task("marked", object{"request_id": beacon + ".task"})
}

// execute sends one call as the owner.
func (w *world) execute(args object, header ...string) string {
	_, text := w.owner.ask(http.MethodPost, "/v1/execute", w.json(args), header...)
	return text
}

// unknown is an action whose outcome is unknown.
func (w *world) unknown() string {
	resp, text := w.owner.send(http.MethodPost, "/v1/execute", w.json(object{"method": "POST", "url": w.plain.URL() + "/close", "body": 1}))
	require.Contains(w.t, text, schemas.OutcomeUnknownCode)
	return resp.Header.Get("Weir-Action-Id")
}

// upstreams sets what the upstreams answer.
func (w *world) upstreams() {
	g, ok := w.g, http.StatusOK
	full := func(class string, status int) upstream.Behaviour { return upstream.Raw(fullAnswer(g, class, status)) }
	location := func(class string) string { return g.plant(class) + "?q=" + g.plant(class+" query") }
	for path, b := range map[string]upstream.Behaviour{
		"/ok": full("ok", ok), "/shadow": full("shadow", ok), "/refused": full("refused", http.StatusUnprocessableEntity), "/never": full("never", http.StatusServiceUnavailable),
		"/later":     upstream.Respond(http.StatusServiceUnavailable, g.plant("later"), upstream.Header("Retry-After", "3600")),
		"/moved":     upstream.Redirect(http.StatusFound, "http://elsewhere.example/"+location("location")),
		"/reset":     upstream.ResetBeforeResponse(),
		"/close":     upstream.CloseBeforeResponse(),
		"/garbage":   upstream.Raw("SPEAKS " + g.plant("garbage") + "\r\n\r\n"),
		"/badheader": upstream.Raw("HTTP/1.1 200 OK\r\n" + g.plant("malformed header") + "\r\n\r\n"),
		"/short":     upstream.Raw("HTTP/1.1 200 " + g.plant("short reason") + "\r\nContent-Length: 9999\r\n\r\n" + g.plant("short body")),
		"/chunks":    upstream.Raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz" + g.plant("bad chunk") + "\r\n"),
		"/large":     upstream.Respond(ok, strings.Repeat(g.plant("large")+" ", 4000)),
		"/headers":   upstream.Respond(ok, "", upstream.Header("X-Long", strings.Repeat(g.plant("long header")+" ", 400))),
		"/coding":    upstream.Encoding(g.plant("coding"), g.plant("coded body")),
		"/zip":       upstream.Encoding("gzip", g.plant("not zipped")),
		"/zipped":    upstream.Gzip(g.plant("zipped")),
		"/text":      upstream.Respond(ok, g.plant("text body"), upstream.Header("Content-Type", "text/plain; name="+g.plant("media type"))),
		"/binary":    upstream.Respond(ok, "\xff\xfe"+encodings()["UTF-16, low first"].of(g.plant("utf16 body"))),
		"/bare":      upstream.Respond(ok, g.plant("bare body")),
		"/echo":      echoAll(ok), "/echo/busy": echoAll(http.StatusInternalServerError),
		"/echo/json": upstream.EchoJSON(ok), "/echo/url": upstream.EchoURLEncoded(ok), "/echo/header": upstream.EchoInHeader(ok), "/echo/gzip": upstream.EchoGzip(ok), "/echo/chunked": upstream.EchoChunked(ok, 7),
		"/held": upstream.Answer(func(x *upstream.Exchange) { w.held["plain"] <- struct{}{}; x.Await() }),
	} {
		w.plain.Handle(path, b)
	}
	for _, route := range []string{schemas.RouteRunStream, schemas.RouteRunSync, schemas.RouteChat} {
		w.plain.Handle("/wire"+route, full("wire", ok))
	}
	w.tls.Handle("/ok", full("tls", ok))
	w.keyed.Handle("/keyed", echoAll(ok))
	w.keyed.Handle("/hop", upstream.Redirect(http.StatusFound, "/hop/"+location("hop")))
}

// fullAnswer has a canary in every place of an answer.
func fullAnswer(g *garden, class string, status int) string {
	of := func(place string) string { return g.plant(class + " " + place) }
	body := fmt.Sprintf(`{"ok":true,%q:%q,"deep":[{%q:[%q,1.50]}]}`, of("key"), of("value"), of("deep key"), of("deep value"))
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json; profile=%s\r\n%s: %s\r\nSet-Cookie: %s=%s; Path=/%s\r\nLocation: /%s?q=%s\r\nETag: \"%s\"\r\n"+
		"WWW-Authenticate: Basic realm=\"%s\"\r\nServer: %s\r\nVia: 1.1 %s\r\nLink: <%s>\r\nTrailer: X-Trailer\r\nTransfer-Encoding: chunked\r\n\r\n%x;ext=%s\r\n%s\r\n0\r\nX-Trailer: %s\r\n\r\n",
		status, of("reason"), of("media type"), of("header name"), of("header value"), of("cookie name"), of("cookie"), of("cookie path"), of("location"), of("location query"), of("etag"),
		of("realm"), of("server"), of("via"), of("link"), len(body), of("chunk extension"), body, of("trailer"))
}

// echoAll answers with all of the request, in the body and in headers.
func echoAll(status int) upstream.Behaviour {
	return upstream.Answer(func(x *upstream.Exchange) {
		text, fields := x.Request.Method+" "+x.Request.Target+"\n", ""
		for _, h := range x.Request.Headers {
			text += h.Name + ": " + h.Value + "\n"
			fields += h.Value + " "
		}
		text += string(x.Request.Body) + "\n" + base64.StdEncoding.EncodeToString([]byte(fields))
		x.Write(upstream.Message(x.Request.Method, status, text, upstream.Header("Content-Type", "text/plain"), upstream.Header("X-Echo", fields), upstream.Header("Set-Cookie", "s="+url.QueryEscape(fields))))
	})
}

// calls are calls that succeed, with a canary in every place, and their repeats.
func (w *world) calls() {
	of := func(place string) string { return w.g.plant("sent " + place) }
	key := of("idempotency key")
	call := object{
		"type": "Http", "idempotency_key": key,
		"args": object{
			"method": "POST", "url": w.plain.URL() + "/ok?q=" + of("query") + "&" + of("parameter") + "=1", "headers": object{of("header name"): of("header"), "X-Mail": "p@example." + w.g.word("mail")},
			"body":            object{of("key"): of("value"), "list": []any{of("item"), object{of("deep key"): nil}}},
			"response_schema": object{"type": "object", "description": of("schema text"), "$defs": object{of("schema key"): true}},
		},
		"postcondition": []any{object{"type": "http_status", "equals": 200}},
	}
	for range 2 { // the second is answered by what is stored
		status, text := w.owner.ask(http.MethodPost, "/v1/execute", w.json(call), "Idempotency-Key", key)
		assert.Equal(w.t, http.StatusOK, status, text)
	}
	call["args"] = object{"method": "POST", "url": w.plain.URL() + "/ok", "body": w.g.plant("other body")}
	status, text := w.owner.ask(http.MethodPost, "/v1/execute", w.json(call), "Idempotency-Key", key)
	assert.Equal(w.t, http.StatusUnprocessableEntity, status, text)
	for _, path := range []string{"/echo", "/echo/busy", "/echo/json", "/echo/url", "/echo/header", "/echo/gzip", "/echo/chunked"} {
		text := w.execute(object{"method": "POST", "url": w.plain.URL() + path + "?a=" + w.g.plant("echoed query"), "headers": object{"X-Mine": w.g.plant("echoed header")}, "body": object{"echo": w.g.plant("echoed body")}})
		contains(w.t, text, "REDACTED", path)
	}
	status, text = w.owner.ask(http.MethodPost, "/v1/execute", w.json(object{"type": "Http", "idempotency_key": w.g.plant("upstream key"), "args": object{"method": "POST", "url": w.keyed.URL() + "/keyed", "body": object{"b": w.g.plant("keyed body")}}}))
	assert.Equal(w.t, http.StatusOK, status, text)
	w.execute(object{"method": "GET", "url": w.plain.URL() + "/shadow"})
	w.execute(object{"method": "GET", "url": w.keyed.URL() + "/hop"})
	w.execute(object{"method": "POST", "url": w.tls.URL() + "/ok", "body": w.g.plant("over tls")})
	for _, path := range []string{"/zipped", "/text", "/binary", "/bare"} {
		w.execute(object{"method": "GET", "url": w.plain.URL() + path})
	}
	for _, path := range []string{"", "/events", "/payload"} {
		w.owner.ask(http.MethodGet, "/v1/actions/"+beacon+path, "", "Accept", "application/json")
	}
	w.owner.ask(http.MethodGet, "/v1/actions/"+beacon+"/events", "", "Accept", "text/event-stream", "Last-Event-ID", w.g.plant("last event id"))
	canceled := w.begin("plain", "/v1/execute", object{"method": "GET", "url": w.plain.URL() + "/held?q=" + w.g.plant("canceled query")})
	w.owner.ask(http.MethodPost, "/v1/actions/"+canceled+"/cancel", "")
	w.settled(canceled)
}

// call is one call with canaries, and the code that it must end with.
type call struct {
	method, url string
	code        schemas.Code
	more        object
}

func (w *world) end(list []call) {
	var all []func()
	for _, c := range list {
		all = append(all, func() {
			args := object{"method": c.method, "url": c.url, "headers": object{"X-Content": w.g.plant("header of " + string(c.code))}}
			if c.method != http.MethodGet {
				args["body"] = object{"content": w.g.plant("body of " + string(c.code))}
			}
			contains(w.t, w.execute(with(args, c.more)), `"`+string(c.code), c.method+" "+c.url)
		})
	}
	parallel(all...)
}

// failures are the failures that a call can end with. Those of a connection, of names and
// of certificates have an error text that names them.
func (w *world) failures() {
	get, post, at := http.MethodGet, http.MethodPost, w.plain.URL()
	deny := object{"type": "object", "required": []any{w.g.plant("required member")}, "properties": object{"ok": object{"const": w.g.plant("wanted constant")}}}
	w.end([]call{
		{post, at + "/refused", schemas.HTTPFailure, nil},
		{get, at + "/never", schemas.RetriesExhausted, nil},
		{get, at + "/reset", schemas.RetriesExhausted, nil},
		{post, at + "/reset", schemas.OutcomeUnknownCode, nil},
		{get, at + "/moved", schemas.DenyRedirect, nil},
		{post, at + "/short", schemas.UpstreamTruncated, nil},
		{post, at + "/large", schemas.UpstreamTooLarge, nil},
		{get, at + "/headers", schemas.UpstreamHeadersTooLarge, nil},
		{post, at + "/coding", schemas.UpstreamEncoding, nil},
		{post, at + "/zip", schemas.UpstreamEncoding, nil},
		{post, at + "/garbage", schemas.OutcomeUnknownCode, nil},
		{post, at + "/badheader", schemas.OutcomeUnknownCode, nil},
		{post, at + "/chunks", "UPSTREAM_", nil},
		{get, at + "/text", schemas.ResponseNotJSON, object{"response_schema": true}},
		{get, at + "/ok", schemas.ResponseSchemaInvalid, object{"response_schema": deny}},
		{get, w.forged.URL() + "/", schemas.RetriesExhausted, object{"headers": object{}}},
		{get, w.gone + "/", schemas.RetriesExhausted, object{"headers": object{}}},
		{get, "http://10.1.2.3/", schemas.DenyAddress, object{"headers": object{}}},
		{get, w.keyed.URL() + "/missing", schemas.SecretUnavailable, nil},
		{get, "http://" + strings.ToLower(tidy(w.g.plant("name to resolve"))) + ".onion/", schemas.UpstreamDNS, object{"headers": object{}}},
	})
	of := func(place string) string { return w.g.plant("condition " + place) }
	for _, condition := range []any{
		object{"type": "json_path", "path": "$." + tidy(of("path")), "equals": of("value")},
		object{"type": "dom_contains", "text": of("text")},
		object{"assertions": []any{object{"type": "http_status", "equals": 418}}, of("metadata key"): of("metadata")},
		object{"type": of("type")},
		of("text alone"),
	} {
		contains(w.t, w.execute(object{"type": "Http", "args": object{"method": "GET", "url": at + "/ok"}, "postcondition": condition}), `"variant"`, "a condition that fails")
	}
}

// denials are calls that policy refuses.
func (w *world) denials() {
	get, post, at, of := http.MethodGet, http.MethodPost, w.plain.URL(), func(c string) string { return w.g.plant("denied " + c) }
	key := func(name string, more object) object { return with(object{"allowlist_key": name}, more) }
	host := strings.TrimPrefix(at, "http://")
	w.end([]call{
		{get, at + "/ok", schemas.DenyKeyUnknown, key(of("key"), nil)},
		{get, at + "/shadow", schemas.DenyKeyUnknown, key("rehearsed", nil)},
		{get, "https://" + host + "/" + of("scheme"), schemas.DenyScheme, key("plain", nil)},
		{get, "http://x:" + of("userinfo") + "@" + host + "/ok", schemas.DenyUserinfo, key("plain", nil)},
		{get, "http://" + strings.ToLower(of("host")) + ".example/", schemas.DenyHost, nil},
		{get, "http://127.0.0.1:81/" + of("port"), schemas.DenyPort, key("plain", nil)},
		{post, w.keyed.URL() + "/only/here/" + of("method"), schemas.DenyMethod, key("narrow", nil)},
		{get, w.keyed.URL() + "/elsewhere/" + of("path"), schemas.DenyPath, key("narrow", nil)},
		{get, at + "/%zz" + of("url"), schemas.DenyURLInvalid, key("plain", nil)},
		{get, at + "/ok?key_in_query=" + of("parameter"), schemas.DenyURLInvalid, key("plain", nil)},
		{get, at + "/ok", schemas.DenyHeader, key("plain", object{"headers": object{"Authorization": of("header")}})},
		{post, w.keyed.URL() + "/keyed", schemas.DenyBody, key("keyed", object{"body": object{"key_in_body": of("member")}})},
	})
}

// headers sends what clients and proxies send, each with a canary, and tokens that are none.
func (w *world) headers() {
	call := w.json(object{"method": "GET", "url": w.plain.URL() + "/ok"})
	for _, name := range []string{
		"Cookie", "X-Api-Key", "User-Agent", "Referer", "Origin", "Accept", "Accept-Language", "Content-Type", "Content-Encoding", "Traceparent", "Tracestate", "Baggage", "X-Forwarded-For",
		"X-Forwarded-Host", "X-Forwarded-Prefix", "Forwarded", "X-Real-Ip", "If-Match", "Range", "Prefer", schemas.HeaderOrderingKey, schemas.HeaderPriority, schemas.HeaderDelay, schemas.HeaderNotBefore,
		"Proxy-Authorization", "Last-Event-Id", "Idempotency-Key", "X-Original-Url", "X-Http-Method-Override", "Cloudevents-Id", "Weir-Action-Id", "Nats-Msg-Id", w.g.plant("request header's name"),
	} {
		text := w.g.plant("request header")
		w.owner.ask(http.MethodGet, "/v1/actions", "", name, text)
		w.owner.ask(http.MethodPost, "/v1/execute", call, name, text)
	}
	w.owner.ask(http.MethodGet, "/v1/actions", "", "X-Request-ID", w.g.plant("request id")+" b") // no identifier: it is replaced
	for _, form := range []string{"Bearer %s", "Basic %s", "%s", "Bearer weir1_%s", "Bearer weirt1_%s"} {
		text := fmt.Sprintf(form, w.g.plant("authorization"))
		for _, path := range []string{"/v1/actions", "/metrics", schemas.RouteModels, schemas.RouteAgentTask, "/git/" + beacon + "/info/refs?service=git-upload-pack"} {
			w.nobody.ask(http.MethodGet, path, "", "Authorization", text)
		}
	}
	w.nobody.ask(http.MethodGet, "/v1/actions?access_token="+w.g.plant("token in a query"), "")
	lost := "weir1_" + random(8) + "_" + random(22)
	w.g.known("a token that is none", lost)
	for _, p := range []*person{w.nobody, w.owner} {
		p.ask(http.MethodPost, schemas.RouteAgentAPI, w.json(object{"request_id": "lost", "operation": "status", "auth_token": lost}))
	}
}

// urls have a canary in each part of a target.
func (w *world) urls() {
	at := w.plain.URL()
	for part, form := range map[string]string{
		"path": at + "/ok/%s", "query": at + "/ok?q=%s", "fragment": at + "/ok#%s", "user": "http://%s@127.0.0.1/ok", "host": "http://%s/ok", "subdomain": "http://%s.onion/ok",
		"scheme": "%s://127.0.0.1/ok", "port": "http://127.0.0.1:%s/ok", "opaque": "mailto:%s", "escape": at + "/%%41%s%%zz", "whole": "%s",
	} {
		for _, target := range []string{fmt.Sprintf(form, w.g.plant("url "+part)), fmt.Sprintf(form, w.g.word("url "+part))} {
			call := object{"method": "GET", "url": target}
			w.execute(call)
			w.owner.ask(http.MethodPost, "/v1/policy/explain", w.json(call))
			w.owner.ask(http.MethodPost, "/v1/plans", w.json(w.plan(object{"url": target, "allowlist_key": "plain", "params": object{w.g.plant("param name"): w.g.plant("param")}})))
		}
	}
}

// plan is a plan of some target states, with canaries beside them.
func (w *world) plan(states ...object) object {
	of, decisions := func(place string) string { return w.g.plant("plan " + place) }, []any{}
	for _, s := range states {
		decisions = append(decisions, object{"effect_ref": of("effect"), "idempotency_key": of("decision key"), "target_state": s})
	}
	return object{"state:env.snapshot": object{"snapshot_id": of("snapshot"), of("snapshot key"): of("snapshot value")}, "artifact:proposed.plan": object{"plan_id": of("id"), "decisions": decisions}}
}

// plans have decisions that pass, fail and are refused.
func (w *world) plans() {
	of, at := func(place string) string { return w.g.plant("plan " + place) }, w.plain.URL()
	var states []object
	for _, more := range []object{
		nil,
		{"headers": object{"X-" + of("header name"): of("header")}, "idempotency_key": of("idempotency key")},
		{"params": object{of("parameter"): of("parameter value")}},
		{"body": of("text body")},
		{"url": at + "/refused"},
		{"url": at + "/close"},
		{"url": at + "/echo?q=" + of("echoed query")},
		{"url": "http://" + strings.ToLower(of("denied host")) + ".example/"},
		{"allowlist_key": of("unknown key")},
		{"headers": of("bad headers")},
		{"params": of("bad params")},
		{"url": nil},
		{"method": of("method")},
		{"url": object{of("url key"): 1}},
		{of("unknown member"): of("unknown value")},
	} {
		states = append(states, with(object{"url": at + "/ok/" + of("path"), "allowlist_key": "plain", "method": "POST", "body": object{of("key"): of("value")}}, more))
	}
	status, text := w.owner.ask(http.MethodPost, "/v1/plans", w.json(w.plan(states...)))
	assert.Equal(w.t, http.StatusOK, status, text)
}

// malformed are requests that are refused before they are actions.
func (w *world) malformed() {
	for _, body := range []string{
		`{"method":"GET","url":"%s`, `{"method":"GET","url":"a","%s":1,"%s":2}`, "{\"method\":\"\xff%s\"}", `{} "%s"`, `["%s"]`, `"%s"`, `{"METHOD":"%s"}`, strings.Repeat(`{"%s":`, 200) + "1" + strings.Repeat("}", 200),
		`{"model":"any/fine","messages":["%s"]}`, `{"description":"%s"`, `{"inputs":{"%s":1},"task_type":"%s"}`,
	} {
		body = strings.ReplaceAll(body, "%s", w.g.plant("malformed body"))
		for _, path := range []string{"/v1/execute", "/v1/plans", "/v1/tokens", schemas.RouteAgentAPI, schemas.RouteRunSync, schemas.RouteRunStream, schemas.RouteChat, schemas.RouteTasks, schemas.RouteRepos, schemas.RouteTaskLease} {
			status, text := w.owner.ask(http.MethodPost, path, body)
			assert.GreaterOrEqual(w.t, status, http.StatusBadRequest, text)
		}
	}
	for _, name := range []string{"api_base", "api_key", "extra_headers", "webhook", "authorization", "password"} {
		w.owner.ask(http.MethodPost, schemas.RouteChat, w.json(object{"model": "any/fine", "messages": []any{object{"role": "user", "content": "c"}}, name: object{w.g.plant("name in a chat"): "https://" + w.g.plant("text in a chat") + ".example/"}}))
	}
	w.owner.ask(http.MethodPost, "/v1/execute", w.json(object{"method": "POST", "url": w.plain.URL() + "/ok", "body": strings.Repeat(w.g.plant("too large"), 20000)}))
	w.owner.ask(http.MethodPost, "/v1/execute", w.g.plant("media type body"), "Content-Type", "text/"+w.g.plant("media type of a body"))
	for _, method := range []string{http.MethodDelete, "PROPFIND", tidy(w.g.plant("method"))} {
		w.owner.ask(method, "/"+w.g.plant("unknown path")+"?"+w.g.plant("unknown query"), "")
	}
	for _, text := range []string{
		"GET /%s HTTP/9.9\r\n\r\n", "%s / HTTP/1.1\r\nHost: a\r\n\r\n", "%s\r\n\r\n", "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", "GET http://%s/ HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT %s:443 HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n%s name: v\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", "POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: %s\r\n\r\n", "GET /%s\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "\x16\x03\x01%s",
		"POST /v1/execute HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n", "POST /v1/execute HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: %s\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n%s", "POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n{%s",
		"GET /" + strings.Repeat("%s", 1000) + " HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + strings.Repeat("%s", 2000) + "\r\n\r\n",
	} {
		w.owner.raw(strings.ReplaceAll(text, "%s", w.g.plant("wire")))
	}
}

// tokens are made, limited, used up and revoked.
func (w *world) tokens() {
	limited := w.made(w.owner, object{"name": w.g.plant("token name"), "scopes": []any{"actions:write"}, "entries": []any{"narrow"}, "models": []any{"spent/*"}})
	rated := w.made(w.owner, object{"name": "rated", "scopes": []any{"actions:read"}, "rate": "1/h"})
	limited.ask(http.MethodPost, "/v1/execute", w.json(object{"method": "GET", "url": w.plain.URL() + "/" + w.g.plant("call of another entry"), "allowlist_key": "plain"}))
	limited.ask(http.MethodPost, schemas.RouteChat, w.json(object{"model": w.g.word("model of no token"), "messages": []any{object{"role": "user", "content": w.g.plant("chat of another model")}}}))
	for range 3 {
		rated.ask(http.MethodPost, "/v1/policy/explain", w.json(object{"url": "http://127.0.0.1/" + w.g.plant("limited call")}))
	}
	w.owner.ask(http.MethodGet, "/v1/tokens", "")
	w.owner.ask(http.MethodPost, "/v1/tokens/"+limited.id+"/revoke", "")
	limited.ask(http.MethodGet, "/v1/actions", "")
	w.owner.saw(limited)
	w.owner.saw(rated)
}

// reload tries to put a configuration into force that is wrong.
func (w *world) reload() {
	right := w.file("weir.yaml")
	for _, wrong := range []string{"policy: {%s: 1}", "listen: [%s", "policy: {allowlist: [{name: x, url_prefix: \"ftp://%s/\"}]}", "models: {x: {url: \"%s\"}}"} {
		require.NoError(w.t, os.WriteFile(w.at("weir.yaml"), fmt.Appendf(nil, wrong, w.g.plant("wrong configuration")), 0o600))
		status, text := w.admin.ask(http.MethodPost, "/v1/policy/reload", "")
		assert.GreaterOrEqual(w.t, status, http.StatusBadRequest, text)
	}
	require.NoError(w.t, os.WriteFile(w.at("weir.yaml"), right, 0o600))
}

// rules have canaries in each of their texts, and take effect on calls.
func (w *world) rules() {
	of, at := func(place string) string { return w.g.plant("rule " + place) }, w.plain.URL()+"/ruled/"
	mock := object{"type": "mock", "match": object{"url_pattern": at + "mock"}, "action": object{"status": 200, "body": object{of("mock key"): of("mock value")}, "headers": object{of("mock header name"): of("mock header")}}}
	for i, rule := range []object{
		mock,
		{"type": "redirect", "match": object{"url_pattern": at + "from/*"}, "action": object{"to_url": w.plain.URL() + "/ok/" + of("redirect path") + "/$1?q=" + of("redirect query")}},
		{"type": "redirect", "match": object{"url_pattern": at + "denied"}, "action": object{"to_url": w.keyed.URL() + "/only/here/" + of("denied path")}},
		{"type": "headers", "match": object{"url_pattern": at + "marked"}, "action": object{
			"request_headers": []any{object{"op": "set", "name": of("header name"), "value": of("header")}}, "response_headers": []any{object{"op": "set", "name": "X-Marked", "value": of("marked answer")}},
		}},
	} {
		contains(w.t, w.operate(schemas.OpRulesCreate, object{"rule": with(rule, object{"id": fmt.Sprintf("r%d", i), "name": of("name"), of("member"): of("member's value")})}), `"ok":true`, "a rule")
	}
	for _, path := range []string{"mock", "from/" + of("wildcard"), "denied", "marked"} {
		args := object{"method": "GET", "url": at + path, "allowlist_key": "plain"}
		w.execute(args)
		w.owner.ask(http.MethodPost, "/v1/plans", w.json(w.plan(args)))
		w.owner.ask(http.MethodPost, schemas.RouteRunSync, w.json(object{"request_id": sensitiveRun + "rule." + random(4), "task_type": schemas.TaskHTTPExecute, "risk_tier": schemas.RiskPHI, "inputs": args}))
		w.owner.ask(http.MethodPost, "/v1/rules/preview", w.json(with(args, object{"url": at + path + "?" + of("previewed query"), "rule": mock})))
	}
	for _, refused := range []struct {
		operation string
		args      object
	}{
		{schemas.OpRulesEnable, object{"id": "r0", "if_match": of("if_match")}},
		{schemas.OpRulesEnable, object{"id": of("unknown") + " b"}},
		{schemas.OpRulesCreate, object{"rule": of("that is text")}},
		{schemas.OpRulesCreate, object{"rule": object{"id": of("refused id") + "/b", "type": of("type")}}},
		{schemas.OpRulesGet, object{"id": of("id of a get")}},
		{of("operation"), object{}},
		{schemas.OpRulesPatch, object{"id": "r0", "patch": object{"match": object{"url_pattern": of("pattern") + " b", "method": of("method")}}}},
	} {
		w.operate(refused.operation, refused.args)
	}
	w.owner.ask(http.MethodGet, "/v1/rules", "")
}

// operate sends an operation of the agent API, with canaries beside its arguments.
func (w *world) operate(name string, args object) string {
	etag := decode[struct {
		Data struct {
			Etag string `json:"rules_etag"`
		} `json:"data"`
	}](w.t, func() string {
		_, text := w.owner.send(http.MethodPost, schemas.RouteAgentAPI, `{"request_id":"s","operation":"status","args":{}}`)
		return text
	}()).Data.Etag
	args = with(object{"if_match": etag, w.g.plant("unknown argument"): w.g.plant("its value")}, args)
	_, text := w.owner.ask(http.MethodPost, schemas.RouteAgentAPI, w.json(object{"type": schemas.AgentAPIType, "request": object{"request_id": w.g.plant("agent's request_id") + " <b>", "operation": name, "args": args, "auth_token": w.owner.token}}))
	return text
}

// console signs in with the owner's token; the page is the same for everybody.
func (w *world) console() {
	own := []string{"Weir-Console", "1", "Sec-Fetch-Site", "same-origin"}
	browser := &person{w: w}
	browser.ask(http.MethodPost, "/console/session", w.json(object{"token": w.g.plant("console token")}), own...)
	resp, text := browser.send(http.MethodPost, "/console/session", w.json(object{"token": w.owner.token}), own...)
	require.Equal(w.t, http.StatusOK, resp.StatusCode, text)
	session := resp.Cookies()[0]
	w.g.known("a session", secretOf(session.Value))
	for _, path := range []string{"/console/session", "/v1/actions", "/v1/actions/" + beacon + "/payload", "/v1/evidence"} {
		status, text := browser.ask(http.MethodGet, path, "", append([]string{"Accept", "application/json", "Cookie", session.Name + "=" + session.Value}, own...)...)
		assert.Equal(w.t, http.StatusOK, status, text)
	}
	w.owner.saw(browser)
	for _, p := range []*person{w.owner, w.stranger, w.nobody} {
		for _, path := range []string{"/console/", "/console/?" + w.g.plant("console query"), "/console/assets/" + w.g.plant("console asset"), "/console/session"} {
			p.ask(http.MethodGet, path, "", "Weir-Console", "1", "Cookie", session.Name+"="+w.g.plant("cookie"))
		}
	}
}

// strangers ask for all that is the owner's by its right name.
func (w *world) strangers() {
	w.execute(object{"method": "POST", "url": w.plain.URL() + "/ok", "body": w.g.plant("body under a shared key")}, "Idempotency-Key", "shared")
	ids := []string{beacon, beacon + ".task"}
	for _, kind := range schemas.Kinds() { // one of each kind
		page := decode[schemas.Page[schemas.ActionEntry]](w.t, w.owner.get("/v1/actions?limit=1&kind="+string(kind)))
		if assert.Len(w.t, page.Items, 1, "no action of the kind %s", kind) {
			ids = append(ids, page.Items[0].ID)
		}
	}
	for _, p := range []*person{w.stranger, w.nobody} {
		for _, id := range ids {
			for _, path := range []string{"/v1/actions/" + id, "/v1/actions/" + id + "/events", "/v1/actions/" + id + "/payload", schemas.RouteTasks + "/" + id, "/v1/evidence?action_id=" + id} {
				p.ask(http.MethodGet, path, "", "Accept", "application/json")
			}
			p.ask(http.MethodPost, "/v1/actions/"+id+"/cancel", "")
			p.ask(http.MethodPost, schemas.RouteTasks+"/"+id+"/token", "")
		}
		for _, path := range []string{
			"/v1/actions", "/v1/evidence", "/v1/dead-letters", "/v1/tokens?tenant=" + beacon, "/v1/policy", "/v1/operations", "/v1/rules", schemas.RouteBudgets, schemas.RouteModels, schemas.RouteTasks, schemas.RouteRepos,
			schemas.RouteRepos + "/" + beacon, "/git/" + beacon + "/info/refs?service=git-upload-pack", "/metrics", "/readyz", "/healthz", "/health",
		} {
			p.ask(http.MethodGet, path, "", "Accept", "application/json")
		}
		p.ask(http.MethodPost, "/v1/tokens/"+w.owner.id+"/revoke", "")
		p.ask(http.MethodPost, "/v1/rules/preview", w.json(object{"url": w.plain.URL() + "/ruled/mock"}))
		p.ask(http.MethodPost, schemas.RouteAgentAPI, `{"request_id":"r","operation":"rules.list","args":{}}`)
		p.ask(http.MethodPost, "/v1/execute", w.json(object{"method": "GET", "url": "http://nowhere.example/"}), "Idempotency-Key", "shared")
		p.ask(http.MethodPost, "/v1/execute", w.json(object{"type": "Http", "request_id": beacon, "args": object{"method": "GET", "url": "http://nowhere.example/"}}))
		p.ask(http.MethodPost, schemas.RouteRunSync, w.json(object{"request_id": sensitiveRun + "1", "task_type": schemas.TaskEcho, "inputs": object{}}))
		p.ask(http.MethodPost, schemas.RouteTasks, w.json(object{"request_id": beacon + ".task", "repo": beacon, "description": "theirs"}))
		p.ask(http.MethodPost, schemas.RouteChat, w.json(object{"model": "gone", "messages": []any{object{"role": "user", "content": "theirs"}}}), "Idempotency-Key", "shared-chat")
	}
}
