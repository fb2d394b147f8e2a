package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli"
	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

const explained1 = `listen: 127.0.0.1:0
log: {durability: process}
policy:
  allowlist:
  - name: orders
    url_prefix: https://api.example.com/orders
    headers: {Authorization: "Bearer ${secret:ORDERS}"}
  - {name: orders, url_prefix: "https://api.example.com/orders", methods: [GET, POST], mode: shadow}
  - name: pay
    url_prefix: https://pay.example.com/
    methods: [GET, POST]
    upstream_idempotency: {ttl: 24h, derive: true, header: X-Request-Key}
    retry: {attempts: 5, cap: 1m, on: [503]}
    never_retry: {header: {x-should-retry: "false"}}
    reconcile: {url: "https://pay.example.com/orders", applied: response.status == 200}
    response_schema: {schema: {type: object}, mode: redact}
  - {name: strict, url_prefix: "https://strict.example.com/", methods: [POST], upstream_idempotency: {ttl: 1h}, requires_key: true}
  - {name: plain, url_prefix: "https://plain.example.com/", methods: [POST], retry: {attempts: 1}}
`

func TestPolicyExplain(t *testing.T) {
	t.Parallel()
	file := fixture.Write(t, "weir.yaml", explained1)
	s := &site{file: file, said: &capture.Buffer{}}
	s.start(t, false)
	const url = "https://api.example.com/orders"
	for name, tt := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"allowed": {[]string{"GET", url}, cli.ExitOK, []string{"allowed by orders\n", "safe: tried again"}},
		"a derived key": {[]string{"POST", "https://pay.example.com/orders"}, cli.ExitOK, []string{
			"allowed by pay\n", "class   keyed:", "retries up to 5 attempts, 200ms to 1m0s apart, after a lost answer or status 503; never after x-should-retry: false\n",
			"key     derived by Weir, sent as X-Request-Key, valid for 24h0m0s\n", "probe   after a lost answer", "schema  redact\n",
		}},
		"a caller's key": {[]string{"POST", "https://strict.example.com/", "--upstream-idempotency-key", "k"}, cli.ExitOK, []string{
			"retries up to 3 attempts, 200ms to 2s apart, after a lost answer or status 429, 5xx\n",
			"key     the caller's, sent as Idempotency-Key, valid for 1h0m0s, required by the entry\n",
		}},
		"a required key": {[]string{"POST", "https://strict.example.com/"}, cli.ExitDenied, []string{"DENY_HEADER", "requires an idempotency key", "remedy  set idempotency_key"}},
		"no retries":     {[]string{"POST", "https://plain.example.com/"}, cli.ExitOK, []string{"class   once", "retries none\n"}},
		"denied":         {[]string{"POST", url, "-d", `{"a":1}`}, cli.ExitDenied, []string{"denied: DENY_METHOD\n", "entry   orders", "check   method", "why     ", "remedy  ", "would be allowed by orders", "(shadow) fits"}},
		"a header":       {[]string{"GET", url, "-H", "Host: other"}, cli.ExitDenied, []string{"DENY_HEADER"}},
		"an unknown":     {[]string{"GET", url, "--key", "nobody"}, cli.ExitDenied, []string{"DENY_KEY_UNKNOWN"}},
		"a form of it":   {[]string{"GET", "https://api.example.com./orders"}, cli.ExitDenied, []string{"without the trailing dot"}},
	} {
		args := append([]string{"policy", "explain"}, tt.args...)
		code, out, errs := command(t, append(args, "--config", file)...)
		assert.Equal(t, tt.code, code, "%s: %s", name, errs)
		for _, w := range tt.want {
			assert.Contains(t, out, w, name)
		}
		assert.NotContains(t, out, "secret", name)
		_, local, _ := command(t, append(args, "--config", file, "--json")...)
		code, inForce, _ := command(t, append(args, "--server", s.URL(), "--json")...)
		assert.Equal(t, tt.code, code)
		assert.JSONEq(t, local, inForce, "%s: the node says what its configuration does", name)
	}
	for _, args := range [][]string{
		{"GET"},
		{"GET", url, "-H", "no colon"},
		{"GET", url, "-d", "{"},
		{"GET", url, "--config", file, "--server", s.URL()},
		{"GET", url, "--config", file + ".not"},
	} {
		code, _, errs := command(t, append([]string{"policy", "explain"}, args...)...)
		assert.NotEqual(t, cli.ExitOK, code, "%v", args)
		assert.NotEmpty(t, errs)
	}
	_, out, _ := command(t, "policy", "reload", "--server", s.URL())
	assert.Contains(t, out, "nothing changed: policy ")
	for body, want := range map[string]struct {
		status int
		says   string
	}{
		`{}`: {http.StatusUnprocessableEntity, "/url"}, `{"url":1}`: {http.StatusUnprocessableEntity, "/url"},
		`{"url":"https://a/","verbose":true}`:                                 {http.StatusUnprocessableEntity, "verbose"},
		`{"url":"https://a/","url":"http://x/"}`:                              {http.StatusBadRequest, "INVALID_REQUEST"},
		`{"url":"https://a/","headers":{"a":1}}`:                              {http.StatusUnprocessableEntity, "/headers"},
		`{"method":"get","url":"https://api.example.com/orders","body":null}`: {http.StatusOK, `"allowed":true`},
	} {
		status, text, _ := s.ask(t, http.MethodPost, "/v1/policy/explain", body)
		assert.Equal(t, want.status, status, body)
		assert.Contains(t, text, want.says, body)
	}
	_, body, _ := s.ask(t, http.MethodGet, "/v1/actions", "")
	assert.Contains(t, body, `"items":[]`, "nothing was stored")

	s.sameOnTheNode(t)

	// The view shows names and no values.
	body, _ = s.asks(t, http.StatusOK, http.MethodGet, "/v1/policy", "")
	view := fixture.Decode[schemas.PolicyView](t, body)
	assert.Equal(t, s.policyView(nil, true), view)
	assert.Equal(t, []string{"Authorization"}, view.Entries[0].Headers)
	assert.NotRegexp(t, "Bearer|ORDERS", body)
	assert.False(t, view.Since.IsZero())
}

