package app

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/config"
	"weir/internal/token"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

const withTokens = "auth: {mode: tokens}\nlog: {durability: process}\n"

// caller is an app with somebody's token.
type caller struct {
	*App
	token string
}

// admin is the caller whom the first start has made.
func (a *App) admin(t *testing.T) caller {
	t.Helper()
	data, err := os.ReadFile(a.cfg.AdminTokenFile())
	require.NoError(t, err)
	return caller{a, strings.TrimSpace(string(data))}
}

func (c caller) do(t *testing.T, method, path, body string, header ...string) (status int, text string, h http.Header) {
	t.Helper()
	return c.ask(t, method, path, body, append([]string{"Authorization", "Bearer " + c.token}, header...)...)
}

// grant has an admin make a token, and returns who has it.
func (c caller) grant(t *testing.T, request string) (caller, schemas.NewToken) {
	t.Helper()
	status, body, _ := c.do(t, http.MethodPost, "/v1/tokens", request)
	require.Equal(t, http.StatusCreated, status, body)
	var made schemas.NewToken
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	return caller{c.App, made.Secret}, made
}

func (c caller) revoke(t *testing.T, id string) {
	t.Helper()
	status, body, _ := c.do(t, http.MethodPost, "/v1/tokens/"+id+"/revoke", "")
	require.Equal(t, http.StatusOK, status, body)
}

// routes are all that there are, with something to send. {id} and {seq} are an
// action's and a dead letter's.
func routes() []struct{ method, path, body, scope string } {
	return []struct{ method, path, body, scope string }{
		{"POST", "/v1/execute", `{"method":"GET","url":"http://nobody.example/"}`, schemas.ScopeActionsWrite},
		{"POST", "/v1/plans", `{"state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[]}}`, schemas.ScopeActionsWrite},
		{"POST", "/v1/actions/{id}/cancel", "", schemas.ScopeActionsWrite},
		{"POST", "/v1/actions/{id}/resolve", `{"effect":"applied"}`, schemas.ScopeActionsWrite},
		{"GET", "/v1/actions", "", schemas.ScopeActionsRead},
		{"GET", "/v1/actions/{id}", "", schemas.ScopeActionsRead},
		{"GET", "/v1/actions/{id}/payload", "", schemas.ScopeActionsRead},
		{"GET", "/v1/actions/{id}/events", "", schemas.ScopeActionsRead},
		{"GET", "/v1/evidence", "", schemas.ScopeEvidenceRead},
		{"GET", "/v1/dead-letters", "", schemas.ScopeActionsRead},
		{"POST", "/v1/dead-letters/redrive", `{"sequence":{seq}}`, schemas.ScopeAdmin},
		{"GET", "/v1/tokens", "", schemas.ScopeAdmin},
		{"POST", "/v1/tokens", `{"name":"x","scopes":["admin"]}`, schemas.ScopeAdmin},
		{"POST", "/v1/tokens/aaaaaaaaaaaaaaaa/revoke", "", schemas.ScopeAdmin},
		{"GET", "/v1/policy", "", schemas.ScopeActionsRead},
		{"POST", "/v1/policy/explain", `{"url":"http://nobody.example/"}`, schemas.ScopeActionsRead},
		{"POST", "/v1/policy/reload", "", schemas.ScopeAdmin},
		{"POST", "/v1/rules/record", `{"action_id":"{id}"}`, schemas.ScopeActionsRead},
	}
}

