package integration_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// plannersTarget is what planners call through the executor. It answers /echo with the
// request's headers.
func plannersTarget(t *testing.T) (up *httptest.Server, seen chan http.Header) {
	t.Helper()
	seen = make(chan http.Header, 20)
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		fmt.Fprintf(w, `{"authorization":%q,"key":%q,"cookie":%q}`, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), r.Header.Get("Cookie"))
	})
	up = httptest.NewServer(mux)
	t.Cleanup(up.Close)
	return up, seen
}

// plannersPolicy has an entry that adds nothing, and one that adds a credential.
func plannersPolicy(t *testing.T, up string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	text := fmt.Sprintf(`policy:
  allowlist:
    - {name: up, url_prefix: "%[1]s/", methods: [GET, POST, DELETE], network: loopback}
    - {name: keyed, url_prefix: "%[1]s/", methods: [GET], network: loopback, query: {v: "${secret:PLANNER}"}}
`, up)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestPlannersCredentials: a caller's own credentials arrive at the target and are shown
// nowhere.
func TestPlannersCredentials(t *testing.T) {
	t.Parallel()
	up, seen := plannersTarget(t)
	w, err := tryServeEnv(t.TempDir(), []string{"WEIR_SECRET_PLANNER=AGWCANARY-injected"}, "--durability", "process", "--config", plannersPolicy(t, up.URL))
	require.NoError(t, err)
	t.Cleanup(w.kill)
	const headers = `{"Authorization":"Bearer AGWCANARY-own-bearer","X-Api-Key":"AGWCANARY-own-key","Cookie":"sid=AGWCANARY-own-session","Accept":"application/json"}`
	const hidden = `{"authorization":"REDACTED","key":"REDACTED","cookie":"REDACTED"}`

	resp, body := w.request(t, http.MethodPost, "/v1/execute", `{"type":"Http","args":{"method":"GET","url":"`+up.URL+`/echo","headers":`+headers+`},"request_id":"own-1"}`)
	require.Equal(t, http.StatusOK, resp.StatusCode, body)
	require.Equal(t, hidden, string(decode[schemas.ExecuteOutcome](t, body).Body), "what the target echoes is hidden")
	resp, body = w.request(t, http.MethodPost, "/v1/plans", `{"request_id":"own-2","state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[{"effect_ref":"e","target_state":{"url":"`+up.URL+`/echo","allowlist_key":"up","headers":`+headers+`}}]}}`)
	require.Equal(t, http.StatusOK, resp.StatusCode, body)
	require.Equal(t, hidden, *decode[schemas.PlanResult](t, body).Report.ArtifactRefs["e"].ResponseSnippet)
	for range 2 {
		got := <-seen
		require.Equal(t, []string{"Bearer AGWCANARY-own-bearer", "AGWCANARY-own-key", "sid=AGWCANARY-own-session"}, []string{got.Get("Authorization"), got.Get("X-Api-Key"), got.Get("Cookie")})
	}

	for _, path := range []string{
		"/v1/actions/own-1", "/v1/actions/own-1/payload", "/v1/actions/own-1/events", "/v1/actions/own-2/payload", "/v1/actions/own-2/events", "/v1/evidence", "/v1/actions",
	} {
		resp, body := w.request(t, http.MethodGet, path, "", "Accept", "application/json")
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		require.NotContains(t, body, "AGWCANARY", path)
	}
	_, body = w.request(t, http.MethodPost, "/v1/rules/preview", `{"method":"GET","url":"`+up.URL+`/echo","headers":`+headers+`}`)
	require.Contains(t, body, `"authorization":"REDACTED"`)
	_, explained := w.request(t, http.MethodPost, "/v1/policy/explain", `{"allowlist_key":"keyed","url":"`+up.URL+`/echo","headers":`+headers+`}`)
	_, recorded := w.request(t, http.MethodPost, "/v1/rules/record", `{"action_id":"own-1"}`)
	require.NotContains(t, body+explained+recorded+w.stderr(), "AGWCANARY")

	for _, tt := range []struct{ key, header string }{
		{"keyed", `"Authorization":"Bearer AGWCANARY-x"`},
		{"keyed", `"X-Api-Key":"AGWCANARY-x"`},
		{"keyed", `"Cookie":"AGWCANARY=x"`},
		{"up", `"Proxy-Authorization":"Basic AGWCANARY"`},
		{"up", `"Authorization":"REDACTED"`},
		{"up", `"Authorization":"Bearer ${secret:PLANNER}"`},
	} {
		resp, body := w.request(t, http.MethodPost, "/v1/execute", `{"method":"GET","url":"`+up.URL+`/echo","allowlist_key":"`+tt.key+`","headers":{`+tt.header+`}}`)
		assert.Equal(t, http.StatusForbidden, resp.StatusCode, body)
		assert.Contains(t, body, "DENY_HEADER")
		assert.NotContains(t, body, "AGWCANARY")
	}
	require.Empty(t, seen, "what is denied sends nothing")
}
