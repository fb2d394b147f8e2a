package app

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/agent"
)

// twoTenants are the callers of two tenants.
func (c caller) twoTenants(t *testing.T) (first, second caller) {
	t.Helper()
	first, _ = c.grant(t, `{"name":"first","tenant":"first","scopes":["actions:write","actions:read"],"rate":"10000/s"}`)
	second, _ = c.grant(t, `{"name":"second","tenant":"second","scopes":["actions:write","actions:read"]}`)
	return first, second
}

// TestOneTenantDoesNotTakeEveryPlaceAtAnAgent: while a tenant's runs are with an agent and never end, another tenant's
// run finds a place.
func TestOneTenantDoesNotTakeEveryPlaceAtAnAgent(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	held := agent.Act{Hold: hold}
	double := agent.New(t, agent.Config{Script: []agent.Act{held, held, held, {}}})
	a := newApp(t, withTokens+fmt.Sprintf("agents: {%s: {url: %q, concurrency: 4}}\n", agent.TaskType, double.URL()))
	t.Cleanup(func() { close(hold) }) // before the app is stopped
	first, second := a.admin(t).twoTenants(t)
	run := func(who caller, id string, header ...string) (int, string) {
		status, text, _ := who.do(t, http.MethodPost, "/agents/run/sync", fmt.Sprintf(`{"request_id":%q,"task_type":%q}`, id, agent.TaskType), header...)
		return status, text
	}
	for i := range 6 {
		status, text := run(first, fmt.Sprint("r", i), "Prefer", "respond-async")
		require.Equal(t, http.StatusAccepted, status, text)
	}
	double.WaitRun(3)
	status, text := run(second, "r")
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, text, `"status":"ok"`)
	require.Equal(t, 4, double.Hits())
}

// TestADeniedCallIsNotKept: of a call that policy denies the log has method, URL and a digest. A repeat joins it all the
// same, and another body under its id is another request.
func TestADeniedCallIsNotKept(t *testing.T) {
	t.Parallel()
	a := newApp(t, "auth: {mode: tokens}\nlog: {durability: process, max_bytes: 64MiB}\n")
	admin := a.admin(t)
	first, _ := admin.twoTenants(t)
	ask := func(body string) (int, string, http.Header) {
		return first.do(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"request_id":"d","method":"POST","url":"https://denied.example/x","headers":{"X-Secret":"hush"},"body":%q}`, body))
	}
	body := strings.Repeat("0123456789abcdef", 900<<10/16)
	status, text, h := ask(body)
	require.Equal(t, http.StatusForbidden, status, text)
	_, again, _ := ask(body)
	require.Equal(t, text, again)
	status, text, _ = ask("other")
	require.Equal(t, http.StatusConflict, status, text)
	_, text, _ = first.do(t, http.MethodGet, "/v1/actions/"+h.Get("Weir-Action-Id")+"/payload", "")
	sum := sha256.Sum256([]byte(strconv.Quote(body)))
	require.Contains(t, text, `"body_sha256":"`+hex.EncodeToString(sum[:])+`","body_bytes":`+strconv.Itoa(len(body)+2))
	require.Contains(t, text, `"method":"POST","url":"https://denied.example/x"`)
	require.NotContains(t, text, "hush")
	require.Less(t, len(text), 2000)
	stored, err := strconv.ParseFloat(admin.metric(t, `weir_tenant_stored_bytes{tenant="first"}`), 64)
	require.NoError(t, err)
	require.Less(t, stored, 10000.0)
}