// TestPolicyOfAToken: who is limited to entries sees these and nothing of the rest.
func TestPolicyOfAToken(t *testing.T) {
	t.Parallel()
	a := tokenNode.node(t)
	for limit, want := range map[string]struct {
		entries int
		hosts   []string
	}{
		"":                      {9, []string{"localhost", "127.0.0.1"}}, // and those of an agent and models
		`,"entries":["orders"]`: {1, []string{}},
		`,"entries":["stock"]`:  {2, []string{}},
		`,"entries":["no"]`:     {0, []string{}},
	} {
		who, _ := a.admin(t).grant(t, `{"name":"who","scopes":["actions:read"]`+limit+`}`)
		body, _ := who.does(t, http.StatusOK, http.MethodGet, "/v1/policy", "")
		view := fixture.Decode[schemas.PolicyView](t, body)
		assert.Len(t, view.Entries, want.entries, limit)
		assert.Equal(t, want.hosts, view.AllowedHosts, limit)
		for _, e := range view.Entries {
			assert.True(t, limit == "" || strings.Contains(limit, e.Name), e.Name)
		}
		body, _ = who.does(t, http.StatusOK, http.MethodGet, "/sandbox", "")
		sandbox := fixture.Decode[schemas.Sandbox](t, body)
		assert.Equal(t, want.hosts, sandbox.AllowedHosts, limit)
	}
}

