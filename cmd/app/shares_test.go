package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/agent"
	"weir/schemas"
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

	const size, most = 200 << 10, 12 << 20 // all but the share of another
	accepted := 0
	var h http.Header
	for status = http.StatusOK; status == http.StatusOK; accepted++ {
		require.LessOrEqual(t, accepted*size, most, "it was never refused")
		status, text, h = first.call(t, target.URL, size, "Idempotency-Key", fmt.Sprint("key-", accepted))
	}
	require.Equal(t, http.StatusTooManyRequests, status, text)
	for _, part := range []string{`"RATE_LIMITED"`, "may have 12.0 MiB", "limits.tenant_share", "log.max_bytes"} {
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
	limit, err := strconv.ParseFloat(admin.metric(t, `weir_tenant_limit_bytes{tenant="first"}`), 64)
	require.NoError(t, err)
	require.InEpsilon(t, most, limit, 0.1)

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

// TestLargeAnswersAreStoredOnce: those of calls, of runs, and of calls with a schema. They count for their tenant: once its
// share is used up, what was accepted still finishes, a large answer does not pass, and another tenant's does.
func TestLargeAnswersAreStoredOnce(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	large := strings.Repeat("0123456789abcdef", size/16)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `"`+r.URL.Path+large+`"`)
	}))
	t.Cleanup(target.Close)
	a := newApp(t, "auth: {mode: tokens}\nlog: {durability: process, max_bytes: 32MiB}\n")
	admin := a.admin(t)
	first, second := admin.twoTenants(t)
	get := func(who caller, path string) (int, string, string) {
		status, text, h := who.do(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":%q}`, target.URL+path))
		return status, text, h.Get("Weir-Action-Id")
	}
	status, text, _ := get(second, "/a")
	require.Equal(t, http.StatusOK, status, text)
	made := func(i int) (int, string, string) {
		call := fmt.Sprintf(`{"method":"GET","url":%q,"response_schema":{"type":"string"}}`, fmt.Sprint(target.URL, "/", i))
		switch i {
		case 0:
			status, text, h := first.do(t, http.MethodPost, "/v1/execute", call)
			return status, text, h.Get("Weir-Action-Id")
		case 1, 2:
			status, text, h := first.do(t, http.MethodPost, "/agents/run/sync", fmt.Sprintf(`{"request_id":"r%d","task_type":"HTTP_EXECUTE","inputs":%s}`, i, call))
			return status, text, h.Get("Weir-Action-Id")
		default:
			return get(first, fmt.Sprint("/", i))
		}
	}
	for i := range 6 {
		status, text, id := made(i)
		require.Equal(t, http.StatusOK, status, text[:min(len(text), 1000)])
		require.Contains(t, text, large)
		_, text, _ = first.do(t, http.MethodGet, "/v1/actions/"+id, "")
		require.Contains(t, text, fmt.Sprint("/", i, large), "it is shown later, too")
	}
	stored, err := strconv.ParseFloat(admin.metric(t, `weir_tenant_stored_bytes{tenant="first"}`), 64)
	require.NoError(t, err)
	require.Less(t, stored, 1.1*6*size)

	for i := 0; status == http.StatusOK; i++ {
		require.Less(t, i, 24, "it has all but a share of the 32 MiB")
		status, text, _ = get(first, fmt.Sprint("/more/", i))
	}
	require.Equal(t, http.StatusBadGateway, status, text)
	require.Contains(t, text, string(schemas.UpstreamTooLarge))
	status, text, _ = get(second, "/b")
	require.Equal(t, http.StatusOK, status, text)
}

// TestMemoryOfLargeAnswers: answers of one tenant that come in slowly hold memory; those beyond it are not read, and
// another tenant's large answer comes through.
func TestMemoryOfLargeAnswers(t *testing.T) {
	t.Parallel()
	const size = 4<<20 - 4<<10 // four of them, with their headers, fill the 16 MiB, of which one tenant may have three
	begun, hold := make(chan struct{}, 8), make(chan struct{})
	target := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		half := []byte(strings.Repeat("x", size/2))
		if _, err := w.Write(half); err != nil {
			return // the attempt has ended without reading it
		}
		if r.URL.Path == "/slow" {
			begun <- struct{}{}
			<-hold
		}
		_, _ = w.Write(half)
	}))
	target.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { // what is not read is not sent
		tcp, ok := c.(*net.TCPConn)
		assert.True(t, ok)
		assert.NoError(t, tcp.SetWriteBuffer(1<<16))
		return ctx
	}
	target.Start()
	t.Cleanup(target.Close)
	a := newApp(t, withTokens+"limits: {answers: 16MiB}\npolicy: {timeout: 100s, allowed_hosts: [127.0.0.1]}\n")
	first, second := a.admin(t).twoTenants(t)
	t.Cleanup(sync.OnceFunc(func() { close(hold) }))
	for range 6 {
		status, text, _ := first.do(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":%q}`, target.URL+"/slow"), "Prefer", "respond-async")
		require.Equal(t, http.StatusAccepted, status, text)
	}
	for range 3 {
		<-begun
	}
	status, text, _ := second.do(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":%q}`, target.URL+"/fast"))
	require.Equal(t, http.StatusOK, status, text[:min(len(text), 200)])
	require.Empty(t, begun, "of the first tenant's other answers nothing more was read")
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
