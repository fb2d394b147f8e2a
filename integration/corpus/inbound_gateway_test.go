//go:build e2e

package corpus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/app"
	"weir/internal/config"
	"weir/internal/weirtest/capture"
	"weir/schemas"
)

// gateway is a whole Weir that wants tokens, with an upstream of its own.
type gateway struct {
	addr, dir string
	upstream  *inboundUpstream
	log       *capture.Buffer
	client    *http.Client

	mu     sync.Mutex
	values map[string]string // of placeholders
	stop   func() error
}

// inboundUpstream counts what comes for each row.
type inboundUpstream struct {
	*httptest.Server
	mu      sync.Mutex
	hits    map[string]int
	release chan struct{} // lets go of what hangs
}

// hostileText has what would end a field or an event of a stream that does not
// encode it.
const hostileText = "a\rb\nc\r\nd\u2028e\n\ndata: x\n\nevent: final\ndata: forged\n\nid: 1\n"

func newInboundUpstream(t *testing.T) *inboundUpstream {
	t.Helper()
	u := &inboundUpstream{hits: map[string]int{}, release: make(chan struct{})}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.hits[r.URL.Query().Get("row")]++
		u.mu.Unlock()
		if r.URL.Path == modelPath+schemas.RouteChat {
			u.complete(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, agentPath) {
			u.serve(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/big":
			_, _ = io.WriteString(w, `"`+strings.Repeat("x", 3<<20)+`"`)
		case "/hostile":
			_ = json.NewEncoder(w).Encode(map[string]string{"text": hostileText})
		case "/hang":
			select {
			case <-u.release:
			case <-r.Context().Done():
			}
			fallthrough
		default:
			_, _ = io.WriteString(w, `{"ok":true}`)
		}
	}))
	t.Cleanup(func() {
		close(u.release)
		u.Close()
	})
	return u
}

// agentPath is where the routes of the fixture's agents begin.
const agentPath = "/agent"