// TestOnlyOperatorsSeeWhereAgentsAndModelsAre has another tenant run agents and ask models that
// answer and that cannot be reached: no document names an address of theirs, or a header that is
// added to a call.
func TestOnlyOperatorsSeeWhereAgentsAndModelsAre(t *testing.T) {
	t.Parallel()
	double, model := agent.New(t, agent.Config{}), llm.New(t, llm.Config{})
	const nobody = "127.0.0.1:1" // nothing listens there
	a := newApp(t, withTokens+fmt.Sprintf(`
agents:
  %s: {url: %q}
  GONE: {url: "http://%s"}
models:
  good: {url: "http://%s/v1", headers: {X-Hidden: v}}
  gone: {url: "http://%s"}
policy:
  allowlist:
    - {name: orders, url_prefix: "https://orders.example/", headers: {X-Shown: v}}
`, agent.TaskType, double.URL(), nobody, model.Addr(), nobody))
	hidden := []string{strings.TrimPrefix(double.URL(), "http://"), model.Addr(), nobody, "X-Hidden", "x-hidden"}
	user, _ := a.admin(t).grant(t, `{"name":"u","tenant":"acme","scopes":["actions:write","actions:read","evidence:read","rules:write","metrics:read","tasks:write"]}`)
	foreign, _ := a.admin(t).grant(t, `{"name":"f","tenant":"acme","scopes":["admin"]}`)
	reader, _ := a.admin(t).grant(t, `{"name":"r","scopes":["actions:read","actions:write"]}`)

	paths := []string{
		"/v1/policy", "/models", "/v1/models/good", "/v1/actions", "/v1/stats?by=entry", "/v1/usage", "/v1/evidence", "/v1/dead-letters", "/v1/rules", "/v1/budgets",
		"/sandbox", "/openapi.json", "/readyz",
	}
	absent := func(what, text string) {
		for _, h := range hidden {
			assert.NotContains(t, text, h, what)
		}
	}
	for i, body := range []string{
		fmt.Sprintf(`{"request_id":"run-0","task_type":%q,"risk_tier":"NON_SENSITIVE"}`, agent.TaskType), `{"request_id":"run-1","task_type":"GONE","risk_tier":"NON_SENSITIVE","budgets":{"timeout_ms":300}}`,
		`{"model":"good","messages":[{"role":"user","content":"Hi"}]}`, `{"model":"gone","messages":[{"role":"user","content":"Hi"}]}`,
	} {
		path := schemas.RouteRunSync
		if i > 1 {
			path = schemas.RouteChat
		}
		status, text, h := user.do(t, http.MethodPost, path, body)
		absent(body, text)
		assert.Equal(t, i%2 == 0, status == http.StatusOK && !strings.Contains(text, `"error"`), text)
		id := h.Get("Weir-Action-Id")
		require.NotEmpty(t, id, text)
		paths = append(paths, "/v1/actions/"+id, "/v1/actions/"+id+"/payload", "/v1/actions/"+id+"/events")
	}
	for _, path := range paths {
		status, text, _ := user.do(t, http.MethodGet, path, "", "Accept", "application/json")
		if !strings.HasSuffix(path, "/payload") { // no completion's is shown
			assert.Equal(t, http.StatusOK, status, "%s: %s", path, text)
		}
		absent(path, text)
	}
	for who, c := range map[string]caller{"an admin of another tenant": foreign, "a reader of the operator's": reader} {
		_, text, _ := c.do(t, http.MethodGet, "/v1/policy", "")
		absent(who, text)
	}
	for _, url := range []string{double.URL() + "/agents/run/sync", "https://orders.example/x"} {
		_, text, _ := user.do(t, http.MethodPost, "/v1/policy/explain", fmt.Sprintf(`{"url":%q,"allowlist_key":"agent:GONE"}`, url))
		assert.NotContains(t, text, nobody)
		assert.NotContains(t, text, "X-Hidden")
	}
	_, text, _ := user.do(t, http.MethodGet, "/v1/policy", "")
	for _, shown := range []string{`"agent:GONE"`, `"model:good"`, "https://orders.example/", "X-Shown"} {
		assert.Contains(t, text, shown)
	}
	_, text, _ = a.admin(t).do(t, http.MethodGet, "/v1/policy", "")
	for _, shown := range hidden[:4] {
		assert.Contains(t, text, shown, "an operator sees all of it")
	}
}

// ends runs the program, which must end with a code, and returns what it prints.
func ends(t *testing.T, want int, args ...string) string {
	t.Helper()
	code, out, errs := command(t, args...)
	require.Equal(t, want, code, errs)
	return out
}

// sameOnTheNode: the policy in force is listed and tested as its configuration is.
func (s *site) sameOnTheNode(t *testing.T) {
	t.Helper()
	cases := fixture.Write(t, "cases.yaml", "- allow: GET https://api.example.com/orders\n- deny: PUT https://api.example.com/orders\n  because: DENY_PATH\n")
	of := func(want int, args ...string) (local, inForce string) {
		args = append([]string{"policy"}, args...)
		return ends(t, want, append(args, "--config", s.file)...), ends(t, want, append(args, "--server", s.URL())...)
	}
	local, inForce := of(cli.ExitFailed, "test", cases, "--json")
	require.Equal(t, local, inForce)
	require.Equal(t, []int{1, 1}, []int{strings.Count(local, `"pass":true`), strings.Count(local, `"pass":false`)})
	local, inForce = of(cli.ExitOK, "show")
	local, _, _ = strings.Cut(local, "version:") // it covers the ports that the node has, too
	require.True(t, strings.HasPrefix(inForce, local), "%s\n%s", local, inForce)
	_, inForce = of(cli.ExitOK, "show", "--json")
	require.Contains(t, inForce, `"headers":["Authorization"]`)
	require.NoError(t, os.WriteFile(cases, []byte("- deny: POST https://a.example/\n  body: 1\n  form: {a: 1}\n"+ // which the node would refuse
		"- allow: GET https://api.example.com/orders\n  entries: [orders]\n"), 0o600))
	code, _, errs := command(t, "policy", "test", cases, "--server", s.URL())
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errs, cases+":4: entries: only for a local configuration")
}

