package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli"
	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/config"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// reply is what the agent API answers, by whichever way.
type reply struct {
	OK        bool               `json:"ok"`
	RequestID string             `json:"request_id"`
	Operation string             `json:"operation"`
	Error     schemas.AgentError `json:"error"`
}

func replyOf(t *testing.T, doc []byte) (r reply) {
	t.Helper()
	require.NoError(t, json.Unmarshal(doc, &r), string(doc))
	return r
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
		got := replyOf(t, r.answer(ctx, tc.subject, []byte(ask)))
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
	raw, err := os.ReadFile(embedded.AgentCredentialsFile(a.cfg.Data))
	require.NoError(t, err)
	var c embedded.Credentials
	require.NoError(t, json.Unmarshal(raw, &c))
	nc, err := nats.Connect(c.URL, nats.UserInfo(c.User, c.Password), nats.Timeout(30*time.Second))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// TestAnOpenNodeIsServedOnThisMachineAlone: without tokens whoever reaches the NATS server could write the rules. With
// them, the subject names the tenant, and a good token of another is no good there.
func TestAnOpenNodeIsServedOnThisMachineAlone(t *testing.T) {
	t.Parallel()
	foreign := &App{http: &httpServer{server: &http.Server{}}, cfg: config.Config{NATS: config.NATS{URL: "nats://nats.example:4222"}}}
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
			r = replyOf(t, m.Data)
		}
		return r, err
	}
	near := natsNode.node(t)
	got, err := ask(near, schemas.Operator, "")
	require.NoError(t, err)
	assert.Equal(t, [2]string{"UNAUTHORIZED", "AGENT_API_DISABLED"}, [2]string{string(got.Error.Code), got.Error.Detail}, "it may be off by every way")
	code, _, errs := command(t, "rules", "list", "--server", near.URL())
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, errs, "(UNAUTHORIZED, AGENT_API_DISABLED)\nthe server's configuration has rules.agent_api: false")
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
	for _, c := range []struct {
		tenant, token string
		ok            bool
	}{{"default", admin.token, true}, {"acme.inc", acme.token, true}, {"default", acme.token, false}, {"acme.inc", admin.token, false}, {"default", "wrong", false}} {
		got, err = ask(far, c.tenant, fmt.Sprintf(`,"auth_token":%q`, c.token))
		require.NoError(t, err)
		assert.Equal(t, c.ok, got.OK, c.tenant)
		assert.Equal(t, "r", got.RequestID)
		assert.Equal(t, !c.ok, got.Error.Code == schemas.Unauthorized, c.tenant)
	}
	const rule = `{"id":"%s","type":"delay","match":{"url_pattern":"http://a.example/"},"action":{"delay_ms":1}}`
	admin.ruled(t, "create", fmt.Sprintf(rule, "one"))
	admin.refused(t, "RULE_LIMIT_EXCEEDED", "create", fmt.Sprintf(rule, "two"))
}