// TestEveryRouteAsksForAToken has no token, and one that has every scope but the
// one that is needed.
func TestEveryRouteAsksForAToken(t *testing.T) {
	t.Parallel()
	a := newApp(t, withTokens)
	admin := a.admin(t)
	without := map[string]caller{}
	for _, scope := range schemas.Scopes() {
		var others []string
		for _, s := range schemas.Scopes() {
			if s != scope && s != schemas.ScopeAdmin {
				others = append(others, s)
			}
		}
		request, err := json.Marshal(schemas.TokenRequest{Name: "n", Scopes: others})
		require.NoError(t, err)
		without[scope], _ = admin.grant(t, string(request))
	}
	for _, r := range routes() {
		path := strings.ReplaceAll(r.path, "{id}", "nobody")
		body := strings.ReplaceAll(r.body, "{seq}", "7")
		for name, header := range map[string][]string{
			"none":     nil,
			"unknown":  {"Authorization", "Bearer weir1_aaaaaaaaaaaaaaaa_" + strings.Repeat("A", 43)},
			"cookie":   {"Cookie", "token=" + admin.token + "; Authorization=Bearer " + admin.token},
			"basic":    {"Authorization", "Basic " + admin.token},
			"other":    {"X-Api-Key", admin.token},
			"trailing": {"Authorization", "Bearer " + admin.token + " x"},
		} {
			status, text, h := a.ask(t, r.method, path, body, header...)
			assert.Equal(t, http.StatusUnauthorized, status, "%s %s: %s", r.method, path, name)
			assert.Equal(t, "Bearer", h.Get("WWW-Authenticate"), path)
			assert.Contains(t, text, `"UNAUTHORIZED"`, path)
		}
		status, _, _ := a.ask(t, r.method, path+"?access_token="+admin.token+"&token="+admin.token, body)
		assert.Equal(t, http.StatusUnauthorized, status, "a token in the URL is none")
		status, text, _ := without[r.scope].do(t, r.method, path, body)
		assert.Equal(t, http.StatusForbidden, status, "%s %s without %s: %s", r.method, path, r.scope, text)
		assert.Contains(t, text, `"FORBIDDEN"`, path)
	}
	for path, want := range map[string][3]int{
		"/healthz": {200, 200, 200}, "/readyz": {200, 200, 200}, "/openapi.json": {200, 200, 200},
		"/sandbox": {401, 200, 200}, "/metrics": {404, 200, 200}, "/nowhere": {404, 404, 404},
	} {
		status, _, _ := a.ask(t, http.MethodGet, path, "")
		assert.Equal(t, want[0], status, path)
		status, _, _ = without[schemas.ScopeRulesWrite].do(t, http.MethodGet, path, "")
		assert.Equal(t, want[1], status, path)
		status, _, _ = admin.do(t, http.MethodGet, path, "")
		assert.Equal(t, want[2], status, path)
	}
	foreign, _ := admin.grant(t, `{"name":"f","tenant":"acme","scopes":["metrics:read","admin"]}`)
	for _, c := range []caller{without[schemas.ScopeMetricsRead], foreign} {
		status, _, _ := c.do(t, http.MethodGet, "/metrics", "")
		assert.Equal(t, http.StatusNotFound, status, "metrics are the operator's")
	}
	status, body, _ := a.ask(t, http.MethodGet, "/v1/actions", "", "Host", "evil.test")
	assert.Equal(t, http.StatusUnauthorized, status, "with tokens any host may be named")
	assert.NotContains(t, body, "evil.test")
}

var update = flag.Bool("update", false, "write the routes that need no token into docs/security.md")

// TestThePageListsTheOpenRoutes asks every route of a node with tokens without one. Those that do
// not refuse that are in the table of docs/security.md, and no others.
func TestThePageListsTheOpenRoutes(t *testing.T) {
	t.Parallel()
	a := newApp(t, withTokens)
	engine, ok := a.http.rooms.(*gin.Engine)
	require.True(t, ok)
	open := map[string][]string{}
	for _, r := range engine.Routes() {
		path := regexp.MustCompile(`[:*][a-z]+`).ReplaceAllString(r.Path, "x")
		body := ""
		if r.Method == http.MethodPost {
			body = "{}"
		}
		page := []string{schemas.HeaderConsole, "1"} // a page of the console asks
		status, _, _ := a.ask(t, r.Method, path, body, page...)
		if status == http.StatusUnauthorized || status == http.StatusForbidden {
			continue
		}
		if with, _, _ := a.admin(t).do(t, r.Method, path, body, page...); with != status {
			continue // without a token it is hidden
		}
		open[r.Path] = append(open[r.Path], r.Method)
	}
	require.NotEmpty(t, open)
	lines := []string{"| route | methods |", "|---|---|"}
	for _, path := range slices.Sorted(maps.Keys(open)) {
		slices.Sort(open[path])
		lines = append(lines, "| `"+path+"` | "+strings.Join(open[path], ", ")+" |")
	}
	table := strings.Join(lines, "\n") + "\n"
	const page, end = "../../docs/security.md", "<!-- end of the open routes -->"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), "<!-- open routes: ")
	require.True(t, ok)
	command, rest, _ := strings.Cut(rest, "\n")
	listed, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		text := before + "<!-- open routes: " + command + "\n" + table + end + after
		require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
		return
	}
	assert.Equal(t, table, listed, "run this test with -update")
}

