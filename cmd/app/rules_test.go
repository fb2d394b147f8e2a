package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/internal/config"
	"weir/internal/traffic"
	"weir/schemas"
)

const quick = "log: {durability: process}\n"

// ruled runs `weir rules` against a. It must succeed.
func (a *App) ruled(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := command(t, append(append([]string{"rules"}, args...), "--server", a.URL())...)
	require.Equal(t, exitOK, code, "%v: %s", args, errs)
	return out
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

// TestRulesDemo is the sequence of the protocol's own demo: the first rule of a
// group that is made for it, the list, a patch of that rule, and its end. Each has
// a fresh etag.
func TestRulesDemo(t *testing.T) {
	t.Parallel()
	a := newApp(t, quick)
	etags := map[string]bool{}
	type answer struct {
		Rule      schemas.Rule   `json:"rule"`
		Rules     []schemas.Rule `json:"rules"`
		RulesEtag string         `json:"rules_etag"`
	}
	step := func(args ...string) (data answer) {
		t.Helper()
		require.NoError(t, json.Unmarshal([]byte(a.ruled(t, append(args, "--json")...)), &data))
		return data
	}
	fresh := func(etag string) {
		t.Helper()
		require.NotEmpty(t, etag)
		require.False(t, etags[etag], etag)
		etags[etag] = true
	}
	fresh(step("list").RulesEtag)
	const rule = `{"id":"checkout-delay-01","name":"Delay checkout API","type":"delay","enabled":true,"priority":100,
		"match":{"url_pattern":"https://api.example.com/checkout/*","method":"POST","resource_type":"xmlhttprequest","include_query":true},"action":{"delay_ms":1200}}`
	made := step("create", rule, "--group", "checkout", "--create-group")
	fresh(made.RulesEtag)
	assert.Equal(t, "checkout", made.Rule.Group)

	all := step("list", "--group", "checkout")
	require.Len(t, all.Rules, 1)
	assert.Equal(t, made.RulesEtag, all.RulesEtag)
	assert.Equal(t, made.Rule, all.Rules[0])
	assert.Empty(t, step("list", "--group", "nobody").Rules)

	changed := step("patch", "checkout-delay-01", `{"action":{"delay_ms":300}}`)
	fresh(changed.RulesEtag)
	assert.Equal(t, int64(300), *changed.Rule.Action.DelayMS)
	assert.Equal(t, 100, changed.Rule.Priority)

	ended := step("disable", "checkout-delay-01")
	fresh(ended.RulesEtag)
	assert.False(t, ended.Rule.Enabled)
	assert.Equal(t, ended.Rule, step("get", "checkout-delay-01").Rule)

	fresh(step("off").RulesEtag)
	assert.Contains(t, a.ruled(t, "status"), "rules are off; 1 of them; ")
	fresh(step("on").RulesEtag)

	code, _, errs := command(t, "rules", "create", rule, "--server", a.URL())
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "(VALIDATION_ERROR, RULE_EXISTS)\nchange the rule that is there")
	code, _, errs = command(t, "rules", "enable", "checkout-delay-01", "--if-match", made.RulesEtag, "--server", a.URL())
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "ETAG_MISMATCH")
	code, _, errs = command(t, "rules", "create", strings.Replace(rule, "-01", "-02", 1), "--group", "new", "--server", a.URL())
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "(NOT_FOUND)\n--create-group")
}

