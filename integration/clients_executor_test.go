//go:build e2e

package integration_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/program"
	"weir/schemas"
)

// plannersTarget is what planners call through the executor. It answers /echo with the
// request's headers, and /answer/STATUS?body=…&type=… as it is asked to.
func plannersTarget(t *testing.T) (up *httptest.Server, seen chan http.Header) {
	t.Helper()
	seen = make(chan http.Header, 20)
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		fmt.Fprintf(w, `{"authorization":%q,"key":%q,"cookie":%q}`, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), r.Header.Get("Cookie"))
	})
	tries := map[string]int{}
	var mu sync.Mutex
	mux.HandleFunc("/answer/{status}", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n := tries[r.URL.RequestURI()]
		tries[r.URL.RequestURI()]++
		mu.Unlock()
		if last := r.FormValue("lost"); last != "" && n == 2 { // the third attempt is answered by nothing
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		status, _ := strconv.Atoi(r.PathValue("status"))
		w.Header().Set("Content-Type", cmp.Or(r.FormValue("type"), "application/json"))
		w.Header().Set("Set-Cookie", "sid=AGWCANARY-cookie")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, r.FormValue("body"))
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
	w, err := tryServe(program.How{Environ: []string{"WEIR_SECRET_PLANNER=AGWCANARY-injected"}}, t.TempDir(), "--durability", "process", "--config", plannersPolicy(t, up.URL))
	require.NoError(t, err)
	t.Cleanup(w.Kill)
	const headers = `{"Authorization":"Bearer AGWCANARY-own-bearer","X-Api-Key":"AGWCANARY-own-key","Cookie":"sid=AGWCANARY-own-session","Accept":"application/json"}`
	const hidden = `{"authorization":"REDACTED","key":"REDACTED","cookie":"REDACTED"}`

	resp, body := w.request(t, http.MethodPost, "/v1/execute", `{"type":"Http","args":{"method":"GET","url":"`+up.URL+`/echo","headers":`+headers+`},"request_id":"own-1"}`)
	require.Equal(t, http.StatusOK, resp.StatusCode, body)
	require.JSONEq(t, hidden, string(decode[schemas.ExecuteOutcome](t, body).Body), "what the target echoes is hidden")
	resp, body = w.request(t, http.MethodPost, "/v1/plans", `{"request_id":"own-2","state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[{"effect_ref":"e","target_state":{"url":"`+up.URL+`/echo","allowlist_key":"up","headers":`+headers+`}}]}}`)
	require.Equal(t, http.StatusOK, resp.StatusCode, body)
	require.JSONEq(t, hidden, *decode[schemas.PlanResult](t, body).Report.ArtifactRefs["e"].ResponseSnippet)
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
	require.NotContains(t, body+explained+recorded+w.Said(), "AGWCANARY")

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

// TestPlannersAnswers sends the primitive as planners do, in both of its forms, and reads
// the answers as they do: each is compared member by member.
func TestPlannersAnswers(t *testing.T) {
	t.Parallel()
	up, _ := plannersTarget(t)
	w := serve(t, t.TempDir(), "--durability", "process", "--config", plannersPolicy(t, up.URL))
	target := func(status int, body string, more ...string) string {
		q := url.Values{"body": {body}}
		for i := 0; i < len(more); i += 2 {
			q.Set(more[i], more[i+1])
		}
		return fmt.Sprintf("%s/answer/%d?%s", up.URL, status, q.Encode())
	}
	const plain = `"headers":[{"name":"content-length","value":"N"},{"name":"content-type","value":"application/json"},{"name":"date","value":"D"},{"name":"set-cookie","value":"REDACTED"}]`
	call := func(method, url string, rest ...string) string {
		return `{"type":"Http","args":{"method":"` + method + `","url":"` + url + `"` + strings.Join(rest, "") + `}}`
	}
	wants := func(url, postcondition string) string {
		return `{"type":"Http","args":{"method":"GET","url":"` + url + `"},"postcondition":` + postcondition + `}`
	}
	const history503 = `"history":[{"attempt":1,"outcome":{"status":503}},{"attempt":2,"outcome":{"status":503}},`
	for name, tt := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"the primitive": {
			`{"type":"Http","args":{"method":"post","url":"` + target(200, `{"n":1.50}`) + `","headers":{"X-Trace":"t"},"body":{"a":1},"response_schema":{"type":"object"},"timeout_ms":5000,"allowlist_key":"up"},"idempotency_key":"k"}`,
			200, `{"status":200,` + plain + `,"body":{"n":1.50}}`,
		},
		"the bare form": {`{"method":"GET","url":"` + target(200, `[]`) + `"}`, 200, `{"status":200,` + plain + `,"body":[]}`},
		"an assertion that holds": {
			wants(target(200, `{"sp ace":{"a":[1,2]}}`), `[{"type":"http_status","equals":200},{"type":"json_path","path":"$.sp ace.a[1]","equals":2},{"type":"dom_contains","text":"ACE","case_insensitive":true}]`), 200,
			`{"status":200,` + plain + `,"body":{"sp ace":{"a":[1,2]}},"postcondition":{"passed":true,"assertions":[{"kind":"http_status","status":"passed","detail":{"status":200}},` +
				`{"kind":"json_path_equals","status":"passed","detail":{"path":"$.sp ace.a[1]","value":2}},{"kind":"dom_contains","status":"passed","detail":{"matched":true}}]}}`,
		},
		"assertions that do not": {
			wants(target(200, `{"a":{"s":"secret"}}`), `{"assertions":[{"type":"http_status","equals":201},{"type":"http_status","equals":-7},{"type":"json_path","path":"$.b","equals":1},{"type":"json_path","path":"$.a","equals":{"s":"x"}},{"type":"dom_contains","text":"none","selector":"h1"}],"step":"s-1"}`), 422,
			`{"error":{"variant":"PostconditionFailed","message":"a postcondition does not hold","code":"POSTCONDITION_FAILED","retryable":false,"report":{"passed":false,"assertions":[` +
				`{"kind":"http_status","status":"failed","code":"http_status_mismatch","message":"expected status 201, observed 200","expected":{"status":201},"observed":{"status":200}},` +
				`{"kind":"http_status","status":"failed","code":"http_status_mismatch","message":"expected status -7, observed 200","expected":{"status":-7},"observed":{"status":200}},` +
				`{"kind":"json_path_equals","status":"failed","code":"json_path_missing","message":"$.b leads nowhere","expected":1},` +
				`{"kind":"json_path_equals","status":"failed","code":"json_path_predicate_failed","message":"the value at $.a is not the expected one","expected":{"s":"[REDACTED]"},"observed":{"s":"[REDACTED]"}},` +
				`{"kind":"dom_contains","status":"failed","code":"dom_text_missing","message":"no element fits the selector","expected":"[REDACTED]"}],"metadata":{"step":"s-1"}}}}`,
		},
		"a postcondition that is none": {
			wants(target(200, `1`), `{"status":200}`), 422,
			`{"error":{"variant":"UnsupportedPostcondition","message":"unsupported postcondition: must have a type, or a list of assertions","code":"VALIDATION_ERROR","retryable":false}}`,
		},
		"another status": {
			call("GET", target(404, `{"missing":true}`)), 502,
			`{"error":{"variant":"HttpFailure","message":"http request returned status 404","code":"HTTP_FAILURE","retryable":false,"status":404,` + plain + `,"body":{"missing":true}}}`,
		},
		"another status, with a text": {
			call("POST", target(503, `<p>busy</p>`, "type", "application/json")), 502,
			`{"error":{"variant":"HttpFailure","message":"http request returned status 503","code":"HTTP_FAILURE","retryable":false,"status":503,` + plain + `,"body":"<p>busy</p>"}}`,
		},
		"retries that are all answered": {
			call("GET", target(503, `{"busy":1}`)), 502,
			`{"error":{"variant":"RetriesExhausted","message":"retry attempts exhausted after 3 attempts; last error: http request returned status 503","code":"RETRIES_EXHAUSTED","retryable":true,"attempts":3,` +
				history503 + `{"attempt":3,"outcome":{"status":503}}],"last_error":"http request returned status 503","status":503,` + plain + `,"body":{"busy":1}}}`,
		},
		"retries that end without an answer": {
			call("GET", target(503, `{"busy":2}`, "lost", "yes")), 502,
			`{"error":{"variant":"RetriesExhausted","message":"M","code":"RETRIES_EXHAUSTED","retryable":true,"attempts":3,` +
				history503 + `{"attempt":3,"outcome":{"other":"O"}}],"last_error":"M","status":503,` + plain + `,"body":{"busy":2}}}`,
		},
		"a name twice, with a schema": {
			call("GET", target(200, `{"a":1,"a":2}`), `,"response_schema":{"type":"object"}`), 422,
			`{"error":{"variant":"SchemaValidationFailed","message":"/a: stands twice in its object; readers differ on which one counts","code":"RESPONSE_SCHEMA_INVALID","retryable":false}}`,
		},
		"a method": {
			call("PUT", up.URL+"/x", `,"allowlist_key":"up"`), 403,
			denial("disallowed method 'PUT': ", schemas.DenyMethod, "up", "the entry does not list the method; use one that it lists, or an entry that lists this one"),
		},
		"a header": {
			call("GET", up.URL+"/x", `,"allowlist_key":"up","headers":{"X-Forwarded-For":"10.0.0.1"}`), 403,
			denial("disallowed header: ", schemas.DenyHeader, "up", "a header changes where, as whom or how the request is served behind the target; leave it out and put the real target in the url and the method"),
		},
		"a key": {
			call("GET", up.URL+"/x", `,"allowlist_key":"none"`), 403,
			denial("disallowed allowlist key: ", schemas.DenyKeyUnknown, "", "no allowlist entry has this name; names are matched exactly, so use one from the policy as it is written there"),
		},
		"a body": {
			call("GET", up.URL+"/x", `,"allowlist_key":"up","body":{}`), 403,
			denial("disallowed body: ", schemas.DenyBody, "up", "GET and HEAD carry no body; use the url's query, or another method"),
		},
		"a host": {
			call("GET", "http://Example.com:81/x"), 403,
			`{"error":{"variant":"DisallowedHost","message":"disallowed host 'example.com'","code":"DENY_HOST","retryable":false,"reason":"no entry and no allowed host covers this host; ask the operator to add one"}}`,
		},
		"a method that is none": {
			call("FETCH", up.URL+"/x"), 400,
			`{"error":{"variant":"InvalidMethod","message":"invalid http method: FETCH","code":"DENY_METHOD","retryable":false}}`,
		},
		"a header that is none": {
			call("GET", up.URL+"/x", `,"headers":{"X A":"1"}`), 400,
			`{"error":{"variant":"InvalidHeaderName","message":"invalid header name 'X A'","code":"DENY_HEADER","retryable":false}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, body := w.request(t, http.MethodPost, "/v1/execute", tt.body)
			assert.Equal(t, tt.status, resp.StatusCode, body)
			assert.JSONEq(t, tt.want, steady(t, body))
			assert.NotContains(t, body, "AGWCANARY")
		})
	}

	_, body := w.request(t, http.MethodPost, "/v1/execute", call("GET", target(200, `{"a":1,"a":2}`)))
	require.Contains(t, body, `"body":{"a":1,"a":2}`, "without a schema an answer is passed on as it came")
}

// denial is the error of a call that policy refuses.
func denial(message string, code schemas.Code, entry, reason string) string {
	rule := ""
	if entry != "" {
		rule = `"rule":"` + entry + `",`
	}
	return `{"error":{"variant":"DisallowedHost","message":"` + message + reason + `","code":"` + string(code) + `","retryable":false,` + rule + `"reason":"` + reason + `"}}`
}

// steady is an answer without what differs each time: ids, dates, lengths, and the words of
// a connection that broke.
func steady(t *testing.T, body string) string {
	t.Helper()
	doc := decode[map[string]any](t, body)
	part := doc
	if fault, ok := doc["error"].(map[string]any); ok {
		part = fault
		delete(fault, "request_id")
		if last, _ := fault["last_error"].(string); last != "" && !strings.HasPrefix(last, "http request returned") {
			fault["message"], fault["last_error"] = "M", "M"
		}
		history, _ := fault["history"].([]any)
		for _, h := range history {
			if outcome, ok := h.(map[string]any)["outcome"].(map[string]any); ok && outcome["other"] != nil {
				outcome["other"] = "O"
			}
		}
	}
	headers, _ := part["headers"].([]any)
	for _, h := range headers {
		switch field, _ := h.(map[string]any); field["name"] {
		case "date":
			field["value"] = "D"
		case "content-length":
			field["value"] = "N"
		}
	}
	out, err := json.Marshal(doc)
	require.NoError(t, err)
	return string(out)
}

// TestPolicyTestJudgesAsExecuteDoes sends requests through POST /v1/execute and through
// `weir policy test` under the same policy: both say the same code.
func TestPolicyTestJudgesAsExecuteDoes(t *testing.T) {
	t.Parallel()
	up, _ := plannersTarget(t)
	w, err := tryServe(program.How{Environ: []string{"WEIR_SECRET_PLANNER=AGWCANARY-injected"}}, t.TempDir(), "--durability", "process", "--config", plannersPolicy(t, up.URL))
	require.NoError(t, err)
	t.Cleanup(w.Kill)
	policy := fmt.Sprintf(`{"entries":[{"name":"up","url_prefix":"%[1]s/","methods":["GET","POST","DELETE"],"network":"loopback"},`+
		`{"name":"keyed","url_prefix":"%[1]s/","methods":["GET"],"network":"loopback","query":{"v":"${secret:PLANNER}"}}],"allowed_hosts":["localhost","127.0.0.1","::1"]}`, up.URL)
	ok, at := `"method":"GET","url":"`+up.URL+`/answer/200"`, `"method":"POST","url":"`+up.URL+`/answer/200"`
	var bodies []string
	var cases strings.Builder
	for i, tt := range []struct{ args, beside string }{
		{ok, ``},
		{at + `,"body":{"a":[1.50]},"headers":{"X-A":"1"},"timeout_ms":1000,"response_schema":true,"allowlist_key":"up"`, `"idempotency_key":"k"`},
		{at + `,"body":null,"headers":null,"allowlist_key":null`, `"idempotency_key":null,"postcondition":null`},
		{ok + `,"headers":{"Authorization":"Bearer x","X-Api-Key":"k","Cookie":"a=b"}`, ``},
		{ok + `,"headers":{"Authorization":"Bearer x"},"allowlist_key":"keyed"`, ``},
		{ok + `,"headers":{"Authorization":"REDACTED"}`, ``},
		{ok + `,"headers":{"Proxy-Authorization":"Basic x"}`, ``},
		{ok + `,"headers":{"X-A":"${secret:PLANNER}"}`, ``},
		{ok + `,"headers":{"X-A":5}`, ``},
		{ok + `,"headers":{"X A":"5"}`, ``},
		{ok + `,"headers":{"X-A":"1","x-a":"2"}`, ``},
		{ok + `,"headers":{"X-A":"1","X-A":"2"}`, ``},
		{ok + `,"headers":[]`, ``},
		{ok + `,"allowlist_key":"none"`, ``},
		{ok + `,"allowlist_key":""`, ``},
		{ok + `,"allowlist_key":7`, ``},
		{ok + `,"body":{}`, ``},
		{ok + `,"response_schema":{"$ref":"http://h/"}`, ``},
		{ok + `,"response_schema":7`, ``},
		{ok + `,"timeout_ms":0`, ``},
		{ok + `,"timeout_ms":30001`, ``},
		{ok + `,"retries":1`, ``},
		{ok, `"postcondition":[]`},
		{ok, `"postcondition":{}`},
		{ok, `"postcondition":[{"type":"http_status","equals":200}]`},
		{ok, `"idempotency_key":"a\nb"`},
		{ok, `"request_id":"a b"`},
		{`"url":"` + up.URL + `/answer/200"`, ``},
		{`"method":"get","url":"` + up.URL + `/answer/200"`, ``},
		{`"method":"FETCH","url":"` + up.URL + `/answer/200"`, ``},
		{`"method":"PUT","url":"` + up.URL + `/answer/200","allowlist_key":"up"`, ``},
		{`"method":"GET","url":"/answer/200"`, ``},
		{`"method":"GET","url":7`, ``},
		{`"method":"GET","url":"` + up.URL + `/a b"`, ``},
		{`"method":"GET","url":"` + up.URL + `/a/../b"`, ``},
		{`"method":"GET","url":"http://u:p@127.0.0.1/"`, ``},
		{`"method":"GET","url":"ftp://127.0.0.1/"`, ``},
		{`"method":"GET","url":"http://example.com/"`, ``},
		{`"method":"GET","url":"http://example.com/","timeout_ms":0`, ``},
		{`"method":"GET","url":"http://169.254.169.254/"`, ``},
		{at + `,"body":` + strings.Repeat("[", 70) + strings.Repeat("]", 70), ``},
		{at + `,"body":{"a":1,"a":2}`, ``},
	} {
		beside, request := "", tt.args
		if tt.beside != "" {
			beside, request = ","+tt.beside, request+","+tt.beside
		}
		bodies = append(bodies, `{"type":"Http","args":{`+tt.args+`}`+beside+`}`)
		fmt.Fprintf(&cases, `{"id":"%d","policy":%s,"request":{%s},"expected":"allow"}`+"\n", i, policy, request)
	}
	cmd := exec.Command(binary, "policy", "test", "-")
	cmd.Stdin = strings.NewReader(cases.String())
	out, _ := cmd.Output() // it fails: most cases are denied
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, len(bodies)+1, string(out))
	for i, body := range bodies {
		resp, text := w.request(t, http.MethodPost, "/v1/execute", body)
		code := "OK"
		if resp.StatusCode != http.StatusOK {
			code = string(decode[schemas.ExecuteError](t, text).Error.Code)
		}
		verdict := decode[struct{ Code string }](t, lines[i])
		assert.Equal(t, code, verdict.Code, "%s: %s", body, text)
	}
}