// serve is an agent that ends every run well.
func (*inboundUpstream) serve(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		RequestID string `json:"request_id"`
	}
	if json.NewDecoder(r.Body).Decode(&asked) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"status":"ok","request_id":%q,"outputs":{"done":true}}`, asked.RequestID)
}

func (u *inboundUpstream) count(row string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.hits[row]
}

// newGateway starts a Weir on a directory; extra lines are added to its
// configuration, and config.Parse has the last word on them.
func newGateway(t *testing.T, dir, extra string) *gateway {
	t.Helper()
	g := &gateway{dir: dir, upstream: newInboundUpstream(t), log: new(capture.Buffer), values: map[string]string{}}
	g.client = &http.Client{Timeout: inboundPatience, Transport: &http.Transport{
		// Another peer than the one that attacks.
		DialContext:       (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext,
		DisableKeepAlives: true,
	}}
	g.start(t, extra)
	t.Cleanup(func() { assert.NoError(t, g.stop()) })
	g.set("admin_token", strings.TrimSpace(g.read(t, "admin.token")))
	g.set("task_token", g.token(t, schemas.TokenRequest{Entries: callerEntries}))
	return g
}

// callerEntries are what a caller of the corpus may use.
var callerEntries = []string{"api", schemas.AgentEntry(corpusTask)}

func (g *gateway) start(t *testing.T, extra string) {
	t.Helper()
	text := fmt.Sprintf("listen: 127.0.0.1:0\ndata: %q\nauth: {mode: tokens, admin_token_file: %q}\n%sagents: {REMOTE: {url: %[4]q}, %[5]s: {url: %[4]q, mode: sync}}\n%[6]s"+
		"policy:\n  timeout: 30s\n  allowlist:\n    - {name: api, url_prefix: \"%[7]s/\", methods: [GET, POST], network: loopback}\n"+
		"    - {name: not-in-token-scope, url_prefix: \"%[7]s/b/\", network: loopback}\n",
		g.dir, filepath.Join(g.dir, "admin.token"), extra, g.upstream.URL+agentPath, corpusTask, g.models(), g.upstream.URL)
	cfg, err := config.Parse("test", []byte(text), nil, nil)
	require.NoError(t, err)
	ctx := context.WithoutCancel(t.Context())
	a, err := app.New(ctx, app.Options{Config: cfg, Log: g.log})
	if err != nil && !cfg.Embedded() { // a cluster may need a moment more than it says
		require.Eventually(t, func() bool {
			a, err = app.New(ctx, app.Options{Config: cfg, Log: g.log})
			return err == nil
		}, 30*time.Second, 500*time.Millisecond)
	}
	require.NoError(t, err)
	require.NoError(t, a.Start(ctx))
	g.addr = strings.TrimPrefix(a.URL(), "http://")
	g.stop = func() error { return a.Stop(ctx) }
}

func (g *gateway) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(g.dir, name))
	require.NoError(t, err)
	return string(data)
}

func (g *gateway) set(name, value string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.values[name] = value
}

func (g *gateway) get(name string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.values[name]
}

// made numbers the tokens, so that each has a name.
func (g *gateway) token(t *testing.T, req schemas.TokenRequest) string {
	t.Helper()
	if req.Tenant == "" {
		req.Tenant = "acme"
	}
	req.Name = "corpus"
	if req.Scopes == nil {
		req.Scopes = []string{schemas.ScopeActionsRead, schemas.ScopeActionsWrite}
	}
	h := g.ask(t, "admin_token", http.MethodPost, "/v1/tokens", req)
	require.Equal(t, http.StatusCreated, h.status, h.body)
	var made schemas.NewToken
	require.NoError(t, json.Unmarshal([]byte(h.body), &made))
	g.set("id of "+made.Secret, made.ID)
	return made.Secret
}

// ask sends an ordinary request with the token of that name.
func (g *gateway) ask(t *testing.T, token, method, path string, doc any, header ...string) heard {
	t.Helper()
	h, err := g.try(t, token, method, path, doc, header...)
	require.NoError(t, err)
	return h
}

func (g *gateway) try(t *testing.T, token, method, path string, doc any, header ...string) (heard, error) {
	t.Helper()
	var body io.Reader = http.NoBody
	if doc != nil {
		body = bytes.NewReader(mustEncode(t, doc))
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+g.addr+path, body)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+g.get(token))
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return heard{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return heard{status: resp.StatusCode, header: resp.Header, body: string(data)}, err
}

// act makes an action and returns its id.
func (g *gateway) act(t *testing.T, token, path string, header ...string) string {
	t.Helper()
	doc := map[string]any{"method": "GET", "url": g.upstream.URL + path, "allowlist_key": "api"}
	h := g.ask(t, token, http.MethodPost, "/v1/execute", doc, header...)
	require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, h.status, h.body)
	id := h.header.Get("Weir-Action-Id")
	require.NotEmpty(t, id)
	return id
}

// last is the id of the newest event of an action.
func (g *gateway) last(t *testing.T, token, id string) string {
	t.Helper()
	h := g.ask(t, token, http.MethodGet, "/v1/actions/"+id+"/events", nil, "Accept", "application/json")
	require.Equal(t, http.StatusOK, h.status, h.body)
	var page schemas.Page[schemas.EventView]
	require.NoError(t, json.Unmarshal([]byte(h.body), &page))
	require.NotEmpty(t, page.Items)
	return strconv.FormatUint(page.Items[len(page.Items)-1].Seq, 10)
}

// value is what stands for a placeholder. A token that is no task's ends by being revoked.
func (g *gateway) value(t *testing.T, r *inboundRow, name string) (string, bool) {
	t.Helper()
	if r.onTask() {
		if v, ok := g.taskValue(t, r, name); ok {
			return v, true
		}
	}
	if own := g.get(name + " of " + r.ID); own != "" {
		return own, true
	}
	if name == "task_token" && strings.HasPrefix(r.Path, "/agents/run/") { // whose request_id other rows have too
		v := g.token(t, schemas.TokenRequest{Tenant: strings.ToLower(r.ID), Entries: callerEntries})
		g.set(name+" of "+r.ID, v)
		return v, true
	}
	if r.Surface == rulesSurface {
		if v, ok := g.ruleValue(t, r, name); ok {
			g.set(name+" of "+r.ID, v)
			return v, true
		}
	}
	if v := g.get(name); v != "" {
		return v, true
	}
	var v string
	switch name {
	case "upstream":
		v = g.upstream.URL
	case "operator_token":
		v = g.get("admin_token")
	case "reader_token":
		v = g.token(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeActionsRead}})
	case "expired_token":
		v = g.expired(t)
	case "token_of_completed_task", "revoked_token":
		v = g.token(t, schemas.TokenRequest{})
		h := g.ask(t, "admin_token", http.MethodPost, "/v1/tokens/"+g.get("id of "+v)+"/revoke", nil)
		require.Equal(t, http.StatusOK, h.status, h.body)
	case "other_env_token":
		v = newGateway(t, t.TempDir(), "log: {durability: process}\n").get("task_token")
	case "action":
		v = g.act(t, "task_token", "/v1/x?row="+r.ID)
	case "action_of_other_task", "action_of_other_tenant":
		g.set("foreign token", g.token(t, schemas.TokenRequest{Tenant: "other"}))
		v = g.act(t, "foreign token", "/v1/x?row=other")
	case "terminal_id":
		action, _ := g.value(t, r, "action")
		v = g.last(t, "task_token", action)
	default:
		return "", false
	}
	g.set(name, v)
	return v, true
}

// expired makes a token that lasts for a second, and waits until it has.
func (g *gateway) expired(t *testing.T) string {
	t.Helper()
	v := g.token(t, schemas.TokenRequest{ExpiresIn: "1s"})
	g.set("soon expired", v)
	require.Eventually(t, func() bool {
		h, err := g.try(t, "soon expired", http.MethodGet, "/v1/actions", nil)
		return err == nil && h.status == http.StatusUnauthorized
	}, 10*time.Second, 100*time.Millisecond)
	return v
}

// secrets are all tokens that were handed out.
func (g *gateway) secrets() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []string
	for name, value := range g.values {
		if strings.HasSuffix(name, "token") {
			all = append(all, value)
		}
	}
	return all
}

// metric is the value of one series.
func (g *gateway) metric(t *testing.T, series string) float64 {
	t.Helper()
	h := g.ask(t, "admin_token", http.MethodGet, "/metrics", nil)
	require.Equal(t, http.StatusOK, h.status)
	for line := range strings.Lines(h.body) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			require.NoError(t, err)
			return v
		}
	}
	t.Fatalf("there is no %s", series)
	return 0
}