// TestRulesSteerCalls: what is written takes effect on the next call, and is found
// again by the next node on the same log.
func TestRulesSteerCalls(t *testing.T) {
	t.Parallel()
	target, calls := counted(t, `{"from":"target"}`)
	text := fmt.Sprintf("listen: 127.0.0.1:0\ndata: %q\n%s", t.TempDir(), quick)
	cfg, err := config.Parse("test", []byte(text), nil, nil)
	require.NoError(t, err)
	begin := func() *App {
		a, err := New(t.Context(), Options{Config: cfg, Log: io.Discard})
		require.NoError(t, err)
		require.NoError(t, a.Start(t.Context()))
		return a
	}
	get := func(a *App) (string, string) {
		t.Helper()
		status, body, h := a.ask(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":"%s/a"}`, target))
		require.Equal(t, http.StatusOK, status, body)
		return body, h.Get("Weir-Action-Id")
	}
	a := begin()
	a.ruled(t, "create", fmt.Sprintf(`{"id":"m","type":"mock","match":{"url_pattern":"%s/*"},"action":{"body_mode":"json","body":{"from":"rule"}}}`, target))
	body, id := get(a)
	assert.Contains(t, body, `{"from":"rule"}`)
	assert.Zero(t, calls.Load())
	_, evidence, _ := a.ask(t, http.MethodGet, "/v1/evidence?action_id="+id, "", "Accept", "application/json")
	assert.Contains(t, evidence, `"mocked":"m"`)

	out := a.ruled(t, "preview", "GET", target+"/a")
	assert.Contains(t, out, "mocked: nothing would be sent\n")
	assert.Contains(t, out, `200 {"from":"rule"}`)
	assert.Regexp(t, `m +mock +applies`, out)

	require.NoError(t, a.Stop(context.WithoutCancel(t.Context())))
	a = begin()
	defer func() { assert.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) }()
	body, _ = get(a)
	assert.Contains(t, body, `{"from":"rule"}`)
	a.ruled(t, "off")
	body, _ = get(a)
	assert.Contains(t, body, `{"from":"target"}`)
	assert.EqualValues(t, 1, calls.Load())
	out = a.ruled(t, "preview", "GET", target+"/a")
	assert.Contains(t, out, "sent, allowed by host:127.0.0.1\n")
	assert.Contains(t, out, "all rules are off\n")
}

// TestRulesRehearse: what a plan was answered is given again without its target.
func TestRulesRehearse(t *testing.T) {
	t.Parallel()
	target, calls := counted(t, `{"at":"PATH"}`)
	a := newApp(t, quick+fmt.Sprintf("policy: {allowlist: [{name: x, url_prefix: %q, network: loopback}]}\n", target+"/"))
	plan := func(id string) string {
		t.Helper()
		decision := func(ref string) string {
			return fmt.Sprintf(`{"effect_ref":%q,"target_state":{"url":"%s/%s","allowlist_key":"x"}}`, ref, target, ref)
		}
		body := fmt.Sprintf(`{"request_id":%q,"state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[%s,%s]}}`, id, decision("one"), decision("two"))
		status, text, _ := a.ask(t, http.MethodPost, "/v1/plans", body)
		require.Equal(t, http.StatusOK, status, text)
		return text
	}
	first := plan("p1")
	require.EqualValues(t, 2, calls.Load())
	out := a.ruled(t, "record", "p1", "--request-id", "p2", "--group", "rehearsal", "--expires-in", "1h")
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

	code, _, errs := command(t, "rules", "record", "p1", "--server", a.URL())
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "--replace puts its answers back")
	assert.Contains(t, a.ruled(t, "record", "p1", "--replace", "--request-id", "p4"), " answers ")
	plan("p4")
	assert.EqualValues(t, 4, calls.Load())
	// Nothing of the scope before is left, which would keep the rules from answering.
	a.ruled(t, "record", "p1", "--replace", "--kind", "http", "--agent", "nobody", "--task-id", "none")
	a.ruled(t, "record", "p1", "--replace", "--request-id", "p5", "--group", "rehearsal")
	plan("p5")
	assert.EqualValues(t, 4, calls.Load(), "nothing was sent")
	code, _, errs = command(t, "rules", "record", "p1", "--replace", "--request-id", "p6", "--group", "other", "--server", a.URL())
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "is in group rehearsal and stays there")
	code, _, errs = command(t, "rules", "record", "nobody", "--server", a.URL())
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "NOT_FOUND")
}

