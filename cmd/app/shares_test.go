package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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

// call is a POST of a tenant's to a target, with a body of so many bytes.
func (c caller) call(t *testing.T, url string, size int, header ...string) (status int, text string, h http.Header) {
	t.Helper()
	return c.do(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"POST","url":%q,"body":%q}`, url, strings.Repeat("x", size)), header...)
}

// TestOneTenantDoesNotFillTheLog: a tenant stores requests until it has used up its share. Then it alone is refused; another
// tenant, the operator and what was accepted before are served.
func TestOneTenantDoesNotFillTheLog(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(target.Close)
	a := newApp(t, "auth: {mode: tokens}\nlog: {durability: process, max_bytes: 16MiB}\n")
	admin := a.admin(t)
	first, second := admin.twoTenants(t)
	status, text, _ := second.call(t, target.URL, 10)
	require.Equal(t, http.StatusOK, status, text)

	const size, share = 200 << 10, 4 << 20
	accepted := 0
	var h http.Header
	for status = http.StatusOK; status == http.StatusOK; accepted++ {
		require.LessOrEqual(t, accepted*size, 2*share, "it was never refused")
		status, text, h = first.call(t, target.URL, size, "Idempotency-Key", fmt.Sprint("key-", accepted))
	}
	require.Equal(t, http.StatusTooManyRequests, status, text)
	for _, part := range []string{`"RATE_LIMITED"`, "may have 4.0 MiB", "limits.tenant_share", "log.max_bytes"} {
		require.Contains(t, text, part)
	}
	require.NotEmpty(t, h.Get("Retry-After"))
	require.Empty(t, h.Get("Weir-Action-Id"))

	status, text, _ = second.call(t, target.URL, size)
	require.Equal(t, http.StatusOK, status, text)
	status, text, h = first.call(t, target.URL, size, "Idempotency-Key", "key-0")
	require.Equal(t, http.StatusOK, status, text)
	require.Equal(t, "true", h.Get("Idempotency-Replayed"), "a repeat joins")
	status, text, _ = admin.do(t, http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusOK, status, text)
	admin.grant(t, `{"name":"third","tenant":"third","scopes":["actions:write"]}`)
	require.NotEmpty(t, admin.metric(t, `weir_tenant_stored_bytes{tenant="first"}`))
	held, err := strconv.ParseFloat(admin.metric(t, "weir_tenant_share_bytes"), 64)
	require.NoError(t, err)
	require.InDelta(t, share, held, 0)

	// What a tenant has stored is known after a restart.
	require.NoError(t, a.Stop(t.Context()))
	b, err := New(t.Context(), Options{Config: a.cfg, Log: io.Discard})
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	t.Cleanup(func() { assert.NoError(t, b.Stop(context.WithoutCancel(t.Context()))) })
	status, text, _ = caller{b, first.token}.call(t, target.URL, size)
	require.Equal(t, http.StatusTooManyRequests, status, text)
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
