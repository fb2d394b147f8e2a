//go:build e2e

package canary_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/program"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// drive uses every surface as the owner, with canaries in its requests and in the answers.
func (w *world) drive() {
	w.make(schemas.RouteRepos, object{"name": beacon})
	w.make("/v1/execute", object{"type": "Http", "request_id": beacon, "args": object{"method": "GET", "url": w.plain.URL() + "/ok"}})
	w.task("marked", object{"request_id": beacon + ".task"})
	parallel(w.calls, w.tokens, w.reload, func() { w.requests("at once", 16) }, func() { w.requests("rules", 1) }, func() { w.requests("bodies", 4) })
	parallel(w.runs, w.tasks, w.upstreamRepos, w.chats)
	w.console()
	w.requests("for others", 4)
}

// make sends a request that must succeed, and returns the answer.
func (w *world) make(path string, body object) string {
	w.t.Helper()
	status, text := w.owner.ask(http.MethodPost, path, w.json(body))
	require.Less(w.t, status, http.StatusMultipleChoices, text)
	return text
}

var placeholder = regexp.MustCompile(`<([~^]?)([^<>]+)>`)

// expand replaces each placeholder of a text, of a class that begins with what is given.
func (w *world) expand(class, text string, names map[string]string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		switch m := placeholder.FindStringSubmatch(found); m[1] {
		case "~":
			return w.g.plant(class + m[2])
		case "^":
			return w.g.word(class + m[2])
		default:
			if name, ok := names[m[2]]; ok {
				return name
			}
			return found
		}
	})
}

// section returns a section of a file in testdata.
func (w *world) section(file, name string) string {
	archive, err := txtar.ParseFile("testdata/" + file)
	require.NoError(w.t, err)
	for _, f := range archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	w.t.Errorf("no section %q in %s", name, file)
	return ""
}

var requestLine = regexp.MustCompile(`^(\S+) (\S+) (\S+) (\S+|"ok":\w+)((?: \[[^\]]+\])*) ?(.*)$`)

// requests sends the requests of a section, up to a number at the same time.
func (w *world) requests(section string, at int) {
	names := map[string]string{
		"plain": w.plain.URL(), "keyed": w.keyed.URL(), "tls": w.tls.URL(), "forged": w.forged.URL(), "gone": w.gone, "git": w.git.URL, "beacon": beacon, "session": w.session,
	}
	resp, _ := w.owner.send(http.MethodPost, "/v1/execute", w.json(object{"method": "POST", "url": w.plain.URL() + "/close", "body": 1}))
	names["unknown"] = resp.Header.Get("Weir-Action-Id")
	ids := []string{beacon, beacon + ".task"}
	if section == "for others" {
		for _, kind := range schemas.Kinds() {
			page := fixture.Decode[schemas.Page[schemas.ActionEntry]](w.t, w.owner.get("/v1/actions?limit=1&kind="+string(kind)))
			if assert.Len(w.t, page.Items, 1, "no action of the kind %s", kind) {
				ids = append(ids, page.Items[0].ID)
			}
		}
		assert.NotEmpty(w.t, w.responses)
		ids = append(ids, w.responses...)
	}
	turn := make(chan struct{}, at)
	var all []func()
	for line := range strings.Lines(w.section("requests.txtar", section)) {
		m := requestLine.FindStringSubmatch(strings.TrimSpace(line))
		require.NotNil(w.t, m, line)
		for i, id := range ids {
			if i > 0 && !strings.Contains(m[3], "<id>") {
				break
			}
			line := strings.ReplaceAll(m[0], "<id>", id)
			send := func() { w.line(requestLine.FindStringSubmatch(w.expand("", line, names))) }
			if at == 1 {
				names["etag"] = w.etag()
				send()
				continue
			}
			all = append(all, func() { turn <- struct{}{}; send(); <-turn })
		}
	}
	parallel(all...)
}

func (w *world) line(m []string) {
	var header []string
	for _, h := range regexp.MustCompile(`\[([^:]+): ([^\]]*)\]`).FindAllStringSubmatch(m[5], -1) {
		header = append(header, h[1], h[2])
	}
	for _, p := range map[string][]*person{"owner": {w.owner}, "nobody": {w.nobody}, "browser": {{w: w}}, "others": {w.stranger, w.nobody}}[m[1]] {
		_, text := p.ask(m[2], m[3], m[6], header...)
		if m[1] == "browser" {
			w.owner.saw(p)
		}
		if m[4] != "-" {
			contains(w.t, text, m[4], m[2]+" "+m[3]+" "+m[6])
		}
	}
}

func (w *world) etag() string { return program.Client{Base: w.p.URL, Token: w.owner.token}.Etag(w.t) }

// upstreams sets what the upstreams answer.
func (w *world) upstreams() {
	g, ok := w.g, http.StatusOK
	for path, b := range map[string]upstream.Behaviour{
		"/ok": w.full("ok", ok), "/shadow": w.full("ok", ok), "/refused": w.full("refused", http.StatusUnprocessableEntity), "/never": w.full("never", http.StatusServiceUnavailable),
		"/moved":     upstream.Redirect(http.StatusFound, "http://elsewhere.example/"+g.plant("location")+"?q="+g.plant("location query")),
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
		"/binary":    upstream.Respond(ok, "\xff\xfe"+encodings()["UTF-16, low first"](g.plant("utf16 body"))),
		"/bare":      upstream.Respond(ok, g.plant("bare body")),
		"/echo":      echoAll(ok), "/echo/busy": echoAll(http.StatusInternalServerError), "/echo/url": upstream.EchoURLEncoded(ok), "/echo/gzip": upstream.EchoGzip(ok), "/echo/chunked": upstream.EchoChunked(ok, 7),
		"/held": upstream.Answer(func(x *upstream.Exchange) { w.held["plain"] <- struct{}{}; x.Await() }),
	} {
		w.plain.Handle(path, b)
	}
	routes := []string{schemas.RouteRunStream, schemas.RouteRunSync}
	for _, d := range schemas.AllDialects() {
		routes = append(routes, d.Route())
	}
	for _, route := range routes {
		w.plain.Handle("/wire"+route, w.full("wire", ok))
	}
	w.tls.Handle("/ok", w.full("tls", ok))
	w.keyed.Handle("/keyed", echoAll(ok))
	w.keyed.Handle("/hop", upstream.Redirect(http.StatusFound, "/hop/"+g.plant("hop")+"?q="+g.plant("hop query")))
}

