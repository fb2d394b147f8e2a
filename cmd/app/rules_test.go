package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli"
	"weir/ingress/grant"
	"weir/internal/traffic"
	"weir/schemas"
)

// tenant is the admin of a tenant of its own, on the node that is shared.
func tenant(t *testing.T, name string) caller {
	t.Helper()
	c, _ := tokenNode.node(t).admin(t).grant(t, fmt.Sprintf(`{"name":"all","tenant":%q,"scopes":["admin"]}`, fresh(name)))
	return c
}

// command runs the program as this caller.
func (c caller) command(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return weir(t, []string{"WEIR_URL=" + c.URL(), "WEIR_TOKEN=" + c.token}, args...)
}

// ruled runs `weir rules`. It must succeed.
func (c caller) ruled(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := c.command(t, append([]string{"rules"}, args...)...)
	require.Equal(t, cli.ExitOK, code, "%v: %s", args, errs)
	return out
}

// refused runs `weir rules`. It must fail, and say so.
func (c caller) refused(t *testing.T, says string, args ...string) {
	t.Helper()
	code, _, errs := c.command(t, append([]string{"rules"}, args...)...)
	require.Equal(t, cli.ExitFailed, code, "%v", args)
	require.Contains(t, errs, says)
}

// counted is a target that counts its calls.
func counted(t *testing.T, answer string) (url string, calls *atomic.Int32) {
	t.Helper()
	calls = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.ReplaceAll(answer, "PATH", r.URL.Path))
	}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

// TestRulesRehearse: what a plan was answered is given again without its target.
func TestRulesRehearse(t *testing.T) {
	t.Parallel()
	target, calls := counted(t, `{"at":"PATH"}`)
	c := newApp(t, withTokens+fmt.Sprintf("policy: {allowlist: [{name: x, url_prefix: %q, network: loopback}]}\n", target+"/")).admin(t)
	plan := func(id string) string {
		t.Helper()
		decision := func(ref string) string {
			return fmt.Sprintf(`{"effect_ref":%q,"target_state":{"url":"%s/%s","allowlist_key":"x"}}`, ref, target, ref)
		}
		body := fmt.Sprintf(`{"request_id":%q,"state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[%s,%s]}}`, id, decision("one"), decision("two"))
		text, _ := c.does(t, http.StatusOK, http.MethodPost, "/v1/plans", body)
		return text
	}
	first := plan("p1")
	require.EqualValues(t, 2, calls.Load())
	out := c.ruled(t, "record", "p1", "--request-id", "p2", "--group", "rehearsal", "--expires-in", "1h")
	assert.Equal(t, 2, strings.Count(out, " answers "), out)
	second := plan("p2")
	assert.EqualValues(t, 2, calls.Load(), "nothing was sent")
	hash := func(report string) string {
		_, rest, found := strings.Cut(report, `"execution_hash":`)
		require.True(t, found, report)
		return rest[:66]
	}
	assert.Equal(t, hash(first), hash(second), "the same report")
	plan("p3")
	assert.EqualValues(t, 4, calls.Load(), "others are not rehearsed")

	c.refused(t, "--replace puts its answers back", "record", "p1")
	assert.Contains(t, c.ruled(t, "record", "p1", "--replace", "--request-id", "p4"), " answers ")
	plan("p4")
	assert.EqualValues(t, 4, calls.Load())
	// Nothing of the scope before is left, which would keep the rules from answering.
	c.ruled(t, "record", "p1", "--replace", "--kind", "http", "--agent", "nobody")
	c.ruled(t, "record", "p1", "--replace", "--request-id", "p5", "--group", "rehearsal")
	plan("p5")
	assert.EqualValues(t, 4, calls.Load(), "nothing was sent")
	c.refused(t, "NOT_FOUND", "record", "nobody")
}

