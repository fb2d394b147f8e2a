package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/config"
)

// TestCallersDoNotSteerACredential: what chooses as whom a call is made does not go out beside what an entry adds, whichever
// way a caller sends it, and the refusal says what would let it pass. An entry that names it sends it.
func TestCallersDoNotSteerACredential(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var heard []string
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, fmt.Sprintf("%s %s sudo=%q", r.URL.RequestURI(), r.Header.Get("X-Auth"), r.Header.Get("Sudo")))
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(target.Close)
	a := newApp(t, withTokens+fmt.Sprintf(`
policy:
  allowlist:
    - {name: closed, url_prefix: %[1]q, network: loopback, headers: {X-Auth: hunter2}}
    - {name: named, url_prefix: %[1]q, network: loopback, headers: {X-Auth: hunter2}, caller_headers: [Sudo], caller_params: [page]}
`, target.URL+"/"))
	who, _ := a.admin(t).grant(t, `{"name":"x","tenant":"x","scopes":["actions:write","actions:read"]}`)
	ask := func(path, key, query, header string) (int, string) {
		doc := map[string]any{"method": "GET", "url": target.URL + "/" + query, "allowlist_key": key}
		if header != "" {
			doc["headers"] = map[string]string{header: "root"}
		}
		if path == "/v1/plans" {
			doc = map[string]any{
				"state:env.snapshot":     map[string]string{"snapshot_id": "s"},
				"artifact:proposed.plan": map[string]any{"plan_id": "p", "decisions": []any{map[string]any{"effect_ref": "e", "target_state": doc}}},
			}
		}
		body, err := json.Marshal(doc)
		require.NoError(t, err)
		status, text, _ := who.do(t, http.MethodPost, path, string(body))
		return status, text
	}
	for _, path := range []string{"/v1/execute", "/v1/policy/explain"} {
		for _, header := range []string{"Sudo", "Stripe-Account", "X-Consumer-Username", "X-Roles", "Authorization"} {
			_, text := ask(path, "closed", "", header)
			require.Contains(t, text, "DENY_HEADER", "%s: %s", path, header)
		}
		for _, query := range []string{"?sudo=root", "?_method=DELETE", "?access_token=x"} {
			_, text := ask(path, "closed", query, "")
			require.Contains(t, text, "DENY_URL_INVALID", "%s: %s", path, query)
		}
	}
	_, text := ask("/v1/execute", "closed", "", "Sudo")
	require.Contains(t, text, "caller_headers")
	_, text = ask("/v1/policy/explain", "closed", "", "Sudo")
	require.Contains(t, text, "add Sudo to caller_headers of entry closed")
	_, text = ask("/v1/plans", "closed", "", "Sudo")
	require.Contains(t, text, "caller_headers")
	require.Empty(t, heard)

	status, text := ask("/v1/execute", "named", "?page=2", "Sudo")
	require.Equal(t, http.StatusOK, status, text)
	status, text = ask("/v1/execute", "closed", "", "Accept-Language")
	require.Equal(t, http.StatusOK, status, text)
	require.Equal(t, []string{`/?page=2 hunter2 sudo="root"`, `/ hunter2 sudo=""`}, heard)
}

// TestOpenEntriesAreWarnedOf at start, and shown.
func TestOpenEntriesAreWarnedOf(t *testing.T) {
	t.Parallel()
	const entry = `policy: {allowlist: [{name: a, url_prefix: "https://a.example/", headers: {X-Auth: hunter2}, caller_headers: ["*"], caller_params: ["*"]}]}`
	cfg, err := config.Parse("test", []byte(entry), nil, nil)
	require.NoError(t, err)
	require.Len(t, cfg.Warnings(), 2)
	require.Contains(t, cfg.Warnings()[0]+cfg.Warnings()[1], "policy.allowlist[0].caller_headers: is *")
	a := newApp(t, entry)
	_, text, _ := a.ask(t, http.MethodGet, "/v1/policy", "")
	require.Contains(t, text, `"caller_headers":["*"],"caller_params":["*"]`)
}
