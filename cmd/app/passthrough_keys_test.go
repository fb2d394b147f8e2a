package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestPassthroughKeys: an Idempotency-Key joins and replays, and goes to the target; so does a key in the header in
// which the target reads keys, by /via and by the proxy.
func TestPassthroughKeys(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	begun, goes := make(chan struct{}), make(chan struct{})
	target := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			close(begun)
			<-goes
		}
		fmt.Fprint(w, hits.Add(1), r.Header["X-Request-Key"], r.Header["Idempotency-Key"])
	}
	a, base := via(t, "/keys", target)
	_, _ = via(t, "/keyed", target)
	for at, header := range map[string]string{base + "/x": "Idempotency-Key", a.URL() + "/via/keyed/keyed/x": "X-Request-Key"} {
		first, one := askVia(t, "POST", at, "a", header, "k-1")
		require.Contains(t, one, "k-1")
		again, two := askVia(t, "POST", at, "a", strings.ToLower(header), "k-1")
		require.Equal(t, []string{one, "true", first.Header.Get("Weir-Action-Id")}, []string{two, again.Header.Get("Idempotency-Replayed"), again.Header.Get("Weir-Action-Id")})
		other, _ := askVia(t, "POST", at, "b", header, "k-1")
		require.Equal(t, []any{422, "IDEMPOTENCY_MISMATCH"}, []any{other.StatusCode, other.Header.Get(schemas.HeaderRefused)})
	}
	_, body := fetch(t, a.proxied(t, "", nil), http.MethodPost, switchboard().URL+"/keyed/x", "a", "X-Request-Key", "k2")
	require.Equal(t, "3 [k2] []", body)
	async, receipt := askVia(t, "POST", base+"/events", "a", "Idempotency-Key", "s", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, async.StatusCode, receipt)
	<-begun
	a.asks(t, http.StatusConflict, "GET", "/v1/actions/"+async.Header.Get("Weir-Action-Id")+"/response", "")
	time.AfterFunc(20*time.Millisecond, func() { close(goes) }) // before the end, or after it: the answer is the same
	_, joined := askVia(t, "POST", base+"/events", "a", "Idempotency-Key", "s")
	late, _ := a.asks(t, http.StatusOK, "GET", "/v1/actions/"+async.Header.Get("Weir-Action-Id")+"/response", "")
	require.Equal(t, joined, late)
	require.True(t, strings.HasPrefix(joined, "4 "), joined)
}

// TestPassthroughLeaves: a read that its only caller gives up is stopped, and nothing else is.
func TestPassthroughLeaves(t *testing.T) {
	t.Parallel()
	gone, begun, goes := make(chan struct{}), make(chan string, 2), make(chan struct{})
	a, base := via(t, "/leaves", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if begun <- r.Method; r.Method == http.MethodGet {
			<-r.Context().Done()
			close(gone)
			return
		}
		<-goes
		fmt.Fprint(w, "done")
	})
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, method, base+"/"+method, strings.NewReader(""))
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
			list, _ := a.asks(t, http.StatusOK, http.MethodGet, "/v1/actions?q=/leaves/"+method+"&status="+want, "")
			return strings.Contains(list, `"path":"/leaves/`+method+`"`)
		}, method+" is "+want)
	}
}

// TestPassthroughTokens: the token is read where a client has its key, bounds the entries, and goes to no target.
func TestPassthroughTokens(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	switchboard().HandleFunc("/tokens/", func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header })
	a := tokenNode.node(t)
	who, _ := a.admin(t).grant(t, `{"name":"sdk","scopes":["actions:write"],"entries":["via"]}`)
	for _, headers := range [][]string{{"Authorization", "token " + who.token}, {"X-Api-Key", who.token, "Authorization", "Bearer theirs"}} {
		a.asks(t, http.StatusOK, http.MethodGet, "/via/via/tokens/x", "", headers...)
		got := <-seen
		require.NotContains(t, fmt.Sprint(got), who.token)
		require.Equal(t, []any{[]string(nil), len(headers) > 2}, []any{got["X-Api-Key"], got.Get("Authorization") == "Bearer theirs"})
	}
	for _, tt := range []struct {
		entry, key string
		status     int
		says       string
	}{
		{"via", "", 401, "UNAUTHORIZED"}, {"via", "weir1_wrong", 401, "UNAUTHORIZED"}, {"orders", who.token, 404, "use via, or send"}, {"none", who.token, 404, "use via, or send"},
	} {
		body, h := a.asks(t, tt.status, http.MethodGet, "/via/"+tt.entry+"/tokens/x", "", "X-Api-Key", tt.key)
		require.Contains(t, body, tt.says)
		require.NotContains(t, body, "orders")
		require.NotEmpty(t, h.Get(schemas.HeaderRefused))
	}
}

// TestPassthroughSchema: an answer is judged by the response schema of its entry as a whole,
// before any of it is stored or shown.
func TestPassthroughSchema(t *testing.T) {
	t.Parallel()
	const sent, kept = " {\"id\": 1,\n \"key\": \"CANARY\"}\n", `{"id":1}`
	a, _ := via(t, "/schema", func(w http.ResponseWriter, r *http.Request) {
		body, status := sent, http.StatusOK
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
	})
	for _, tt := range []struct {
		entry, path, body string
		refused           schemas.Code
		warnings          int
	}{
		{"strict", "/events", sent, "", 0},
		{"strict", "/misfit", "", schemas.ResponseSchemaInvalid, 0},
		{"strict", "/text", "", schemas.ResponseNotJSON, 0},
		{"warn", "/events", sent, "", 0},
		{"warn", "/misfit", `{"key": "CANARY"}`, "", 1},
		{"warn", "/text", "CANARY", "", 1},
		{"redact", "/", kept, "", 0},
		{"redact", "/events", kept, "", 0},
		{"redact", "/404", sent, "", 0},
		{"redact", "/misfit", "", schemas.ResponseSchemaInvalid, 0},
		{"redact", "/text", "", schemas.ResponseNotJSON, 0},
	} {
		resp, body := askVia(t, "GET", a.URL()+"/via/"+tt.entry+"/schema"+tt.path, "")
		require.Equal(t, string(tt.refused), resp.Header.Get(schemas.HeaderRefused), "%s: %s", tt, body)
		if tt.refused == "" {
			require.Equal(t, tt.body, body, tt)
		}
		action := "/v1/actions/" + resp.Header.Get("Weir-Action-Id")
		view, _ := a.asks(t, http.StatusOK, "GET", action, "")
		require.Equal(t, tt.warnings, strings.Count(view, `"warnings":[`), "%s: %s", tt, view)
		if tt.entry == "redact" && tt.path != "/404" {
			_, again, _ := a.ask(t, "GET", action+"/response", "")
			events, _ := a.asks(t, http.StatusOK, "GET", action+"/events", "", "Accept", "application/json")
			require.NotContains(t, body+view+again+events, "CANARY", tt)
		}
	}
}