// TestRulesAreBounded by what the operator says.
func TestRulesAreBounded(t *testing.T) {
	t.Parallel()
	a := newApp(t, quick+"rules: {limit: 1}\n")
	const rule = `{"id":"%s","type":"delay","match":{"url_pattern":"http://a.example/"},"action":{"delay_ms":1}}`
	a.ruled(t, "create", fmt.Sprintf(rule, "one"))
	code, _, errs := command(t, "rules", "create", fmt.Sprintf(rule, "two"), "--server", a.URL())
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "RULE_LIMIT_EXCEEDED")

	a = newApp(t, quick+"rules: {agent_api: false}\n")
	for _, args := range [][]string{{"list"}, {"off"}, {"create", fmt.Sprintf(rule, "one")}} {
		code, out, errs := command(t, append(append([]string{"rules"}, args...), "--server", a.URL())...)
		assert.Equal(t, exitFailed, code)
		assert.Empty(t, out)
		assert.Contains(t, errs, "(UNAUTHORIZED, AGENT_API_DISABLED)\nthe server's configuration has rules.agent_api: false")
	}
}

// TestRulesAskForAToken: reading takes one of two scopes, writing one of them, on
// every entry, and nobody sees the rules of another tenant.
func TestRulesAskForAToken(t *testing.T) {
	t.Parallel()
	a := newApp(t, withTokens+"policy: {allowlist: [{name: x, url_prefix: 'https://x.example/'}]}\n")
	admin := a.admin(t)
	grant := func(request string) caller { c, _ := admin.grant(t, request); return c }
	callers := map[string]caller{
		"nobody":  {a, ""},
		"doer":    grant(`{"name":"d","scopes":["actions:write"]}`),
		"reader":  grant(`{"name":"r","scopes":["actions:read"]}`),
		"writer":  grant(`{"name":"w","scopes":["rules:write"]}`),
		"limited": grant(`{"name":"l","scopes":["rules:write","actions:read"],"entries":["x"]}`),
		"other":   grant(`{"name":"o","scopes":["rules:write"],"tenant":"other"}`),
	}
	const rule = `{"id":"%s","type":"delay","match":{"url_pattern":"https://x.example/"},"action":{"delay_ms":1}}`
	for _, tt := range []struct {
		method, path, body string
		may                string // those who may; the others are known, or not
	}{
		{"POST", "/v1/agent-api", `{"request_id":"1","operation":"ping"}`, "doer reader writer limited other"},
		{"POST", "/v1/agent-api", `{"request_id":"1","operation":"status"}`, "reader writer limited other"},
		{"POST", "/v1/agent-api", `{"request_id":"1","operation":"rules.list"}`, "reader writer limited other"},
		{"POST", "/v1/agent-api", `{"request_id":"WHO","operation":"global.on","args":{"if_match":"ETAG"}}`, "writer other"},
		{"GET", "/v1/rules", "", "reader writer limited other"},
		{"POST", "/v1/rules/preview", `{"url":"https://x.example/"}`, "reader writer limited other"},
	} {
		for name, c := range callers {
			body := tt.body
			if strings.Contains(body, "ETAG") {
				s, err := (&client{base: a.URL(), token: c.token, http: http.DefaultClient}).rulesStatus(t.Context())
				if err != nil {
					s.RulesEtag = "etag-0-0000000000000000"
				}
				body = strings.NewReplacer("ETAG", s.RulesEtag, "WHO", name).Replace(body)
			}
			header := []string{"Authorization", "Bearer " + c.token}
			want := http.StatusForbidden
			switch {
			case name == "nobody":
				header, want = nil, http.StatusUnauthorized
			case slices.Contains(strings.Fields(tt.may), name):
				want = http.StatusOK
			}
			status, text, h := a.ask(t, tt.method, tt.path, body, header...)
			assert.Equal(t, want, status, "%s: %s %s: %s", name, tt.path, body, text)
			if want == http.StatusUnauthorized {
				assert.Equal(t, "Bearer", h.Get("WWW-Authenticate"), tt.path)
			}
			if want != http.StatusOK && tt.path == schemas.RouteAgentAPI {
				assert.Contains(t, text, `"code":"UNAUTHORIZED"`)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "token")
	run := func(who string, args ...string) (int, string, string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(callers[who].token), 0o600))
		return command(t, append(append([]string{"rules"}, args...), "--server", a.URL(), "--token-file", file)...)
	}
	code, _, errs := run("writer", "create", fmt.Sprintf(rule, "mine"))
	assert.Equal(t, exitOK, code, errs)
	code, out, _ := run("other", "list", "--json")
	assert.Equal(t, exitOK, code)
	assert.Contains(t, out, `"rules":[]`)
	code, _, errs = run("other", "get", "mine")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "NOT_FOUND")
	code, _, errs = run("writer", "reset")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "(UNAUTHORIZED, SCOPE_REQUIRED)\nan admin of the tenant may")
	code, _, errs = run("limited", "off")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "(UNAUTHORIZED, SCOPE_REQUIRED)\nan admin makes a token that may")
	code, _, errs = command(t, "rules", "list", "--server", a.URL())
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "(UNAUTHORIZED, AUTH_REQUIRED)\nset $WEIR_TOKEN")
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
	w := &ruleWriter{c: &client{base: a.URL(), token: admin.token, http: http.DefaultClient}}
	_, err := w.write(t.Context(), schemas.OpRulesCreate, map[string]any{"rule": map[string]any{
		"id": "r", "type": "redirect", "match": map[string]any{"url_pattern": one + "/*"}, "action": map[string]any{"to_url": two + "/$1"},
	}})
	require.NoError(t, err)
	call := fmt.Sprintf(`{"method":"GET","url":"%s/a"}`, one)
	status, body, _ := admin.do(t, http.MethodPost, "/v1/execute", call)
	assert.Equal(t, http.StatusOK, status, body)
	status, body, _ = limited.do(t, http.MethodPost, "/v1/execute", call, "Prefer", "respond-async")
	assert.Equal(t, http.StatusForbidden, status, "a denial is heard of at once: %s", body)
	assert.Contains(t, body, `"DENY_RULE"`)
	assert.Zero(t, ones.Load())
	assert.EqualValues(t, 1, twos.Load())

	var asked schemas.HTTPCall
	require.NoError(t, json.Unmarshal([]byte(call), &asked))
	d, _ := a.judge(ingress.Asker{Tenant: schemas.Operator, Kind: schemas.KindHTTP, Principal: made.ID, Entries: []string{"one"}}).Judge(asked)
	assert.Equal(t, schemas.DenyRule, d.Code)
	d, class := a.judge(ingress.Asker{Tenant: schemas.Operator, Kind: schemas.KindHTTP}).Judge(asked)
	assert.Equal(t, "two", d.Entry)
	assert.Equal(t, schemas.ClassSafe, class)
	d, _ = a.judge(ingress.Asker{Tenant: "other", Kind: schemas.KindHTTP}).Judge(asked)
	assert.Equal(t, "one", d.Entry, "the rules of one tenant are not another's")
}

