//go:build e2e

package canary_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// door is what is refused before it is an action.
func (h *house) door() {
	g := h.g
	for class, body := range map[string]string{
		"not json": `{"method":"GET","url":"%s`, "twice": `{"method":"GET","url":"a","%s":1,"%s":2}`, "not utf8": "{\"method\":\"\xff%s\"}", "trailing": `{} "%s"`,
		"list": `["%s"]`, "text": `"%s"`, "case": `{"METHOD":"%s"}`, "deep": strings.Repeat(`{"%s":`, 70) + "1" + strings.Repeat("}", 70), "surrogate": `{"method":"\ud800%s"}`,
	} {
		text := g.plant("body " + class)
		h.owner.ask(http.MethodPost, "/v1/execute", strings.ReplaceAll(body, "%s", text))
		h.owner.ask(http.MethodPost, "/v1/plans", strings.ReplaceAll(body, "%s", text))
		h.owner.ask(http.MethodPost, "/v1/tokens", strings.ReplaceAll(body, "%s", text))
	}
	h.owner.ask(http.MethodPost, "/v1/execute", `{"method":"POST","url":"http://plain.example/ok","body":"`+strings.Repeat(g.plant("too large"), 20000)+`"}`)
	h.owner.ask(http.MethodPost, "/v1/execute", g.plant("media type body"), "Content-Type", "text/"+g.plant("media type of a body"))
	h.owner.ask(http.MethodPost, "/v1/execute", upstream.Compress(g.plant("compressed body")), "Content-Encoding", "gzip")
	for _, method := range []string{http.MethodDelete, http.MethodPut, "PROPFIND", tidy(g.plant("method"))} {
		h.owner.ask(method, "/v1/execute", "")
		h.owner.ask(method, "/"+g.plant("unknown path")+"/"+g.plant("unknown segment")+"?"+g.plant("unknown query"), "")
	}
	h.owner.ask(http.MethodGet, "/v1/actions/"+g.plant("unknown action")+"/events", "", "Accept", "text/event-stream")
	h.owner.ask(http.MethodGet, "/v1/actions/%2e%2e%2f"+g.plant("path with dots"), "")
	h.owner.ask(http.MethodGet, "/v1/policy/explain", "")
	for class, text := range map[string]string{
		"request line": "GET /%s HTTP/9.9\r\n\r\n", "method": "%s / HTTP/1.1\r\nHost: a\r\n\r\n", "no http": "%s\r\n\r\n", "host": "GET / HTTP/1.1\r\nHost: %s\r\n\r\n",
		"two hosts": "GET / HTTP/1.1\r\nHost: a\r\nHost: %s\r\n\r\n", "absolute": "GET http://%s/ HTTP/1.1\r\nHost: a\r\n\r\n", "connect": "CONNECT %s:443 HTTP/1.1\r\nHost: a\r\n\r\n",
		"header name": "GET / HTTP/1.1\r\nHost: a\r\n%s name: v\r\n\r\n", "no colon": "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", "length": "POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: %s\r\n\r\n",
		"two lengths": "POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n%s", "chunk": "POST /v1/execute HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n",
		"coding": "POST /v1/execute HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: %s\r\n\r\n", "preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n%s", "bare feed": "GET /%s HTTP/1.1\nHost: a\n\n",
		"control": "GET /%s\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "tls": "\x16\x03\x01%s", "expect": "POST /v1/execute HTTP/1.1\r\nHost: a\r\nExpect: %s\r\nContent-Length: 2\r\n\r\n{}",
	} {
		h.raw(strings.ReplaceAll(text, "%s", g.plant("wire "+class)), h.owner)
	}
	h.raw("GET /"+strings.Repeat(g.plant("long target"), 1000)+" HTTP/1.1\r\nHost: a\r\n\r\n", h.owner)
	h.owner.ask(http.MethodGet, "/v1/actions?q="+strings.Repeat(g.plant("long query"), 400), "")
	h.raw("GET / HTTP/1.1\r\nHost: a\r\nX-Long: "+strings.Repeat(g.plant("long header line"), 2000)+"\r\n\r\n", h.owner)
}