// TestRulesPreviewWithARule looks at a rule that is not there, in the words of the
// guard: policy has the last word.
func TestRulesPreviewWithARule(t *testing.T) {
	t.Parallel()
	c, target := tenant(t, "previews"), okUpstream(t)
	file := filepath.Join(t.TempDir(), "rule.json")
	preview := func(want int, rule string, args ...string) (string, schemas.Preview) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(rule), 0o600))
		args = append([]string{"rules", "preview", "GET", target + "/x", "--rule", file}, args...)
		code, out, errs := c.command(t, args...)
		require.Equal(t, want, code, errs)
		_, asJSON, _ := c.command(t, append(args, "--json")...)
		var p schemas.Preview
		require.NoError(t, json.Unmarshal([]byte(asJSON), &p))
		return out, p
	}
	out, p := preview(cli.ExitDenied, fmt.Sprintf(`{"id":"r","type":"redirect","match":{"url_pattern":"%s/*"},"action":{"to_url":"http://elsewhere.example/$1"}}`, target))
	assert.Contains(t, out, "denied: DENY_RULE\n")
	assert.Contains(t, out, "GET http://elsewhere.example/x\n")
	assert.Equal(t, schemas.PreviewDenied, p.Result)
	assert.Equal(t, []string{"r"}, p.Decision.Traffic.Rules)
	rule := fmt.Sprintf(`{"id":"t","type":"mock","match":{"url_pattern":"%s/*"},"action":{"body_mode":"text","body":"7","status":418},"scope":{"action_kind":"run","agent":"A"}}`, target)
	out, _ = preview(cli.ExitOK, rule, "--kind", "run", "--agent", "A")
	assert.Contains(t, out, `answer    418 "7"`)
	out, _ = preview(cli.ExitOK, rule)
	assert.Contains(t, out, "sent, allowed by")
	code, _, errs := c.command(t, "rules", "preview", "GET", target+"/x", "--rule", `{"id":"x"}`)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errs, "VALIDATION_ERROR")
	assert.Contains(t, c.ruled(t, "list", "--json"), `"rules":[]`, "a preview changes nothing")
}

// TestRulesPreviewOfAnAgentsCall: a call to a remote agent goes by that agent's entry,
// as it does when it is made, and no other call does.
func TestRulesPreviewOfAnAgentsCall(t *testing.T) {
	t.Parallel()
	c := tenant(t, "agents")
	look := func(want int, args ...string) (p schemas.Preview) {
		t.Helper()
		code, out, errs := c.command(t, append([]string{"rules", "preview", "--json"}, args...)...)
		require.Equal(t, want, code, errs)
		require.NoError(t, json.Unmarshal([]byte(out), &p))
		return p
	}
	const run = "http://127.0.0.1:1" + schemas.RouteRunStream
	p := look(cli.ExitOK, "POST", run, "-d", "{}", "-H", "Accept: text/event-stream", "--kind", "run", "--agent", "T", "--key", "other")
	assert.Equal(t, schemas.AgentEntry("T"), p.Decision.Entry)
	assert.Equal(t, map[string]string{"accept": "text/event-stream"}, p.Headers, "in the form of the question")
	for _, args := range [][]string{{}, {"--kind", "run"}, {"--kind", "run", "--agent", "U"}, {"--kind", "http", "--agent", "T"}} {
		assert.NotEqual(t, schemas.AgentEntry("T"), look(cli.ExitOK, append([]string{"POST", run}, args...)...).Decision.Entry, args)
	}
	assert.Equal(t, schemas.PreviewDenied, look(cli.ExitDenied, "POST", "http://elsewhere.example/", "--kind", "run", "--agent", "T").Result)
}

