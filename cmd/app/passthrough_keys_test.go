package app

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestPassthroughKeys: an Idempotency-Key joins and replays, and goes to the target.
func TestPassthroughKeys(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	begun, goes := make(chan struct{}), make(chan struct{})
	base, _ := viaNode(t, func(w http.ResponseWriter, r *http.Request) {
		n := hits.Add(1)
		w.Header().Set("X-Key", r.Header.Get("Idempotency-Key"))
		if r.URL.Path == "/events" {
			close(begun)
			<-goes
		}
		fmt.Fprint(w, n)
	}, "")
	first, one := askVia(t, "POST", base+"/via/t/x", "a", "Idempotency-Key", `"k"`)
	require.Equal(t, `"k"`, first.Header.Get("X-Key"))
	again, two := askVia(t, "POST", base+"/via/t/x", "a", "Idempotency-Key", `"k"`)
	require.Equal(t, "true", again.Header.Get("Idempotency-Replayed"))
	require.Equal(t, []string{one, first.Header.Get("Weir-Action-Id")}, []string{two, again.Header.Get("Weir-Action-Id")})
	other, _ := askVia(t, "POST", base+"/via/t/x", "b", "Idempotency-Key", `"k"`)
	require.Equal(t, []string{"422", "IDEMPOTENCY_MISMATCH"}, []string{strconv.Itoa(other.StatusCode), other.Header.Get("Weir-Refused")})
	async, receipt := askVia(t, "POST", base+"/via/t/events", "a", "Idempotency-Key", "s", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, async.StatusCode, receipt)
	<-begun
	early, _ := askVia(t, "GET", base+"/v1/actions/"+async.Header.Get("Weir-Action-Id")+"/response", "")
	require.Equal(t, http.StatusConflict, early.StatusCode)
	time.AfterFunc(20*time.Millisecond, func() { close(goes) }) // before the end, or after it: the answer is the same
	_, joined := askVia(t, "POST", base+"/via/t/events", "a", "Idempotency-Key", "s")
	require.Equal(t, "2", joined)
	late, body := askVia(t, "GET", base+"/v1/actions/"+async.Header.Get("Weir-Action-Id")+"/response", "")
	require.Equal(t, []string{"200", "2"}, []string{strconv.Itoa(late.StatusCode), body})
	require.EqualValues(t, 2, hits.Load())
}

// TestPassthroughOwnKeys: a key in the header in which the target reads keys is the call's, by /via and by
// the proxy. A value that is no key is refused, and so is a second key.
func TestPassthroughOwnKeys(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		fmt.Fprint(w, r.Header["X-Request-Key"], r.Header["Idempotency-Key"])
	}))
	t.Cleanup(up.Close)
	a := newApp(t, fmt.Sprintf(`%spolicy:
  allowlist:
    - {name: t, url_prefix: "%s/", network: loopback, methods: [POST], upstream_idempotency: {ttl: 1h, header: X-Request-Key}}
`, withProxy, up.URL))
	base := a.URL() + "/via/t/x"
	first, body := askVia(t, http.MethodPost, base, "a", "X-Request-Key", "k1")
	require.Equal(t, []any{200, "[k1] []"}, []any{first.StatusCode, body})
	again, _ := askVia(t, http.MethodPost, base, "a", "x-request-key", "k1")
	require.Equal(t, []string{"true", first.Header.Get("Weir-Action-Id")}, []string{again.Header.Get("Idempotency-Replayed"), again.Header.Get("Weir-Action-Id")})
	other, _ := askVia(t, http.MethodPost, base, "b", "X-Request-Key", "k1")
	require.Equal(t, "IDEMPOTENCY_MISMATCH", other.Header.Get(schemas.HeaderRefused))
	resp, body := fetch(t, a.proxied(t, "", nil), http.MethodPost, up.URL+"/x", "a", "X-Request-Key", "k2")
	require.Equal(t, []any{200, "[k2] []"}, []any{resp.StatusCode, body})
	require.EqualValues(t, 2, hits.Load())
	for _, headers := range [][]string{
		{"X-Request-Key", "k 3"}, {"X-Request-Key", "k3", "X-Request-Key", "k4"}, {"X-Request-Key", "k3", "Idempotency-Key", "k4"},
	} {
		refused, body := askVia(t, http.MethodPost, base, "a", headers...)
		require.Equal(t, "DENY_HEADER", refused.Header.Get(schemas.HeaderRefused), body)
		require.Contains(t, body, "X-Request-Key")
	}
	require.EqualValues(t, 2, hits.Load())
}

// TestPassthroughLeaves: a read that its only caller gives up is stopped, and nothing else is.
func TestPassthroughLeaves(t *testing.T) {
	t.Parallel()
	gone, begun, goes := make(chan struct{}), make(chan string, 2), make(chan struct{})
	base, _ := viaNode(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if begun <- r.Method; r.Method == http.MethodGet {
			<-r.Context().Done()
			close(gone)
			return
		}
		<-goes
		fmt.Fprint(w, "done")
	}, "")
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, method, base+"/via/t/"+method, strings.NewReader(""))
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
				_ = resp.Body.Close()
			}
		}()
		require.Equal(t, method, <-begun)
		leave()
		<-ended
	}
	<-gone
	close(goes)
	for method, want := range map[string]string{http.MethodGet: "canceled", http.MethodPost: "succeeded"} {
		poll.Until(t, func() bool {
			_, list := askVia(t, http.MethodGet, base+"/v1/actions?q=/"+method+"&status="+want, "")
			return strings.Contains(list, `"path":"/`+method+`"`)
		}, method+" is "+want)
	}
}