// repeats are the same names with other bodies.
func (h *house) repeats() {
	key := h.g.plant("idempotency key")
	first := h.jsonOf(object{"method": "POST", "url": "http://plain.example/ok", "body": h.g.plant("first body")})
	other := h.jsonOf(object{"method": "POST", "url": "http://plain.example/ok", "body": h.g.plant("other body")})
	h.owner.ask(http.MethodPost, "/v1/execute", first, "Idempotency-Key", key)
	status, text := h.owner.ask(http.MethodPost, "/v1/execute", other, "Idempotency-Key", key)
	assert.Equal(h.t, http.StatusUnprocessableEntity, status, text)
	for _, url := range []string{"http://plain.example/ok", "http://plain.example/ok?" + h.g.plant("conflicting query")} {
		status, text = h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"type": "Http", "request_id": "the-same", "args": object{"method": "GET", "url": url}}))
	}
	assert.Equal(h.t, http.StatusConflict, status, text)
	h.stranger.ask(http.MethodGet, "/v1/actions/the-same", "")
}

// streams are the owner's events and evidence, as a browser reads them.
func (h *house) streams() {
	status, text := h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"type": "Http", "request_id": "streamed", "args": object{"method": "POST", "url": "http://plain.example/ok", "body": h.g.plant("streamed body")}}))
	assert.Equal(h.t, http.StatusOK, status, text)
	h.owner.ask(http.MethodGet, "/v1/actions/streamed/events", "", "Accept", "text/event-stream")
	h.owner.ask(http.MethodGet, "/v1/actions/streamed/events", "", "Accept", "text/event-stream", "Last-Event-ID", h.g.plant("last event id"))
	h.owner.ask(http.MethodGet, "/v1/actions/streamed/events?after="+h.g.plant("after"), "", "Accept", "application/json")
	h.owner.ask(http.MethodGet, "/v1/actions/streamed", "")
	ctx, leave := context.WithCancel(h.t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.at+"/v1/evidence", nil)
	require.NoError(h.t, err)
	req.Header.Set("Authorization", "Bearer "+h.owner.token)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(h.t, err)
	defer time.AfterFunc(time.Second, leave).Stop()
	_, _ = bufio.NewReader(resp.Body).ReadString('\n')
	resp.Body.Close() // a follower that goes away
}

// strangers ask for all that the owner has, by its right name.
func (h *house) strangers() {
	h.settled("streamed")
	h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"method": "POST", "url": "http://plain.example/ok", "body": h.g.plant("body of the named")}), "Idempotency-Key", "shared-key")
	for _, p := range []*person{h.stranger, h.nobody} {
		for _, path := range []string{
			"/v1/actions", "/v1/actions/streamed", "/v1/actions/streamed/events", "/v1/evidence", "/v1/evidence?action_id=streamed", "/v1/dead-letters", "/v1/tokens", "/v1/tokens?tenant=owner",
			"/v1/policy", "/v1/operations", "/sandbox", "/metrics", "/readyz", "/healthz", "/openapi.json",
		} {
			p.ask(http.MethodGet, path, "", "Accept", "application/json")
		}
		for _, path := range []string{"/v1/actions/streamed/cancel", "/v1/policy/reload", "/v1/tokens/" + h.owner.id + "/revoke"} {
			p.ask(http.MethodPost, path, "")
		}
		p.ask(http.MethodPost, "/v1/actions/streamed/resolve", `{"effect":"applied"}`)
		p.ask(http.MethodPost, "/v1/dead-letters/redrive", `{"sequence":1}`)
		p.ask(http.MethodPost, "/v1/policy/explain", `{"url":"http://plain.example/ok"}`)
		// The owner's names, with a body of the stranger's own.
		p.ask(http.MethodPost, "/v1/execute", `{"type":"Http","request_id":"streamed","args":{"method":"GET","url":"http://nowhere.example/"}}`)
		p.ask(http.MethodPost, "/v1/execute", `{"method":"GET","url":"http://nowhere.example/"}`, "Idempotency-Key", "shared-key")
	}
}

// made is somebody with a token that the owner has made.
func (h *house) made(req object) *person {
	h.t.Helper()
	resp, body := h.owner.send(http.MethodPost, "/v1/tokens", h.jsonOf(req))
	require.Equal(h.t, http.StatusCreated, resp.StatusCode, body)
	var t schemas.NewToken
	require.NoError(h.t, json.Unmarshal([]byte(body), &t))
	h.g.known("a made token", secretOf(t.Secret))
	return &person{h: h, token: t.Secret, id: t.ID}
}

