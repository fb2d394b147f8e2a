//go:build e2e

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// caller is a running Weir, and the token of one who calls it.
type caller struct {
	*weir
	token string
}

// serveTenants serves with a configuration, and returns the admin that the first start made.
func serveTenants(t *testing.T, dir, text string) caller {
	t.Helper()
	w := serve(t, dir, "--config", configFile(t, "auth: {mode: tokens}\n"+text), "--durability", "process")
	secret, err := os.ReadFile(filepath.Join(dir, "admin.token"))
	require.NoError(t, err)
	return caller{w, strings.TrimSpace(string(secret))}
}

func (c caller) do(t *testing.T, method, path, body string, header ...string) (status int, text string, h http.Header) {
	t.Helper()
	resp, text := c.request(t, method, path, body, append([]string{"Authorization", "Bearer " + c.token}, header...)...)
	return resp.StatusCode, text, resp.Header
}

// tenants are callers of two of them.
func (c caller) tenants(t *testing.T) (first, second caller) {
	t.Helper()
	return c.tenant(t, "first"), c.tenant(t, "second")
}

func (c caller) tenant(t *testing.T, name string) caller {
	t.Helper()
	status, text, _ := c.do(t, http.MethodPost, "/v1/tokens", fmt.Sprintf(`{"name":%q,"tenant":%[1]q,"scopes":["tasks:write","actions:write","actions:read"],"rate":"100000/s"}`, name))
	require.Equal(t, http.StatusCreated, status, text)
	return caller{c.weir, decode[schemas.NewToken](t, text).Secret}
}

// stored is what a tenant has in the log, in bytes, by the metrics.
func (c caller) stored(t *testing.T, tenant string) float64 {
	t.Helper()
	_, text, _ := c.do(t, http.MethodGet, "/metrics", "")
	_, rest, ok := strings.Cut(text, fmt.Sprintf("weir_tenant_stored_bytes{tenant=%q} ", tenant))
	require.True(t, ok)
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(line, 64)
	require.NoError(t, err)
	return n
}

// TestOneTenantsAttack has one tenant do to the program what would stop every other tenant: it fills the log with denied
// and with accepted requests, asks for many large answers at a time, and has a shared target ask it to wait. Meanwhile
// another tenant calls one after the other, and each of its calls succeeds. Then the first
// is refused, after a restart too, and a repeat of what it had accepted before is answered.
func TestOneTenantsAttack(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcdef", 4<<20/16)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/large":
			_, _ = io.WriteString(w, large)
		case "/wait":
			w.Header().Set("Retry-After", "299")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(target.Close)
	config := fmt.Sprintf("log: {max_bytes: 128MiB}\nlimits: {answers: 16MiB}\ndeadline: {http: 1h}\n"+
		"policy: {allowlist: [{name: target, url_prefix: \"%s/\", methods: [GET, POST], network: loopback}]}\n", target.URL)
	dir := t.TempDir()
	admin := serveTenants(t, dir, config)
	attacker, other := admin.tenants(t)
	bodies := 0
	call := func(method, url string, size int) string {
		if size == 0 {
			return fmt.Sprintf(`{"method":%q,"url":%q}`, method, url)
		}
		bodies++ // equal ones are stored once
		return fmt.Sprintf(`{"method":%q,"url":%q,"body":"%d%s"}`, method, url, bodies, strings.Repeat("x", size))
	}
	execute := func(c caller, body string, header ...string) (int, string, http.Header) {
		return c.do(t, http.MethodPost, "/v1/execute", body, header...)
	}

	attacked, over := context.WithCancel(t.Context())
	calls, failed, done := 0, "", make(chan struct{})
	go func() {
		defer close(done)
		for ; attacked.Err() == nil && failed == ""; calls++ {
			resp, text, err := other.try(t.Context(), http.MethodPost, "/v1/execute", call("GET", target.URL+"/ok", 0), "Authorization", "Bearer "+other.token)
			if err != nil || resp.StatusCode != http.StatusOK {
				failed = fmt.Sprint(err, text)
			}
		}
	}()
	for i := range 100 {
		status, text, _ := execute(attacker, call("POST", "https://denied.example/"+strconv.Itoa(i), 900<<10))
		require.Equal(t, http.StatusForbidden, status, text)
	}
	first := call("POST", target.URL+"/ok", 900<<10)
	status, text, _ := execute(attacker, first, "Idempotency-Key", "key")
	require.Equal(t, http.StatusOK, status, text)
	status, text, _ = execute(attacker, call("GET", target.URL+"/wait", 0), "Prefer", "wait=1")
	require.Equal(t, http.StatusAccepted, status, text)
	for range 24 {
		status, text, _ = execute(attacker, call("GET", target.URL+"/large", 0), "Prefer", "respond-async")
		require.Equal(t, http.StatusAccepted, status, text)
	}
	var h http.Header
	for i := 0; status != http.StatusTooManyRequests; i++ {
		require.Less(t, i, 300, "it was never refused")
		status, text, h = execute(attacker, call("POST", target.URL+"/ok", 900<<10), "Prefer", "respond-async")
	}
	for _, part := range []string{`"RATE_LIMITED"`, "may have ", "limits.tenant_share", "log.max_bytes"} {
		require.Contains(t, text, part)
	}
	require.NotEmpty(t, h.Get("Retry-After"))
	require.Empty(t, h.Get("Weir-Action-Id"))
	status, text, h = execute(attacker, first, "Idempotency-Key", "key")
	require.Equal(t, http.StatusOK, status, text)
	require.Equal(t, "true", h.Get("Idempotency-Replayed"), "a repeat joins")
	status, text, _ = admin.do(t, http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusOK, status, text)
	admin.tenant(t, "third")
	require.InEpsilon(t, 91<<20, admin.stored(t, "first"), 0.1)
	over()
	<-done
	require.Empty(t, failed)
	require.Positive(t, calls)

	require.NoError(t, admin.Terminate(t.Context()))
	attacker.weir = serveTenants(t, dir, config).weir
	status = 0
	for i := 0; status != http.StatusTooManyRequests; i++ {
		require.Less(t, i, 100, "what was stored counts after a restart, and what was reserved for answers does not")
		status, text, _ = execute(attacker, call("POST", target.URL+"/ok", 900<<10), "Prefer", "respond-async")
		require.Contains(t, []int{http.StatusAccepted, http.StatusTooManyRequests}, status, text)
	}
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
	admin := serveTenants(t, t.TempDir(), "log: {max_bytes: 32MiB}\npolicy: {allowed_hosts: [127.0.0.1]}\n")
	first, second := admin.tenants(t)
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
	require.Less(t, admin.stored(t, "first"), 1.1*6*size)

	for i := 0; status == http.StatusOK; i++ {
		require.Less(t, i, 24, "it has all but a share of the 32 MiB")
		status, text, _ = get(first, fmt.Sprint("/more/", i))
	}
	require.Equal(t, http.StatusBadGateway, status, text)
	require.Contains(t, text, string(schemas.UpstreamTooLarge))
	status, text, _ = get(second, "/b")
	require.Equal(t, http.StatusOK, status, text)
}