// TestRulesPreviewWithARule looks at a rule that is not there, in the words of the
// guard: policy has the last word.
func TestRulesPreviewWithARule(t *testing.T) {
	t.Parallel()
	target, calls := counted(t, `{}`)
	a := newApp(t, quick)
	file := filepath.Join(t.TempDir(), "rule.json")
	write := func(rule string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(rule), 0o600))
	}
	write(fmt.Sprintf(`{"id":"r","type":"redirect","match":{"url_pattern":"%s/*"},"action":{"to_url":"http://elsewhere.example/$1"}}`, target))
	code, out, errs := command(t, "rules", "preview", "GET", target+"/x", "--rule", file, "--server", a.URL())
	assert.Equal(t, exitFailed, code, errs)
	assert.Contains(t, out, "denied: DENY_RULE\n")
	assert.Contains(t, out, "GET http://elsewhere.example/x\n")
	code, out, errs = command(t, "rules", "preview", "GET", target+"/x", "--rule", file, "--json", "--server", a.URL())
	assert.Equal(t, exitFailed, code, errs)
	var p schemas.Preview
	require.NoError(t, json.Unmarshal([]byte(out), &p))
	assert.Equal(t, schemas.PreviewDenied, p.Result)
	assert.Equal(t, []string{"r"}, p.Decision.Traffic.Rules)

	write(fmt.Sprintf(`{"id":"t","type":"mock","match":{"url_pattern":"%s/*"},"action":{"body_mode":"text","body":"7","status":418},"scope":{"action_kind":"run","agent":"A"}}`, target))
	code, out, _ = command(t, "rules", "preview", "GET", target+"/x", "--rule", file, "--kind", "run", "--agent", "A", "--server", a.URL())
	assert.Equal(t, exitOK, code)
	assert.Contains(t, out, `answer    418 "7"`)
	assert.Contains(t, a.ruled(t, "preview", "GET", target+"/x", "--rule", file), "sent, allowed by")
	code, _, errs = command(t, "rules", "preview", "GET", target+"/x", "--rule", `{"id":"x"}`, "--server", a.URL())
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "VALIDATION_ERROR")
	assert.Contains(t, a.ruled(t, "list", "--json"), `"rules":[]`, "a preview changes nothing")
	assert.Zero(t, calls.Load())
}