// TestPassthroughTokens: the token is read where a client has its key, bounds the entries, and goes to no
// target.
func TestPassthroughTokens(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	t.Cleanup(up.Close)
	a := newApp(t, fmt.Sprintf(`%spolicy:
  allowlist:
    - {name: t, url_prefix: "%[2]s/", network: loopback, methods: [GET]}
    - {name: other, url_prefix: "%[2]s/", network: loopback, methods: [GET]}
`, withTokens, up.URL))
	base := "http://" + a.http.addr()
	admin, err := os.ReadFile(a.cfg.AdminTokenFile())
	require.NoError(t, err)
	made, body := askVia(t, http.MethodPost, base+"/v1/tokens", `{"name":"sdk","scopes":["actions:write","actions:read"],"entries":["t"]}`,
		"Authorization", "Bearer "+strings.TrimSpace(string(admin)), "Content-Type", "application/json")
	require.Equal(t, http.StatusCreated, made.StatusCode, body)
	var token schemas.NewToken
	require.NoError(t, json.Unmarshal([]byte(body), &token))
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for _, headers := range [][]string{
		{"Authorization", "Bearer " + token.Secret},
		{"Authorization", "token " + token.Secret},
		{"Authorization", basic(token.Secret, "")},
		{"Authorization", basic("x", token.Secret)},
		{"X-Api-Key", token.Secret},
		{"X-Api-Key", token.Secret, "Authorization", "Bearer theirs"},
	} {
		resp, body := askVia(t, http.MethodGet, base+"/via/t/x", "", headers...)
		require.Equal(t, http.StatusOK, resp.StatusCode, "%v: %s", headers, body)
		got := <-seen
		require.NotContains(t, fmt.Sprint(got), token.Secret)
		require.Empty(t, got["X-Api-Key"])
		if len(headers) == 2 {
			require.Empty(t, got["Authorization"])
		} else {
			require.Equal(t, "Bearer theirs", got.Get("Authorization"))
		}
	}
	for _, tt := range []struct {
		path, key string
		status    int
		says      string
	}{
		{"/via/t/x", "", 401, "UNAUTHORIZED"}, {"/via/t/x", "weir1_wrong", 401, "UNAUTHORIZED"}, {"/via/other/x", token.Secret, 404, "use t, or send"}, {"/via/none/x", token.Secret, 404, "use t, or send"},
	} {
		resp, body := askVia(t, http.MethodGet, base+tt.path, "", "X-Api-Key", tt.key)
		require.Equal(t, tt.status, resp.StatusCode, body)
		require.Contains(t, body, tt.says)
		require.NotContains(t, body, "other")
		require.NotEmpty(t, resp.Header.Get(schemas.HeaderRefused))
	}
}

// TestPassthroughSchema: an answer is judged by the response schema of its entry as a whole,
// before any of it is stored or shown.
func TestPassthroughSchema(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, status := " {\"id\": 1,\n \"key\": \"CANARY\"}\n", http.StatusOK
		switch r.URL.Path {
		case "/misfit":
			body = `{"key": "CANARY"}`
		case "/text":
			body = "CANARY"
		case "/404":
			status = http.StatusNotFound
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream") // otherwise shown from the beginning
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(up.Close)
	var entries strings.Builder
	for _, mode := range []string{"strict", "warn", "redact"} {
		fmt.Fprintf(&entries, "    - {name: %s, url_prefix: '%s/', network: loopback, response_schema: {mode: %[1]s, schema: {required: [id], properties: {id: {}}}}}\n", mode, up.URL)
	}
	base := "http://" + newApp(t, "policy:\n  allowlist:\n"+entries.String()).http.addr()
	const sent, kept = " {\"id\": 1,\n \"key\": \"CANARY\"}\n", `{"id":1}`
	for _, tt := range []struct {
		at, body string
		refused  schemas.Code
		warnings int
	}{
		{"strict/", sent, "", 0},
		{"strict/events", sent, "", 0},
		{"strict/misfit", "", schemas.ResponseSchemaInvalid, 0},
		{"strict/text", "", schemas.ResponseNotJSON, 0},
		{"warn/events", sent, "", 0},
		{"warn/misfit", `{"key": "CANARY"}`, "", 1},
		{"warn/text", "CANARY", "", 1},
		{"redact/", kept, "", 0},
		{"redact/events", kept, "", 0},
		{"redact/404", sent, "", 0},
		{"redact/misfit", "", schemas.ResponseSchemaInvalid, 0},
		{"redact/text", "", schemas.ResponseNotJSON, 0},
	} {
		resp, body := askVia(t, "GET", base+"/via/"+tt.at, "")
		require.Equal(t, string(tt.refused), resp.Header.Get(schemas.HeaderRefused), "%s: %s", tt.at, body)
		if tt.refused == "" {
			require.Equal(t, tt.body, body, tt.at)
		}
		id := resp.Header.Get("Weir-Action-Id")
		_, view := askVia(t, "GET", base+"/v1/actions/"+id, "")
		require.Equal(t, tt.warnings, strings.Count(view, `"warnings":[`), "%s: %s", tt.at, view)
		if strings.HasPrefix(tt.at, "redact/") && tt.at != "redact/404" {
			_, again := askVia(t, "GET", base+"/v1/actions/"+id+"/response", "")
			_, events := askVia(t, "GET", base+"/v1/actions/"+id+"/events", "", "Accept", "application/json")
			require.NotContains(t, body+view+again+events, "CANARY", tt.at)
		}
	}
}
