package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli"
	"weir/ingress/grant"
	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/config"
	"weir/internal/traffic"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/table"
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
		p := fixture.Decode[schemas.Preview](t, asJSON)
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
	var ones, twos atomic.Int32
	switchboard().HandleFunc("/t/widens/", func(http.ResponseWriter, *http.Request) { ones.Add(1) })
	switchboard().HandleFunc("/other/widens/", func(http.ResponseWriter, *http.Request) { twos.Add(1) })
	one, two := switchboard().URL+"/t/widens", switchboard().URL+"/other/widens"
	a, admin := tokenNode.node(t), tenant(t, "widens")
	limited, made := admin.grant(t, `{"name":"l","scopes":["actions:write"],"entries":["t"]}`)
	admin.ruled(t, "create", fmt.Sprintf(`{"id":"r","type":"redirect","match":{"url_pattern":"%s/*"},"action":{"to_url":"%s/$1"}}`, one, two))
	admin.does(t, http.StatusOK, http.MethodPost, "/v1/execute", get(one+"/a"))
	body, _ := limited.does(t, http.StatusForbidden, http.MethodPost, "/v1/execute", get(one+"/a"), "Prefer", "respond-async")
	assert.Contains(t, body, `"DENY_RULE"`)
	assert.Zero(t, ones.Load())
	assert.EqualValues(t, 1, twos.Load())

	asked := fixture.Decode[schemas.HTTPCall](t, get(one+"/a"))
	d, _ := a.callerPolicy(grant.Caller{Tenant: made.Tenant, Kind: schemas.KindHTTP, Principal: made.ID, Entries: []string{"t"}}).Evaluate(asked)
	assert.Equal(t, schemas.DenyRule, d.Code)
	d, class := a.callerPolicy(grant.Caller{Tenant: made.Tenant, Kind: schemas.KindHTTP}).Evaluate(asked)
	assert.Equal(t, "other", d.Entry)
	assert.Equal(t, schemas.ClassSafe, class)
	d, _ = a.callerPolicy(grant.Caller{Tenant: "other", Kind: schemas.KindHTTP}).Evaluate(asked)
	assert.Equal(t, "t", d.Entry, "the rules of one tenant are not another's")
}

