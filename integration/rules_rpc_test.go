//go:build e2e

package integration_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/schemas"
)

// TestAgentAPIOverNATS: another program asks by request and reply, and gets what
// it would get over HTTP. Its credentials open nothing else.
func TestAgentAPIOverNATS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := serve(t, dir, "--durability", "process", "--nats-listen", "127.0.0.1:0")
	raw, err := os.ReadFile(embedded.AgentCredentialsFile(dir))
	require.NoError(t, err)
	c := decode[embedded.Credentials](t, string(raw))
	nc, err := nats.Connect(c.URL, nats.UserInfo(c.User, c.Password), nats.Timeout(30*time.Second), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	require.NoError(t, err)
	defer nc.Close()
	ask := func(subject, body string) schemas.AgentResponse {
		t.Helper()
		m, err := nc.Request(subject, []byte(body), 30*time.Second)
		require.NoError(t, err)
		return decode[schemas.AgentResponse](t, string(m.Data))
	}
	subject := schemas.AgentAPISubject(schemas.Operator)

	pong := ask(subject, operation(t, "weir.> <1>", schemas.OpPing, nil))
	assert.True(t, pong.OK)
	assert.Equal(t, "weir.> <1>", pong.RequestID)
	status := decode[ruleData](t, string(ask(subject, operation(t, "2", schemas.OpStatus, nil)).Data))
	args := map[string]any{"if_match": status.Etag, "rule": ruleOf(schemas.RuleMock, "over-nats", "https://api.example.com/*", map[string]any{"status": 200})}
	made := ask(subject, operation(t, "3", schemas.OpRulesCreate, args))
	require.True(t, made.OK, "%+v", made.Error)
	assert.Equal(t, made, ask(subject, operation(t, "3", schemas.OpRulesCreate, args)), "the same request again")
	lost := ask(subject, operation(t, "4", schemas.OpRulesCreate, args))
	require.NotNil(t, lost.Error)
	assert.Equal(t, schemas.EtagMismatch, lost.Error.Code)
	assert.Len(t, w.operate(t, schemas.OpRulesList, nil).Rules, 1, "and over HTTP it is there")
	_, body := w.request(t, http.MethodPost, "/v1/agent-api", operation(t, "5", schemas.OpRulesList, nil))
	assert.Equal(t, decode[schemas.AgentResponse](t, body), ask(subject, operation(t, "5", schemas.OpRulesList, nil)))

	for _, bad := range []string{"", "{", "[]", `{"request_id":"6"}`, "\x00\xff"} {
		refused := ask(subject, bad)
		require.NotNil(t, refused.Error, bad)
		assert.Equal(t, schemas.InvalidRequest, refused.Error.Code, bad)
	}
	foreign := ask(schemas.AgentAPISubject("another"), operation(t, "7", schemas.OpRulesList, nil))
	require.NotNil(t, foreign.Error)
	assert.Equal(t, schemas.Unauthorized, foreign.Error.Code, "open mode has one tenant")

	for _, closed := range []string{"$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.DIRECT.GET.KV_" + schemas.RuleBucket, "$KV." + schemas.RuleBucket + ".default"} {
		_, err := nc.Request(closed, nil, 300*time.Millisecond)
		require.Error(t, err, closed)
	}
	sub, err := nc.SubscribeSync("weir.live.evidence.>")
	if err == nil {
		_, err = sub.NextMsg(200 * time.Millisecond)
	}
	require.Error(t, err, "evidence is not for agents")
}