// TestRulesPreviewOfAnAgentsCall: a call to a remote agent goes by that agent's entry,
// as it does when it is made, and no other call does.
func TestRulesPreviewOfAnAgentsCall(t *testing.T) {
	t.Parallel()
	target, calls := counted(t, `{}`)
	a := newApp(t, quick+fmt.Sprintf("agents: {T: {url: %q}}\npolicy: {allowed_hosts: []}\n", target))
	look := func(want int, args ...string) (p schemas.Preview) {
		t.Helper()
		code, out, errs := command(t, append([]string{"rules", "preview", "--json", "--server", a.URL()}, args...)...)
		require.Equal(t, want, code, errs)
		require.NoError(t, json.Unmarshal([]byte(out), &p))
		return p
	}
	run := target + schemas.RouteRunStream
	p := look(exitOK, "POST", run, "-d", "{}", "-H", "Accept: text/event-stream", "--kind", "run", "--agent", "T", "--key", "other")
	assert.Equal(t, schemas.AgentEntry("T"), p.Decision.Entry)
	assert.Equal(t, map[string]string{"accept": "text/event-stream"}, p.Headers, "in the form of the question")
	for _, args := range [][]string{{}, {"--kind", "run"}, {"--kind", "run", "--agent", "U"}, {"--kind", "http", "--agent", "T"}} {
		assert.Equal(t, schemas.PreviewDenied, look(exitFailed, append([]string{"POST", run}, args...)...).Result, args)
	}
	assert.Equal(t, schemas.PreviewDenied, look(exitFailed, "POST", "http://elsewhere.example/", "--kind", "run", "--agent", "T").Result)
	assert.Zero(t, calls.Load())
}