// TestPolicyShow: the policy is listed with all that is left to callers.
func TestPolicyShow(t *testing.T) {
	t.Parallel()
	const text = `policy:
  allowed_hosts: [wiki.example]
  allowlist:
    - {name: hub, url_prefix: "https://hub.example/", headers: {X-Auth: "${secret:HUB}"}, caller_headers: ["*"], caller_params: [page], limits: {rate: 10/s, concurrency: 2}}
    - {name: near, url_prefix: "http://127.0.0.1:3000/", methods: [GET, POST], network: loopback}
    - name: pay
      url_prefix: https://pay.example/
      methods: [GET, POST]
      upstream_idempotency: {ttl: 24h, derive: true}
      retry: {attempts: 5, on: [429, 503]}
      never_retry: {status: [501], header: {x-should-retry: "false"}}
      reconcile: {url: "https://pay.example/orders", applied: response.status == 200}
      response_schema: {schema: {type: object}, mode: warn}
models: {gpt: {url: "https://models.example/v1", pass: "*"}}
`
	file := fixture.Write(t, "weir.yaml", text)
	local := ends(t, cli.ExitOK, "policy", "show", "--config", file)
	for _, line := range []string{
		`hub +enforce +GET +https://hub\.example/ +public +headers: X-Auth +headers: \*; params: page +rate: 10/s; concurrency: 2`,
		`near +enforce +GET POST +http://127\.0\.0\.1:3000/ +loopback +- +any +-`,
		`pay .* keys: 24h0m0s derived; attempts: 5; retry on: 429, 503; never retry: 501, x-should-retry: false; probe: GET; schema: warn`,
		`model:gpt .* members: \* +-`, `allowed hosts: wiki\.example`,
	} {
		require.Regexp(t, line+"\n", local)
	}
}

const tested = `listen: 127.0.0.1:0
log: {durability: process}
policy:
  allowlist:
  - {name: orders, url_prefix: "https://api.example.com/orders", methods: [GET, POST], headers: {Authorization: "Bearer ${secret:ORDERS}"}}
  - {name: pins, url_prefix: "https://pins.example.com/", methods: [POST], body: {pin: "${secret:PIN}"}}
`