// TestMemoryOfLargeAnswers: answers of one tenant that come in slowly hold memory; another tenant's
// large answer comes through.
func TestMemoryOfLargeAnswers(t *testing.T) {
	t.Parallel()
	const size = 4<<20 - 4<<10 // four of them, with their headers, fill the 16 MiB, of which one tenant may have three
	begun, hold := make(chan struct{}, 8), make(chan struct{})
	target := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		// Nearly all of it: sockets hold half of it for a reader that reads the beginning alone.
		if _, err := w.Write([]byte(strings.Repeat("x", size-1))); err != nil {
			return // the attempt has ended without reading it
		}
		if r.URL.Path == "/slow" {
			begun <- struct{}{}
			<-hold
		}
		_, _ = w.Write([]byte("x"))
	}))
	target.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { // what is not read is not sent
		tcp, ok := c.(*net.TCPConn)
		assert.True(t, ok)
		assert.NoError(t, tcp.SetWriteBuffer(1<<16))
		return ctx
	}
	target.Start()
	t.Cleanup(target.Close)
	admin := serveTenants(t, t.TempDir(), "limits: {answers: 16MiB}\npolicy: {timeout: 100s, allowed_hosts: [127.0.0.1]}\n")
	first, second := admin.tenants(t)
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

// coder is a tenant with one repository and one task that runs.
type coder struct {
	caller
	repo string
	task schemas.NewTask
}

// coder has a tenant make a repository, and take on a task there.
func (c caller) coder(t *testing.T, repo string) coder {
	t.Helper()
	status, text, _ := c.do(t, http.MethodPost, schemas.RouteRepos, fmt.Sprintf(`{"name":%q}`, repo))
	require.Equal(t, http.StatusCreated, status, text)
	status, text, _ = c.do(t, http.MethodPost, schemas.RouteTasks, fmt.Sprintf(`{"repo":%q,"description":"Paint the shed"}`, repo))
	require.Equal(t, http.StatusCreated, status, text)
	k := coder{caller: c, repo: repo}
	require.NoError(t, json.Unmarshal([]byte(text), &k.task))
	status, text, _ = caller{c.weir, k.task.Token}.do(t, http.MethodGet, schemas.RouteAgentTask, "")
	require.Equal(t, http.StatusOK, status, text)
	status, text, _ = c.do(t, http.MethodGet, schemas.RouteTasks+"/"+k.task.ID, "")
	require.Equal(t, http.StatusOK, status, text)
	require.NoError(t, json.Unmarshal([]byte(text), &k.task.TaskView))
	require.NotEmpty(t, k.task.Base)
	return k
}