// TestRulesThatNobodyCanRead: with a set that this program does not know, nothing
// goes out as if there were none, and nothing is written over it but by a reset.
func TestRulesThatNobodyCanRead(t *testing.T) {
	t.Parallel()
	target, calls := counted(t, `{}`)
	a := newApp(t, quick)
	_, err := a.broker.Rules().Put(t.Context(), schemas.EscapeToken(schemas.Operator), []byte(`{"v":99}`), 0)
	require.NoError(t, err)
	code, out, errs := command(t, "rules", "preview", "GET", target+"/", "--server", a.URL())
	assert.Equal(t, exitFailed, code, errs)
	assert.Contains(t, out, "denied: DENY_RULE\n")
	status, body, _ := a.ask(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":"%s/"}`, target))
	assert.Equal(t, http.StatusForbidden, status, body)
	assert.Contains(t, body, "DENY_RULE")
	assert.Zero(t, calls.Load())
	code, _, errs = command(t, "rules", "off", "--if-match", "etag-1-0000000000000000", "--server", a.URL())
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "nothing was changed")
	code, _, errs = command(t, "rules", "list", "--server", a.URL())
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errs, "(INTERNAL_ERROR, RULES_UNREADABLE)")
	assert.Contains(t, errs, "`weir rules reset`")
	_, out, _ = command(t, "rules", "preview", "GET", target+"/", "--json", "--server", a.URL())
	var p schemas.Preview
	require.NoError(t, json.Unmarshal([]byte(out), &p))
	assert.Equal(t, a.policy.Load().Version(), p.Decision.Version)
	assert.Contains(t, p.Decision.Reason, "`weir rules reset`")

	assert.Regexp(t, `^the rules are given up; there are none now, and calls go out again; etag-\d+-[0-9a-f]{16}\n$`, a.ruled(t, "reset"))
	status, body, _ = a.ask(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":"%s/"}`, target))
	assert.Equal(t, http.StatusOK, status, body)
	assert.EqualValues(t, 1, calls.Load())
	_, evidence, _ := a.ask(t, http.MethodGet, "/v1/evidence?kind=rule.write", "", "Accept", "application/json")
	assert.Contains(t, evidence, `"operation":"rules.reset"`)
	code, out, errs = command(t, "rules", "reset", "--json", "--server", a.URL())
	assert.Equal(t, exitFailed, code, "it can be read now")
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
// wrong with a body, and a long one is not waited for. With a token of either tenant, in header or
// body, the same bodies are read.
func TestTheAgentAPIAuthenticatesFirst(t *testing.T) {
	t.Parallel()
	a := newApp(t, withTokens)
	const request = `{"name":"a","tenant":%q,"scopes":["rules:write"]}`
	acme, _ := a.admin(t).grant(t, fmt.Sprintf(request, "acme"))
	other, made := a.admin(t).grant(t, fmt.Sprintf(request, "other"))
	a.admin(t).revoke(t, made.ID)
	long := `{"request_id":"r","operation":"rules.create","auth_token":"TOKEN","args":{"if_match":"ETAG","rule":{"id":"a","type":"mock","match":{"url_pattern":"http://x/*"},"action":{"body":"` + strings.Repeat("x", 100<<10) + `"}}}}`
	for name, tt := range map[string]struct{ body, known string }{
		"no JSON":           {`{"auth_token":"TOKEN"`, ""},
		"no request":        {`{"type":"AGENT_API_REQUEST"}`, ""},
		"a list":            {`[]`, ""},
		"a name twice":      {`{"request_id":"r","operation":"ping","operation":"ping","auth_token":"TOKEN"}`, ""},
		"no operation":      {`{"request_id":"r","auth_token":"TOKEN"}`, "at /operation"},
		"a bad request_id":  {`{"request_id":7,"operation":"ping","auth_token":"TOKEN"}`, "at /request_id"},
		"another type":      {`{"type":"OTHER","request":{"request_id":"r","operation":"ping","auth_token":"TOKEN"}}`, "at /type"},
		"another spelling":  {`{"Request_ID":"r","operation":"ping","auth_token":"TOKEN"}`, "/Request_ID"},
		"arguments: a list": {`{"request_id":"r","operation":"ping","args":[],"auth_token":"TOKEN"}`, "at /args"},
	} {
		for _, token := range []string{"weir1_x", other.token, acme.token} {
			header, inBody := http.StatusUnauthorized, http.StatusUnauthorized
			if token == acme.token {
				header = http.StatusBadRequest
				if tt.known != "" {
					inBody = http.StatusBadRequest
				}
			}
			body := strings.ReplaceAll(tt.body, "TOKEN", token)
			for status, headers := range map[int][]string{header: {"Authorization", "Bearer " + token}, -inBody: nil} {
				got, text, _ := a.ask(t, http.MethodPost, schemas.RouteAgentAPI, body, headers...)
				assert.Equal(t, max(status, -status), got, "%s: %s", name, text)
				if got != http.StatusUnauthorized {
					assert.Contains(t, text, tt.known, name)
					continue
				}
				assert.Contains(t, text, "send a token that is in force", name)
				for _, word := range []string{"at /", "JSON", "request_id must", "characters"} {
					assert.NotContains(t, text, word, name)
				}
			}
		}
	}
	status, text, _ := a.ask(t, http.MethodPost, schemas.RouteAgentAPI, strings.ReplaceAll(long, "TOKEN", acme.token))
	assert.Equal(t, http.StatusUnauthorized, status)
	assert.Contains(t, text, "over 65536 bytes needs it in the header")
	_, text, _ = acme.do(t, http.MethodPost, schemas.RouteAgentAPI, strings.ReplaceAll(long, "TOKEN", acme.token))
	assert.Contains(t, text, "ETAG_MISMATCH", "with the token in the header it is read")

	for _, header := range []string{"", "Authorization: Bearer weir1_x\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL(), "http://"))
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