// TestPolicyTest tests one policy by its file.
func TestPolicyTest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	require.NoError(t, os.WriteFile(file, []byte(tested), 0o600))
	const denied, allowed = "- deny: ", "- allow: "
	const orders, pins = "https://api.example.com/orders\n", "https://pins.example.com/\n"
	type testCase struct {
		cases string
		code  int
		want  string // of the last line
	}
	table.Run(t, map[string]testCase{
		"allowed":              {allowed + "GET " + orders, cli.ExitOK, "PASS FILE:1 allow GET https://api.example.com/orders: allowed by orders"},
		"a method in any case": {allowed + "get " + orders, cli.ExitOK, "PASS FILE:1 allow GET"},
		"by its entry":         {allowed + "GET " + orders + "  by: orders\n  key: orders", cli.ExitOK, "PASS"},
		"by another":           {allowed + "GET " + orders + "  by: pins", cli.ExitFailed, "FAIL FILE:1 allow GET https://api.example.com/orders by pins: allowed by orders"},
		"under another's name": {allowed + "GET " + orders + "  key: pins", cli.ExitFailed, "to allow it, set allowlist_key to orders"},
		"a body":               {allowed + "POST " + pins + "  body: {n: 1.5, list: [a, null]}", cli.ExitOK, "PASS"},
		"a text":               {denied + "POST " + pins + "  body_text: a=b\n  because: DENY_BODY", cli.ExitOK, "PASS"},
		"bytes":                {allowed + "POST " + orders + "  body_base64: AP8=", cli.ExitOK, "PASS"},
		"a form":               {denied + "POST " + pins + "  form: {a: [1, x], f: {filename: f, base64: AP8=}}\n  because: DENY_BODY", cli.ExitOK, "PASS"},
		"no body":              {allowed + "POST " + pins, cli.ExitFailed, "DENY_BODY"},
		"a header":             {denied + "GET " + orders + "  headers: {authorization: mine}\n  because: DENY_HEADER", cli.ExitOK, "PASS"},
		"a tunnel":             {denied + "CONNECT api.example.com:443\n  because: DENY_METHOD", cli.ExitOK, "PASS"},
		"denied":               {denied + "PUT " + orders + "  because: DENY_METHOD", cli.ExitOK, "PASS FILE:1 deny PUT https://api.example.com/orders: denied by orders, DENY_METHOD: "},
		"for another reason":   {denied + "PUT " + orders + "  because: DENY_PATH", cli.ExitFailed, "because DENY_PATH: denied by orders, DENY_METHOD"},
		"denied, but allowed":  {denied + "GET " + orders, cli.ExitFailed, "FAIL FILE:1 deny GET https://api.example.com/orders: allowed by orders"},
		"allowed, but denied":  {allowed + "GET https://other.example/", cli.ExitFailed, "to allow it, add an entry with url_prefix https://other.example/, or add other.example to policy.allowed_hosts"},
		"the last of three":    {"# why\n" + allowed + "GET " + orders + "\n" + denied + "PUT " + orders + "- {deny: GET " + strings.TrimSpace(orders) + "}\n", cli.ExitFailed, "FAIL FILE:5 "},
		"only some entries":    {denied + "GET " + orders + "  entries: [pins]\n  because: DENY_HOST", cli.ExitOK, "PASS"},
	}, func(t *testing.T, tt testCase) {
		cases := fixture.Write(t, "cases.yaml", tt.cases)
		args := []string{"policy", "test", cases, "--config", file}
		code, out, errs := command(t, args...)
		require.Equal(t, tt.code, code, errs)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Contains(t, lines[len(lines)-1], strings.ReplaceAll(tt.want, "FILE", cases))
		require.Contains(t, errs, " cases: ")
	})
}

// TestBadCases: every mistake in a file is reported with its line, and nothing is decided.
func TestBadCases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	require.NoError(t, os.WriteFile(file, []byte(tested), 0o600))
	run := func(cases string) (out, errs string) {
		name := fixture.Write(t, "c.yaml", cases)
		code, out, errs := command(t, "policy", "test", "--config", file, name)
		require.Equal(t, cli.ExitUsage, code, errs)
		return out, errs
	}
	out, errs := run(`- allow: GET https://a.example/
- allow: GET https://a.example/
  deny: GET https://a.example/
- allow: https://a.example/
- deny: GET https://a.example/
  bcause: DENY_HOST
- deny: GET https://a.example/
  because: DENY_NO
- {allow: GET https://a.example/, because: DENY_HOST}
- seven
- key: orders
- allow: GET https://a.example/
  headers: [a]
- allow: GET https://a.example/
  entries: []
- deny: GET https://a.example/
  because:
- allow: GET https://a.example/
  by: ""
- allow: GET https://a.example/
  entries:
- allow: GET https://a.example/
  entries: [""]
`)
	assert.Empty(t, out)
	for _, want := range []string{
		":2: give one of allow and deny", ":4: write a method and a URL", `:5: it is not a case: unknown field "bcause"`,
		`:7: because: "DENY_NO" is not the code of a denial; the codes are DENY_KEY_UNKNOWN`, ":9: because: only for deny", ":10: it is not a case", ":11: give one of allow and deny",
		":12: it is not a case", ":14: entries: write the names",
		":16: because: it is empty", ":18: by: it is empty", ":20: entries: it is empty", ":22: entries: write the names",
	} {
		assert.Contains(t, errs, want)
	}
	assert.NotContains(t, errs, ":1:")
	out, errs = run("- allow: GET https://a.example/\n- deny: POST https://a.example/\n  body: 1\n  form: {a: 1}")
	assert.Empty(t, out)
	assert.Contains(t, errs, ":2: VALIDATION_ERROR: at /form: is a second form of the body")
	for cases, want := range map[string]string{
		"": "not a list of cases", "a: b": "not a list of cases", "[]": "not a list of cases", `{"id":"x"}`: "not a list of cases", "- a: [": ":1: it is not YAML",
		"- allow: GET https://a.example/\n-\n":         ":2: it is not a case: null was used",
		"- allow: GET https://a.example/\n  by: [a]\n": "policyCase.By",
	} {
		_, errs := run(cases)
		assert.Contains(t, errs, want, cases)
	}
}