// TestEveryRefusalReadsTheSame: expired, revoked, unknown and malformed tokens
// get one answer, on every dialect.
func TestEveryRefusalReadsTheSame(t *testing.T) {
	t.Parallel()
	a := newApp(t, withTokens)
	admin := a.admin(t)
	yesterday := a.second(t, token.Config{Now: func() time.Time { return time.Now().Add(-24 * time.Hour) }})
	made, err := yesterday.Create(t.Context(), schemas.Token{Tenant: schemas.Operator},
		schemas.TokenRequest{Name: "e", Scopes: []string{schemas.ScopeAdmin}, ExpiresIn: "1h"})
	require.NoError(t, err)
	expired := caller{a, made.Secret}
	poll.Until(t, func() bool {
		_, list, _ := admin.do(t, http.MethodGet, "/v1/tokens", "")
		return strings.Contains(list, made.ID)
	}, "this node has heard of it")
	revoked, gone := admin.grant(t, `{"name":"r","scopes":["admin"]}`)
	admin.revoke(t, gone.ID)
	for _, r := range []struct{ method, path, body string }{{"GET", "/v1/actions", ""}, {"POST", "/v1/execute", `{}`}, {"POST", "/v1/plans", `{}`}} {
		_, want, _ := a.ask(t, r.method, r.path, r.body, "X-Request-ID", "same")
		for _, c := range []caller{
			expired, revoked,
			{a, "weir1_aaaaaaaaaaaaaaaa_" + strings.Repeat("A", 43)},
			{a, admin.token[:len(admin.token)-1]},
			{a, "x"},
			{a, strings.Repeat("A", 5000)},
		} {
			status, text, _ := c.do(t, r.method, r.path, r.body, "X-Request-ID", "same")
			require.Equal(t, http.StatusUnauthorized, status)
			require.Equal(t, want, text)
		}
	}
}