// TestRulesWidenNothing: a rule leads a call only where its asker may go, and the
// door says so as the worker does.
func TestRulesWidenNothing(t *testing.T) {
	t.Parallel()
	one, ones := counted(t, `{}`)
	two, twos := counted(t, `{}`)
	a := newApp(t, withTokens+fmt.Sprintf(`policy:
  allowed_hosts: []
  allowlist: [{name: one, url_prefix: "%s/", network: loopback}, {name: two, url_prefix: "%s/", network: loopback}]
`, one, two))
	admin := a.admin(t)
	limited, made := admin.grant(t, `{"name":"l","scopes":["actions:write"],"entries":["one"]}`)
	admin.ruled(t, "create", fmt.Sprintf(`{"id":"r","type":"redirect","match":{"url_pattern":"%s/*"},"action":{"to_url":"%s/$1"}}`, one, two))
	admin.does(t, http.StatusOK, http.MethodPost, "/v1/execute", get(one+"/a"))
	body, _ := limited.does(t, http.StatusForbidden, http.MethodPost, "/v1/execute", get(one+"/a"), "Prefer", "respond-async")
	assert.Contains(t, body, `"DENY_RULE"`)
	assert.Zero(t, ones.Load())
	assert.EqualValues(t, 1, twos.Load())

	var asked schemas.HTTPCall
	require.NoError(t, json.Unmarshal([]byte(get(one+"/a")), &asked))
	d, _ := a.callerPolicy(grant.Caller{Tenant: schemas.Operator, Kind: schemas.KindHTTP, Principal: made.ID, Entries: []string{"one"}}).Evaluate(asked)
	assert.Equal(t, schemas.DenyRule, d.Code)
	d, class := a.callerPolicy(grant.Caller{Tenant: schemas.Operator, Kind: schemas.KindHTTP}).Evaluate(asked)
	assert.Equal(t, "two", d.Entry)
	assert.Equal(t, schemas.ClassSafe, class)
	d, _ = a.callerPolicy(grant.Caller{Tenant: "other", Kind: schemas.KindHTTP}).Evaluate(asked)
	assert.Equal(t, "one", d.Entry, "the rules of one tenant are not another's")
}

// TestRulesThatNobodyCanRead: with a set that this program does not know, nothing
// goes out as if there were none, and nothing is written over it but by a reset.
func TestRulesThatNobodyCanRead(t *testing.T) {
	t.Parallel()
	target, calls := counted(t, `{}`)
	of := fresh("unreadable")
	c, _ := tokenNode.node(t).admin(t).grant(t, fmt.Sprintf(`{"name":"all","tenant":%q,"scopes":["admin"]}`, of))
	_, err := c.broker.Bucket(schemas.RuleBucket).Put(t.Context(), schemas.EscapeToken(of), []byte(`{"v":99}`), 0)
	require.NoError(t, err)
	code, out, errs := c.command(t, "rules", "preview", "GET", target+"/")
	assert.Equal(t, cli.ExitDenied, code, errs)
	assert.Contains(t, out, "denied: DENY_RULE\n")
	body, _ := c.does(t, http.StatusForbidden, http.MethodPost, "/v1/execute", get(target+"/"))
	assert.Contains(t, body, "DENY_RULE")
	assert.Zero(t, calls.Load())
	c.refused(t, "nothing was changed", "off", "--if-match", "etag-1-0000000000000000")
	c.refused(t, "(INTERNAL_ERROR, RULES_UNREADABLE)", "list")
	c.refused(t, "`weir rules reset`", "list")
	writer, _ := c.grant(t, `{"name":"w","scopes":["rules:write"]}`)
	writer.refused(t, "(UNAUTHORIZED, SCOPE_REQUIRED)\nan admin of the tenant may", "reset")
	caller{c.App, "weir1_x"}.refused(t, "(UNAUTHORIZED, AUTH_REQUIRED)", "off")
	_, out, _ = c.command(t, "rules", "preview", "GET", target+"/", "--json")
	var p schemas.Preview
	require.NoError(t, json.Unmarshal([]byte(out), &p))
	assert.Equal(t, c.policy.Load().Version(), p.Decision.Version)
	assert.Contains(t, p.Decision.Reason, "`weir rules reset`")

	assert.Regexp(t, `^the rules were removed; there are none now, and calls are sent again; etag-\d+-[0-9a-f]{16}\n$`, c.ruled(t, "reset"))
	c.does(t, http.StatusOK, http.MethodPost, "/v1/execute", get(target+"/"))
	assert.EqualValues(t, 1, calls.Load())
	c.evidence(t, "?kind=rule.write", `"operation":"rules.reset"`)
	code, out, errs = c.command(t, "rules", "reset", "--json")
	assert.Equal(t, cli.ExitFailed, code, "it can be read now")
	assert.Empty(t, out)
	assert.Contains(t, errs, `"operation":"rules.reset","error":{"code":"VALIDATION_ERROR"`)
}

func TestPreviewAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ kind, body, want string }{
		{"application/json", `{"a":1}`, `{"a":1}`},
		{"application/problem+json; charset=utf-8", `1`, `1`},
		{"application/json", `{`, `"{"`},
		{"text/plain", `1`, `"1"`},
		{"", "<\x00", `"<\u0000"`},
	} {
		got, err := previewAnswer(traffic.Answer{Status: 200, Headers: []schemas.Header{{Name: "content-type", Value: tt.kind}}, Body: []byte(tt.body)})
		require.NoError(t, err)
		assert.Equal(t, tt.want, string(got.Body))
	}
	twice, err := previewAnswer(traffic.Answer{Status: 200, Headers: []schemas.Header{{Name: "X-A", Value: "1"}, {Name: "x-a", Value: "2"}}})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"x-a": "1, 2"}, twice.Headers)
	got, err := previewAnswer(traffic.Answer{Status: 204})
	require.NoError(t, err)
	assert.Nil(t, got.Body)
}

// TestTheAgentAPIAuthenticatesFirst: callers without a token in force are told nothing of what is
// wrong with a body, and a long one is not waited for. A long body needs the token in its header.
func TestTheAgentAPIAuthenticatesFirst(t *testing.T) {
	t.Parallel()
	c := tenant(t, "first")
	for name, tt := range map[string]struct{ body, known string }{
		"no JSON":          {`{"auth_token":"TOKEN"`, ""},
		"a list":           {`[]`, ""},
		"no operation":     {`{"request_id":"r","auth_token":"TOKEN"}`, "at /operation"},
		"another type":     {`{"type":"OTHER","request":{"request_id":"r","operation":"ping","auth_token":"TOKEN"}}`, "at /type"},
		"another spelling": {`{"Request_ID":"r","operation":"ping","auth_token":"TOKEN"}`, "/Request_ID"},
	} {
		text, _ := c.does(t, http.StatusBadRequest, http.MethodPost, schemas.RouteAgentAPI, strings.ReplaceAll(tt.body, "TOKEN", c.token))
		assert.Contains(t, text, tt.known, name)
		status, text, _ := caller{c.App, "weir1_x"}.do(t, http.MethodPost, schemas.RouteAgentAPI, tt.body)
		assert.Equal(t, http.StatusUnauthorized, status, name)
		assert.Contains(t, text, "send a token that is in force", name)
		assert.NotRegexp(t, "at /|JSON|request_id must|characters", text, name)
	}
	long := `{"request_id":"r","operation":"global.off","auth_token":"` + c.token + `","args":{"if_match":"e","x":"` + strings.Repeat("x", 100<<10) + `"}}`
	text, _ := c.asks(t, http.StatusUnauthorized, http.MethodPost, schemas.RouteAgentAPI, long)
	assert.Contains(t, text, "over 65536 bytes needs it in the header")
	_, text, _ = c.do(t, http.MethodPost, schemas.RouteAgentAPI, long)
	assert.Contains(t, text, "ETAG_MISMATCH", "with the token in the header it is read")

	for _, header := range []string{"", "Authorization: Bearer weir1_x\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.URL(), "http://"))
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n%s\r\n{", schemas.RouteAgentAPI, header)
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, "it is answered while the body still does not come")
		assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, conn.Close())
	}
}