// tokens are made, limited, used up and revoked.
func (h *house) tokens() {
	// The name of a token is for people: it is in its own tenant's list and nowhere else.
	limited := h.made(object{"name": h.g.plant("token name"), "scopes": []any{"actions:write"}, "entries": []any{"narrow"}})
	limited.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"method": "GET", "url": "http://plain.example/" + h.g.plant("call of another entry"), "allowlist_key": "plain"}))
	limited.ask(http.MethodGet, "/v1/actions", "")
	rated := h.made(object{"name": "rated", "scopes": []any{"actions:read"}, "rate": "1/h"})
	for range 3 {
		rated.ask(http.MethodPost, "/v1/policy/explain", h.jsonOf(object{"url": "http://plain.example/" + h.g.plant("limited call")}))
	}
	h.owner.ask(http.MethodGet, "/v1/tokens", "")
	h.owner.ask(http.MethodPost, "/v1/tokens/"+limited.id+"/revoke", "")
	limited.ask(http.MethodGet, "/v1/actions", "")
	h.owner.ask(http.MethodPost, "/v1/tokens/"+h.g.plant("unknown token")+"/revoke", "")
	fmt.Fprintf(&h.owner.seen, "%s%s", limited.seen.String(), rated.seen.String())
}

// console is the page, and a browser that is signed in with the owner's token.
func (h *house) console() {
	own := []string{"Weir-Console", "1", "Sec-Fetch-Site", "same-origin"}
	h.settled("streamed")
	browser := &person{h: h}
	browser.ask(http.MethodPost, "/console/session", h.jsonOf(object{"token": h.g.plant("a token that is none")}), own...)
	resp, text := browser.send(http.MethodPost, "/console/session", h.jsonOf(object{"token": h.owner.token}), own...)
	require.Equal(h.t, http.StatusOK, resp.StatusCode, text)
	require.Len(h.t, resp.Cookies(), 1)
	session := resp.Cookies()[0]
	h.g.known("a session", secretOf(session.Value))
	signedIn := append([]string{"Cookie", session.Name + "=" + session.Value}, own...)
	for _, path := range []string{"/console/session", "/v1/actions", "/v1/actions/streamed/payload", "/v1/evidence"} {
		status, text := browser.ask(http.MethodGet, path, "", append([]string{"Accept", "application/json"}, signedIn...)...)
		assert.Equal(h.t, http.StatusOK, status, text)
	}
	browser.ask(http.MethodGet, "/v1/actions", "", "Cookie", session.Name+"="+h.g.plant("a cookie that is none"), "Weir-Console", "1")
	browser.ask(http.MethodDelete, "/console/session", "", signedIn...)
	fmt.Fprint(&h.owner.seen, browser.seen.String())
	// The page is the same for everybody, and holds nothing of anybody.
	for _, p := range []*person{h.owner, h.stranger, h.nobody} {
		for _, path := range []string{"/console", "/console/", "/console/?" + h.g.plant("query of the page"), "/console/assets/" + h.g.plant("unknown asset"), "/console/session"} {
			p.ask(http.MethodGet, path, "", "Weir-Console", "1")
		}
	}
}

// reloads are tried while the file is wrong, and while reading it panics.
func (h *house) reloads() {
	wrong, thrown := h.g.plant("wrong configuration"), h.g.plant("panic while loading")
	h.loads <- func() (config.Config, error) { return config.Config{}, errors.New("the file says " + wrong) }
	h.loads <- func() (config.Config, error) { panic("the file made " + thrown) }
	for range 3 {
		h.admin.ask(http.MethodPost, "/v1/policy/reload", "")
	}
}

// slow is a client that goes away in the middle of what it says.
func (h *house) slow() {
	for _, part := range []string{
		"POST /v1/execute HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + h.owner.token + "\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"url\":\"" + h.g.plant("half a body"),
		"POST /v1/execute HTTP/1.1\r\nHost: a\r\nX-Half: " + h.g.plant("half a header"),
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.at, "http://"))
		require.NoError(h.t, err)
		_, err = io.WriteString(conn, part)
		assert.NoError(h.t, err)
		assert.NoError(h.t, conn.Close())
	}
}