// TestTenantsDoNotMeet: whatever one tenant has made, another is answered as if it
// were not there.
func TestTenantsDoNotMeet(t *testing.T) {
	t.Parallel()
	a, upstream := newApp(t, withTokens), okUpstream(t)
	acme, _ := a.admin(t).grant(t, `{"name":"a","tenant":"acme","scopes":["admin"]}`)
	other, _ := a.admin(t).grant(t, `{"name":"b","tenant":"other","scopes":["admin"]}`)
	call := func(id string) string {
		return fmt.Sprintf(`{"method":"GET","url":"%s/x","request_id":%q}`, upstream, id)
	}
	status, body, h := acme.do(t, http.MethodPost, "/v1/execute", call("mine"))
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, "mine", h.Get("Weir-Action-Id"))
	letter := schemas.DeadLetter{Time: time.Now().UTC(), Tenant: "acme", Kind: schemas.KindHTTP, ActionID: "mine", Code: schemas.Poison}
	data, err := json.Marshal(letter)
	require.NoError(t, err)
	seq, err := a.broker.Append(t.Context(), schemas.Append{Subject: schemas.DeadSubject(letter), Data: data})
	require.NoError(t, err)

	for _, r := range routes() {
		if !strings.Contains(r.path+r.body, "{") || !strings.Contains(r.path, "{id}") && !strings.Contains(r.body, "{seq}") {
			continue
		}
		send := func(id string, seq uint64) (int, string) {
			path := strings.ReplaceAll(r.path, "{id}", id)
			body := strings.ReplaceAll(r.body, "{seq}", strconv.FormatUint(seq, 10))
			status, text, h := other.do(t, r.method, path, body, "X-Request-ID", "same", "Accept", "application/json")
			assert.Empty(t, h.Get("Weir-Action-Id"))
			return status, strings.ReplaceAll(text, id, "ID")
		}
		status, foreign := send("mine", seq)
		_, unknown := send("none", seq+100)
		assert.Equal(t, http.StatusNotFound, status, "%s %s: %s", r.method, r.path, foreign)
		assert.Equal(t, unknown, foreign, "%s %s", r.method, r.path)
	}
	for _, path := range []string{"/v1/actions", "/v1/evidence", "/v1/evidence?action_id=mine", "/v1/dead-letters", "/v1/actions?limit=1"} {
		_, theirs, _ := other.do(t, http.MethodGet, path, "", "Accept", "application/json")
		assert.Contains(t, theirs, `"items":[]`, path)
		_, ours, _ := acme.do(t, http.MethodGet, path, "", "Accept", "application/json")
		assert.Contains(t, ours, "mine", path)
	}
	_, theirs, _ := other.do(t, http.MethodGet, "/v1/tokens", "")
	assert.NotContains(t, theirs, `"acme"`)
	for _, path := range []string{"/v1/tokens?tenant=acme", "/v1/actions?tenant=acme", "/v1/actions?tenant=*", "/v1/stats?tenant=acme"} {
		status, theirs, _ := other.do(t, http.MethodGet, path, "")
		assert.Equal(t, http.StatusForbidden, status, "%s: %s", path, theirs)
	}
	for _, named := range []string{"acme", "*"} { // the operator may name them
		_, ours, _ := a.admin(t).do(t, http.MethodGet, "/v1/actions?tenant="+named, "")
		assert.Contains(t, ours, `"id":"mine"`, named)
	}
	status, _, _ = other.do(t, http.MethodPost, "/v1/tokens", `{"name":"x","tenant":"acme","scopes":["admin"]}`)
	assert.Equal(t, http.StatusForbidden, status)
	_, mine := acme.grant(t, `{"name":"c","scopes":["actions:read"]}`)
	status, _, _ = other.do(t, http.MethodPost, "/v1/tokens/"+mine.ID+"/revoke", "")
	assert.Equal(t, http.StatusNotFound, status)

	// The same names are other actions.
	status, body, h = other.do(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":"%s/y","request_id":"mine"}`, upstream))
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, "mine", h.Get("Weir-Action-Id"))
	ids := map[string]bool{}
	for _, c := range []caller{acme, other, acme} {
		status, body, h := c.do(t, http.MethodPost, "/v1/execute", call("any"), "Idempotency-Key", `"k"`)
		require.Equal(t, http.StatusOK, status, body)
		ids[h.Get("Weir-Action-Id")] = true
	}
	require.Len(t, ids, 2)
}

// TestTokensInPages: with what the first page says is next the list goes on.
func TestTokensInPages(t *testing.T) {
	t.Parallel()
	a := newApp(t, withTokens)
	admin := a.admin(t)
	want := []string{"first-admin"}
	for i := range 4 {
		want = append(want, "t"+strconv.Itoa(i))
		admin.grant(t, fmt.Sprintf(`{"name":%q,"scopes":["actions:read"]}`, want[i+1]))
	}
	var got []string
	for cursor := ""; ; {
		path := "/v1/tokens?limit=2"
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		status, body, _ := admin.do(t, http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, status, body)
		var page schemas.Page[schemas.Token]
		require.NoError(t, json.Unmarshal([]byte(body), &page))
		for _, token := range page.Items {
			got = append(got, token.Name)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.ElementsMatch(t, want, got)
	status, body, _ := admin.do(t, http.MethodGet, "/v1/tokens?cursor=41", "")
	require.Equal(t, http.StatusBadRequest, status, body)
}

// TestRevocation ends streams and every later request, here at once and on another
// node soon.
func TestRevocation(t *testing.T) {
	t.Parallel()
	a, upstream := newApp(t, withTokens), okUpstream(t)
	admin := a.admin(t)
	agent, made := admin.grant(t, `{"name":"agent","scopes":["actions:read","actions:write","evidence:read"]}`)
	there := a.second(t, token.Config{})
	_, err := there.Verify([]string{"Bearer " + agent.token})
	require.NoError(t, err)
	status, body, _ := agent.do(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":"%s/x","request_id":"r"}`, upstream))
	require.Equal(t, http.StatusOK, status, body)
	stream := agent.open(t, "/v1/evidence")
	first, err := stream.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, ":\n", first)

	admin.revoke(t, made.ID)
	status, _, _ = agent.do(t, http.MethodGet, "/v1/actions", "")
	require.Equal(t, http.StatusUnauthorized, status)
	_, err = io.Copy(io.Discard, stream)
	require.NoError(t, err, "the stream is over")
	poll.Until(t, func() bool {
		_, err := there.Verify([]string{"Bearer " + agent.token})
		return err != nil
	})
}

// second is another node on the same log.
func (a *App) second(t *testing.T, cfg token.Config) *token.Keeper {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Config{Server: a.server, Layout: a.layout()})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close(context.WithoutCancel(t.Context())) })
	k := token.New(b.Tokens(), cfg)
	require.NoError(t, k.Start(t.Context()))
	t.Cleanup(k.Stop)
	return k
}