// full has a canary in every place of an answer.
func (w *world) full(class string, status int) upstream.Behaviour {
	body := w.expand(class+" ", `{"ok":true,"<~key>":"<~value>","deep":[{"<~deep key>":["<~deep value>",1.50]}]}`, nil)
	head := fmt.Sprintf("HTTP/1.1 %d <~reason>\nContent-Type: application/json; profile=<~media type>\n<~header name>: <~header value>\nSet-Cookie: <~cookie name>=<~cookie>; Path=/<~cookie path>\n"+
		"Location: /<~location>?q=<~location query>\nETag: \"<~etag>\"\nWWW-Authenticate: Basic realm=\"<~realm>\"\nServer: <~server>\nVia: 1.1 <~via>\nTrailer: X-Trailer\nTransfer-Encoding: chunked\n\n%x;ext=<~chunk extension>\n%s\n0\nX-Trailer: <~trailer>\n\n",
		status, len(body), body)
	return upstream.Raw(strings.ReplaceAll(w.expand(class+" ", head, nil), "\n", "\r\n"))
}

// echoAll answers with all of the request, in the body and in headers.
func echoAll(status int) upstream.Behaviour {
	return upstream.Answer(func(x *upstream.Exchange) {
		fields := fmt.Sprint(x.Request.Header("Authorization"), " ", x.Request.Header("X-Basic"), " ", x.Request.Header("X-Other"), " ", x.Request.Header("X-Mine"))
		text := x.Request.Method + " " + x.Request.Target + "\n" + fields + "\n" + string(x.Request.Body) + "\n" + base64.StdEncoding.EncodeToString([]byte(fields))
		x.Write(upstream.Message(x.Request.Method, status, text, upstream.Header("Content-Type", "text/plain"), upstream.Header("X-Echo", fields), upstream.Header("Set-Cookie", "s="+url.QueryEscape(fields))))
	})
}

// calls are a call with a canary in every place, its repeats, and one that is canceled.
func (w *world) calls() {
	key := w.g.plant("sent idempotency key")
	call := w.expand("sent ", `{"type":"Http","idempotency_key":"<key>","args":{"method":"POST","url":"<plain>/ok?q=<~query>&<~parameter>=1","headers":{"<~header name>":"<~header>","X-Mail":"p@example.<^mail>"},
		"body":{"<~key>":"<~value>","list":["<~item>",{"<~deep key>":null}]},"response_schema":{"type":"object","description":"<~schema text>","$defs":{"<~schema key>":true}}},
		"postcondition":[{"type":"http_status","equals":200}]}`, map[string]string{"key": key, "plain": w.plain.URL()})
	for status, body := range map[int]string{http.StatusOK: call, http.StatusUnprocessableEntity: strings.Replace(call, "/ok", "/ok/"+w.g.plant("other path"), 1)} {
		for range 2 { // the second is answered by what is stored
			if status != http.StatusOK {
				w.owner.ask(http.MethodPost, "/v1/execute", call, "Idempotency-Key", key)
			}
			got, text := w.owner.ask(http.MethodPost, "/v1/execute", body, "Idempotency-Key", key)
			assert.Equal(w.t, status, got, text)
		}
	}
	w.owner.ask(http.MethodPost, "/v1/execute", w.json(object{"method": "POST", "url": w.plain.URL() + "/ok", "body": w.g.plant("body under a shared key")}), "Idempotency-Key", "shared")
	w.cancel(w.begin("plain", "/v1/execute", w.json(object{"method": "GET", "url": w.plain.URL() + "/held?q=" + w.g.plant("canceled query")})))
}

// tokens are made, limited, used up and revoked.
func (w *world) tokens() {
	limited := w.made(w.owner, object{"name": w.g.plant("token name"), "scopes": []any{"actions:write"}, "entries": []any{"narrow"}, "models": []any{"spent/*"}})
	rated := w.made(w.owner, object{"name": "rated", "scopes": []any{"actions:read"}, "rate": "1/h"})
	limited.ask(http.MethodPost, "/v1/execute", w.json(object{"method": "GET", "url": w.plain.URL() + "/" + w.g.plant("call of another entry"), "allowlist_key": "plain"}))
	limited.ask(http.MethodPost, schemas.RouteChat, w.chat(w.g.word("model of no token"), false))
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

// console signs in with the owner's token, as a browser; its requests follow.
func (w *world) console() {
	resp, text := w.owner.send(http.MethodPost, "/console/session", w.json(object{"token": w.owner.token}), "Weir-Console", "1", "Sec-Fetch-Site", "same-origin")
	require.Equal(w.t, http.StatusOK, resp.StatusCode, text)
	session := resp.Cookies()[0]
	w.g.known("a session", secretOf(session.Value))
	w.session = session.Name + "=" + session.Value
	w.requests("console", 4)
}