// TestRulesThatNobodyCanRead: with a set that this program does not know, nothing
// goes out as if there were none, and nothing is written over it but by a reset.
func TestRulesThatNobodyCanRead(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	of := fresh("unreadable")
	switchboard().HandleFunc("/"+of+"/", func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	target := switchboard().URL + "/" + of
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
	writer, _ := c.grant(t, `{"name":"w","scopes":["rules:write"]}`)
	writer.refused(t, "(UNAUTHORIZED, SCOPE_REQUIRED)\nan admin of the tenant may", "reset")
	caller{c.App, "weir1_x"}.refused(t, "(UNAUTHORIZED, AUTH_REQUIRED)", "off")
	_, out, _ = c.command(t, "rules", "preview", "GET", target+"/", "--json")
	p := fixture.Decode[schemas.Preview](t, out)
	assert.Equal(t, c.policy().Version(), p.Decision.Version)
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

// TestALongRequestOfTheAgentAPI needs its token in the header: without one it is answered before it has come.
func TestALongRequestOfTheAgentAPI(t *testing.T) {
	t.Parallel()
	c := tenant(t, "long")
	long := `{"request_id":"r","operation":"global.off","auth_token":"` + c.token + `","args":{"if_match":"e","x":"` + strings.Repeat("x", 100<<10) + `"}}`
	text, _ := c.asks(t, http.StatusUnauthorized, http.MethodPost, schemas.RouteAgentAPI, long)
	assert.Contains(t, text, "over 65536 bytes needs it in the header")
	_, text, _ = c.do(t, http.MethodPost, schemas.RouteAgentAPI, long)
	assert.Contains(t, text, "ETAG_MISMATCH")
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.URL(), "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{", schemas.RouteAgentAPI)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}

// reply is what the agent API answers, by whichever way.
type reply struct {
	OK        bool               `json:"ok"`
	RequestID string             `json:"request_id"`
	Operation string             `json:"operation"`
	Error     schemas.AgentError `json:"error"`
}

// TestAnswersOfRPC: whatever the handler does, who asks gets an envelope, and the
// node goes on.
func TestAnswersOfRPC(t *testing.T) {
	t.Parallel()
	const ask = `{"request":{"request_id":"r<1>","operation":"global.off","args":{}}}`
	subject := schemas.AgentAPISubject("a.b")
	busy, refuse := context.WithCancelCause(t.Context())
	refuse(broker.ErrBusy)
	type testCase struct {
		subject string
		ctx     context.Context
		handler http.HandlerFunc
		code    schemas.Code
		detail  string
	}
	table.Run(t, map[string]testCase{
		"an envelope": {subject, nil, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusPreconditionFailed)
			_, _ = io.WriteString(w, `{"ok":false,"request_id":"r<1>","operation":"global.off","error":{"code":"ETAG_MISMATCH","message":"m"}}`)
		}, schemas.EtagMismatch, ""},
		"nothing":         {subject, nil, func(http.ResponseWriter, *http.Request) {}, schemas.InternalError, "UNAVAILABLE"},
		"a receipt":       {subject, nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"id":"a"}`) }, schemas.InternalError, "UNAVAILABLE"},
		"a panic":         {subject, nil, func(http.ResponseWriter, *http.Request) { panic("x") }, schemas.InternalError, "UNAVAILABLE"},
		"an abort":        {subject, nil, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, schemas.InternalError, "UNAVAILABLE"},
		"no end":          {subject, nil, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, schemas.InternalError, "UNAVAILABLE"},
		"too many":        {subject, busy, nil, schemas.RateLimited, ""},
		"another subject": {"weir.rpc.agent-api", nil, nil, schemas.InvalidRequest, ""},
		"a bad tenant":    {schemas.AgentAPIRoot + ".%2e", nil, nil, schemas.InvalidRequest, ""},
	}, func(t *testing.T, tc testCase) {
		ctx := tc.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		r := rpc{handler: tc.handler, log: slog.New(slog.DiscardHandler), timeout: 50 * time.Millisecond}
		got := fixture.Decode[reply](t, r.answer(ctx, tc.subject, []byte(ask)))
		assert.Equal(t, [3]string{"r<1>", "global.off", string(tc.code)}, [3]string{got.RequestID, got.Operation, string(got.Error.Code)})
		assert.Equal(t, tc.detail, got.Error.Detail)
		assert.False(t, got.OK)
	})
}

// broken is a broker that does not serve.
type broken struct{}

func (broken) Serve(string, string, func(context.Context, string, []byte) []byte) (func(), error) {
	return nil, errors.New("no connection")
}

// natsAgent is a NATS client with the credentials that are for agents.
func natsAgent(t *testing.T, a *App) *nats.Conn {
	t.Helper()
	c := fixture.Decode[embedded.Credentials](t, fixture.Read(t, embedded.AgentCredentialsFile(a.cfg.Data)))
	nc, err := nats.Connect(c.URL, nats.UserInfo(c.User, c.Password), nats.Timeout(30*time.Second))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// TestAnOpenNodeIsServedOnThisMachineAlone: without tokens whoever reaches the NATS server could write the rules. With
// them, the subject names the tenant, and a good token of another is no good there.
func TestAnOpenNodeIsServedOnThisMachineAlone(t *testing.T) {
	t.Parallel()
	foreign := &App{http: &httpServer{server: &http.Server{}}, cfg: config.Config{
		NATS: config.NATS{URL: "nats://nats.example:4222"}, Auth: config.Auth{Mode: config.AuthOpen},
	}}
	require.NoError(t, foreign.openRPC(broken{}), "it is not served")
	assert.Contains(t, strings.Join(foreign.natsWarnings(), "\n"), "not over NATS: this node requires no token")
	foreign.cfg.Auth.Mode = config.AuthTokens
	require.ErrorContains(t, foreign.openRPC(broken{}), "no connection")
	assert.Empty(t, foreign.teardown.undo)
	assert.Empty(t, foreign.natsWarnings())

	ask := func(a *App, tenant, token string) (r reply, err error) {
		request := fmt.Sprintf(`{"request_id":"r","operation":"status","args":{}%s}`, token)
		m, err := natsAgent(t, a).Request(schemas.AgentAPISubject(tenant), []byte(request), 20*time.Second)
		if err == nil {
			r = fixture.Decode[reply](t, m.Data)
		}
		return r, err
	}
	near := natsNode.node(t)
	got, err := ask(near, schemas.Operator, "")
	require.NoError(t, err)
	assert.Equal(t, [2]string{"UNAUTHORIZED", "AGENT_API_DISABLED"}, [2]string{string(got.Error.Code), got.Error.Detail}, "it may be off by every way")
	assert.Empty(t, near.natsWarnings())
	far := newApp(t, "nats: {listen: 0.0.0.0:0}\n")
	_, err = ask(far, schemas.Operator, "")
	require.ErrorIs(t, err, nats.ErrNoResponders)
	told := strings.Join(far.natsWarnings(), "\n")
	assert.Contains(t, told, "reads the evidence\n")
	assert.Contains(t, told, "not over NATS")
	assert.NotContains(t, told, "the tokens of", "there are none")

	far = newApp(t, withTokens+"nats: {listen: 0.0.0.0:0}\nrules: {limit: 1}\n")
	assert.Contains(t, strings.Join(far.natsWarnings(), "\n"), "the tokens of those who use the agent API there")
	admin := far.admin(t)
	acme, _ := admin.grant(t, `{"name":"x","tenant":"acme.inc","scopes":["rules:write"]}`)
	for token, ok := range map[string]bool{admin.token: true, acme.token: false, "wrong": false} {
		got, err = ask(far, schemas.Operator, fmt.Sprintf(`,"auth_token":%q`, token))
		require.NoError(t, err)
		assert.Equal(t, ok, got.OK)
		assert.Equal(t, "r", got.RequestID)
		assert.Equal(t, !ok, got.Error.Code == schemas.Unauthorized)
	}
	const rule = `{"id":"%s","type":"delay","match":{"url_pattern":"http://a.example/"},"action":{"delay_ms":1}}`
	admin.ruled(t, "create", fmt.Sprintf(rule, "one"))
	admin.refused(t, "RULE_LIMIT_EXCEEDED", "create", fmt.Sprintf(rule, "two"))
}