// open opens an event stream.
func (c caller) open(t *testing.T, path string) *bufio.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL()+path, http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, resp.Body.Close()) })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	return bufio.NewReader(resp.Body)
}

// TestEntriesOfAToken bound its calls: with a key at the door, without one where
// policy decides, for plans too.
func TestEntriesOfAToken(t *testing.T) {
	t.Parallel()
	upstream := okUpstream(t)
	a := newApp(t, withTokens+fmt.Sprintf(`policy:
  allowed_hosts: [127.0.0.1]
  allowlist:
    - {name: orders, url_prefix: "%[1]s/orders/", network: loopback}
    - {name: stock, url_prefix: "%[1]s/stock/", network: loopback}
`, upstream))
	agent, _ := a.admin(t).grant(t, `{"name":"agent","scopes":["actions:write","actions:read"],"entries":["orders"]}`)
	whole, _ := a.admin(t).grant(t, `{"name":"whole","scopes":["actions:write"]}`)
	call := func(path, key string) string {
		if key != "" {
			key = fmt.Sprintf(`,"allowlist_key":%q`, key)
		}
		return fmt.Sprintf(`{"method":"GET","url":"%s%s"%s}`, upstream, path, key)
	}
	for _, tc := range []struct {
		body        string
		agent, full int
		code        string
	}{
		{call("/orders/1", ""), 200, 200, ""},
		{call("/orders/1", "orders"), 200, 200, ""},
		{call("/stock/1", "stock"), 403, 200, "FORBIDDEN"},
		{call("/stock/1", "nothing"), 403, 403, "FORBIDDEN"},
		{call("/stock/1", ""), 403, 200, "DENY_"},
		{call("/elsewhere", ""), 403, 200, "DENY_"},
	} {
		status, body, _ := agent.do(t, http.MethodPost, "/v1/execute", tc.body)
		assert.Equal(t, tc.agent, status, "%s: %s", tc.body, body)
		assert.Contains(t, body, tc.code)
		status, body, _ = whole.do(t, http.MethodPost, "/v1/execute", tc.body)
		assert.Equal(t, tc.full, status, "%s: %s", tc.body, body)
	}
	plan := func(key, path string) string {
		return fmt.Sprintf(`{"state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[
			{"effect_ref":"e","target_state":{"url":"%s%s","allowlist_key":%q}}]}}`, upstream, path, key)
	}
	status, body, _ := agent.do(t, http.MethodPost, "/v1/plans", plan("orders", "/orders/2"))
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, `"status":"applied"`)
	status, body, _ = agent.do(t, http.MethodPost, "/v1/plans", plan("stock", "/stock/2"))
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, body, `"FORBIDDEN"`)
}