// push begins a push of one commit.
func (k coder) push(t *testing.T) *pushing {
	t.Helper()
	pack, head := gitkit.GoodCommit(string(noise(7, 1<<20)), k.task.Base)
	body := gitkit.PushBody(gitkit.Update{Old: k.task.Base, New: head, Ref: schemas.RefOf(k.task.Branch)}, pack)
	return k.pushHalf(t, k.repo, k.task, body)
}

// running waits until so many actions of a kind run.
func (c caller) running(t *testing.T, kind schemas.Kind, n int) {
	t.Helper()
	poll.Until(t, func() bool {
		_, text, _ := c.do(t, http.MethodGet, "/v1/actions?limit=100&kind="+string(kind), "")
		return strings.Count(text, `"status":"started"`) == n
	})
}

// TestOneTenantsSlowPushesStopNobody: a tenant begins as many pushes as git takes at a time, and as many imports, and all of
// them stand still. Meanwhile another tenant makes a repository, imports one and pushes.
func TestOneTenantsSlowPushesStopNobody(t *testing.T) {
	t.Parallel()
	begun, hold := make(chan struct{}, 16), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)
	from, _ := gitkit.NewRepo(t)
	fast := gitkit.NewBackend(t)
	url, _ := fast.Add(t, "app.git", from)
	admin := serveTenants(t, t.TempDir(), fmt.Sprintf(`
policy:
  allowlist:
    - {name: slow, url_prefix: "%s/", methods: [GET, POST], network: loopback}
    - {name: fast, url_prefix: "%s/", methods: [GET, POST], network: loopback}
`, slow.URL, fast.URL))
	t.Cleanup(func() { close(hold) })
	first, second := admin.tenants(t)
	var pushes []*pushing
	for i := range 4 { // 16 pushes and imports run at a time, and four pushes of a task
		k := first.coder(t, fmt.Sprint("shop-", i))
		for range 4 {
			pushes = append(pushes, k.push(t))
		}
	}
	first.running(t, schemas.KindPush, len(pushes))
	for i := range 6 {
		status, text, _ := first.do(t, http.MethodPost, schemas.RouteRepos, fmt.Sprintf(`{"name":"copy-%d","import_url":"%s/app.git"}`, i, slow.URL), "Prefer", "respond-async")
		require.Equal(t, http.StatusAccepted, status, text)
	}
	for range 3 { // and the others wait for these
		<-begun
	}

	k := second.coder(t, "shop")
	answer := k.push(t).finish()
	require.Contains(t, answer, "unpack ok")
	require.Contains(t, answer, "ok "+schemas.RefOf(k.task.Branch))
	status, text, _ := second.do(t, http.MethodPost, schemas.RouteRepos, fmt.Sprintf(`{"name":"copy","import_url":%q}`, url))
	require.Equal(t, http.StatusCreated, status, text)

	first.running(t, schemas.KindPush, len(pushes)) // none had to end for that
	first.running(t, schemas.KindRepo, 6)
	require.Empty(t, begun)
	for i, p := range pushes {
		if answer = p.finish(); i%4 == 0 {
			require.Contains(t, answer, "unpack ok")
		}
	}
}

// TestAFullLogRefusesBeforeItAccepts: nothing is stored of a request that is refused, and reads and
// operators are served.
func TestAFullLogRefusesBeforeItAccepts(t *testing.T) {
	t.Parallel()
	w := serve(t, t.TempDir(), "--durability", "process", "--config", policyFile(t, "http://127.0.0.1:1", "log: {max_bytes: 16MiB}\n"))
	big := fmt.Sprintf(`{"method":"POST","url":"http://127.0.0.1:1/","body":%q}`, strings.Repeat("x", 200<<10))
	for i := range 2000 {
		resp, body := w.request(t, http.MethodPost, "/v1/execute", big, "Prefer", "respond-async", "Idempotency-Key", fmt.Sprintf("k-%d", i))
		if resp.StatusCode != http.StatusServiceUnavailable {
			continue
		}
		assert.Contains(t, body, string(schemas.LogFull))
		assert.NotEmpty(t, resp.Header.Get("Retry-After"))
		assert.Empty(t, resp.Header.Get("Weir-Action-Id"))
		resp, body = w.request(t, http.MethodGet, "/readyz", "")
		assert.Equal(t, http.StatusOK, resp.StatusCode, body)
		return
	}
	t.Fatal("the log never became full")
}