func TestRateOfAToken(t *testing.T) {
	t.Parallel()
	a := newApp(t, "auth: {mode: tokens, rate: 1000/h, streams: 1}\nlog: {durability: process}\n")
	agent, _ := a.admin(t).grant(t, `{"name":"agent","scopes":["actions:read","actions:write"],"rate":"3/h"}`)
	for range 3 {
		status, _, _ := agent.do(t, http.MethodGet, "/v1/actions/nobody", "")
		require.Equal(t, http.StatusNotFound, status)
	}
	for path, method := range map[string]string{"/v1/actions/nobody": "GET", "/v1/execute": "POST", "/sandbox": "GET", "/metrics": "GET"} {
		status, body, h := agent.do(t, method, path, "")
		require.Equal(t, http.StatusTooManyRequests, status, path)
		require.Contains(t, body, `"RATE_LIMITED"`)
		after, err := strconv.Atoi(h.Get("Retry-After"))
		require.NoError(t, err)
		require.Greater(t, after, 1100, "until the next one is free")
		require.LessOrEqual(t, after, 1200)
	}
	status, _, _ := a.ask(t, http.MethodGet, "/v1/actions/nobody", "")
	require.Equal(t, http.StatusUnauthorized, status)
	watcher, _ := a.admin(t).grant(t, `{"name":"w","scopes":["evidence:read"]}`)
	watcher.open(t, "/v1/evidence")
	status, body, h := watcher.do(t, http.MethodGet, "/v1/evidence", "", "Accept", "text/event-stream")
	require.Equal(t, http.StatusTooManyRequests, status, body)
	require.NotEmpty(t, h.Get("Retry-After"))
}

// TestFirstAdminIsMadeOnce, is told of by its file alone, and outlives a restart.
func TestFirstAdminIsMadeOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var text string
	for range 2 {
		cfg, err := config.Parse("test", fmt.Appendf(nil, "listen: 127.0.0.1:0\ndata: %q\n%stelemetry: {log_level: debug}\n", dir, withTokens), nil, nil)
		require.NoError(t, err)
		var log, out capture.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- serve(ctx, Options{Config: cfg, Log: &log}, &out) }()
		poll.Until(t, func() bool { return strings.Contains(out.String(), "ready on") })
		data, err := os.ReadFile(cfg.AdminTokenFile())
		require.NoError(t, err)
		if text == "" {
			require.Contains(t, out.String(), cfg.AdminTokenFile())
		} else {
			require.Equal(t, text, string(data))
			require.NotContains(t, out.String(), cfg.AdminTokenFile())
		}
		text = string(data)
		_, url, _ := strings.Cut(out.String(), "ready on ")
		url, _, _ = strings.Cut(url, " ")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/tokens", http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(text))
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		cancel()
		require.NoError(t, <-done)
		secret := strings.TrimSpace(text)[len("weir1_")+17:]
		for _, sink := range []string{log.String(), out.String()} {
			require.NotEmpty(t, sink)
			require.NotContains(t, sink, secret[:8])
		}
	}
}

// TestTokensDoNotReachThisMachine: with tokens, the ports of this machine are targets only by an entry, and a caller
// that is refused learns which.
func TestTokensDoNotReachThisMachine(t *testing.T) {
	t.Parallel()
	upstream := okUpstream(t)
	call := fmt.Sprintf(`{"method":"GET","url":"%s/admin"}`, upstream)
	admin := newApp(t, withTokens+"policy: {timeout: 10s}\n").admin(t)
	status, body, _ := admin.do(t, http.MethodPost, "/v1/execute", call)
	require.Equal(t, http.StatusForbidden, status, body)
	require.Contains(t, body, `"code":"DENY_HOST"`)
	require.Contains(t, body, "ask the operator to add an entry for it with network: loopback")
	_, body, _ = admin.do(t, http.MethodPost, "/v1/policy/explain", call)
	require.Contains(t, body, "add an entry with url_prefix "+upstream+"/ and network loopback")
	admin = newApp(t, withTokens+fmt.Sprintf("policy: {allowlist: [{name: own, url_prefix: \"%s/\", network: loopback}]}\n", upstream)).admin(t)
	status, body, _ = admin.do(t, http.MethodPost, "/v1/execute", call)
	require.Equal(t, http.StatusOK, status, body)
}
