//go:build e2e

package integration_test

import (
	"context"
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

	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// serveTenants serves with a configuration. It returns clients of the first admin and of two tenants.
func serveTenants(t *testing.T, dir, config string) (admin, first, second *weir) {
	t.Helper()
	admin = serveTokens(t, nil, dir, config)
	return admin, admin.tenant(t, "first"), admin.tenant(t, "second")
}

// execute asks for a GET of a URL.
func (w *weir) execute(t *testing.T, url string, header ...string) program.Answer {
	t.Helper()
	return w.Ask(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":%q}`, url), header...)
}

// stored is what a tenant has in the log, in bytes, by the metrics.
func (w *weir) stored(t *testing.T, tenant string) float64 {
	t.Helper()
	_, rest, ok := strings.Cut(w.Ask(t, http.MethodGet, "/metrics", "").Body, fmt.Sprintf("weir_tenant_stored_bytes{tenant=%q} ", tenant))
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
	admin, attacker, other := serveTenants(t, dir, config)
	bodies := 0
	post := func(url string) string {
		bodies++ // equal ones are stored once
		return fmt.Sprintf(`{"method":"POST","url":%q,"body":"%d%s"}`, url, bodies, strings.Repeat("x", 900<<10))
	}

	attacked, over := context.WithCancel(t.Context())
	calls, failed, done := 0, "", make(chan struct{})
	go func() {
		defer close(done)
		for ; attacked.Err() == nil && failed == ""; calls++ {
			a, err := other.Try(t.Context(), http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":%q}`, target.URL+"/ok"))
			if err != nil || a.Status != http.StatusOK {
				failed = fmt.Sprint(err, a.Body)
			}
		}
	}()
	for i := range 100 {
		attacker.Must(t, http.StatusForbidden, http.MethodPost, "/v1/execute", post("https://denied.example/"+strconv.Itoa(i)))
	}
	first := post(target.URL + "/ok")
	attacker.Must(t, http.StatusOK, http.MethodPost, "/v1/execute", first, "Idempotency-Key", "key")
	require.Equal(t, http.StatusAccepted, attacker.execute(t, target.URL+"/wait", "Prefer", "wait=1").Status)
	for range 24 {
		require.Equal(t, http.StatusAccepted, attacker.execute(t, target.URL+"/large", "Prefer", "respond-async").Status)
	}
	refused := func(most int) (a program.Answer) {
		for i := 0; a.Status != http.StatusTooManyRequests; i++ {
			require.Less(t, i, most, "it was never refused")
			a = attacker.Ask(t, http.MethodPost, "/v1/execute", post(target.URL+"/ok"), "Prefer", "respond-async")
			require.Contains(t, []int{http.StatusAccepted, http.StatusTooManyRequests}, a.Status, a.Body)
		}
		return a
	}
	a := refused(300)
	for _, part := range []string{`"RATE_LIMITED"`, "may have ", "limits.tenant_share", "log.max_bytes"} {
		require.Contains(t, a.Body, part)
	}
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	require.Empty(t, a.ID())
	a = attacker.Ask(t, http.MethodPost, "/v1/execute", first, "Idempotency-Key", "key")
	require.Equal(t, http.StatusOK, a.Status, a.Body)
	require.Equal(t, "true", a.Header.Get("Idempotency-Replayed"), "a repeat joins")
	admin.Must(t, http.StatusOK, http.MethodGet, "/readyz", "")
	admin.tenant(t, "third")
	require.InEpsilon(t, 91<<20, admin.stored(t, "first"), 0.1)
	over()
	<-done
	require.Empty(t, failed)
	require.Positive(t, calls)

	require.NoError(t, admin.Terminate(t.Context()))
	attacker = serveTokens(t, nil, dir, config).as(attacker.Token)
	refused(100) // what was stored counts after a restart, and what was reserved for answers does not
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
	admin, first, second := serveTenants(t, t.TempDir(), "log: {max_bytes: 32MiB}\npolicy: {allowed_hosts: [127.0.0.1]}\n")
	require.Equal(t, http.StatusOK, second.execute(t, target.URL+"/a").Status)
	for i := range 6 {
		call := fmt.Sprintf(`{"method":"GET","url":%q,"response_schema":{"type":"string"}}`, fmt.Sprint(target.URL, "/", i))
		var a program.Answer
		switch i {
		case 0:
			a = first.Ask(t, http.MethodPost, "/v1/execute", call)
		case 1, 2:
			a = first.Ask(t, http.MethodPost, schemas.RouteRunSync, runBody(fmt.Sprint("r", i), schemas.TaskHTTPExecute, call))
		default:
			a = first.execute(t, fmt.Sprint(target.URL, "/", i))
		}
		require.Equal(t, http.StatusOK, a.Status, a.Body[:min(len(a.Body), 1000)])
		require.Contains(t, a.Body, large)
		require.Contains(t, first.Ask(t, http.MethodGet, "/v1/actions/"+a.ID(), "").Body, fmt.Sprint("/", i, large), "it is shown later, too")
	}
	require.Less(t, admin.stored(t, "first"), 1.1*6*size)

	a := program.Answer{Status: http.StatusOK}
	for i := 0; a.Status == http.StatusOK; i++ {
		require.Less(t, i, 24, "it has all but a share of the 32 MiB")
		a = first.execute(t, fmt.Sprint(target.URL, "/more/", i))
	}
	require.Equal(t, http.StatusBadGateway, a.Status, a.Body)
	require.Contains(t, a.Body, string(schemas.UpstreamTooLarge))
	require.Equal(t, http.StatusOK, second.execute(t, target.URL+"/b").Status)
}

// claimed is a new task that its agent has fetched.
func (w *weir) claimed(t *testing.T) schemas.NewTask {
	t.Helper()
	task := w.makeTask(t, nil)
	w.As(task.Token).Must(t, http.StatusOK, http.MethodGet, schemas.RouteAgentTask, "")
	task.TaskView = w.Task(t, task.ID)
	require.NotEmpty(t, task.Base)
	return task
}

// push begins a push of one commit.
func (w *weir) push(t *testing.T, task schemas.NewTask) *pushing {
	t.Helper()
	pack, head := gitkit.GoodCommit(string(noise(7, 1<<20)), task.Base)
	return w.pushHalf(t, task, gitkit.PushBody(gitkit.Update{Old: task.Base, New: head, Ref: schemas.RefOf(task.Branch)}, pack))
}

// running waits until so many actions of a kind run.
func (w *weir) running(t *testing.T, kind schemas.Kind, n int) {
	t.Helper()
	poll.Until(t, func() bool {
		return strings.Count(w.Ask(t, http.MethodGet, "/v1/actions?limit=100&kind="+string(kind), "").Body, `"status":"started"`) == n
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
	_, first, second := serveTenants(t, t.TempDir(), fmt.Sprintf(`
policy:
  allowlist:
    - {name: slow, url_prefix: "%s/", methods: [GET, POST], network: loopback}
    - {name: fast, url_prefix: "%s/", methods: [GET, POST], network: loopback}
`, slow.URL, fast.URL))
	t.Cleanup(func() { close(hold) })
	first.MakeRepo(t, map[string]any{"name": "shop"})
	second.MakeRepo(t, map[string]any{"name": "shop"})
	var pushes []*pushing
	for range 4 { // 16 pushes and imports run at a time, and four pushes of a task
		task := first.claimed(t)
		for range 4 {
			pushes = append(pushes, first.push(t, task))
		}
	}
	first.running(t, schemas.KindPush, len(pushes))
	for i := range 6 {
		first.Must(t, http.StatusAccepted, http.MethodPost, schemas.RouteRepos, fmt.Sprintf(`{"name":"copy-%d","import_url":"%s/app.git"}`, i, slow.URL), "Prefer", "respond-async")
	}
	for range 3 { // and the others wait for these
		<-begun
	}

	task := second.claimed(t)
	answer := second.push(t, task).finish()
	require.Contains(t, answer, "unpack ok")
	require.Contains(t, answer, "ok "+schemas.RefOf(task.Branch))
	second.MakeRepo(t, map[string]any{"name": "copy", "import_url": url})

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
		a := w.Ask(t, http.MethodPost, "/v1/execute", big, "Prefer", "respond-async", "Idempotency-Key", fmt.Sprintf("k-%d", i))
		if a.Status != http.StatusServiceUnavailable {
			continue
		}
		require.Contains(t, a.Body, string(schemas.LogFull))
		require.NotEmpty(t, a.Header.Get("Retry-After"))
		require.Empty(t, a.Header.Get("Weir-Action-Id"))
		w.Must(t, http.StatusOK, http.MethodGet, "/readyz", "")
		return
	}
	t.Fatal("the log never became full")
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
	_, first, second := serveTenants(t, t.TempDir(), "limits: {answers: 16MiB}\npolicy: {timeout: 100s, allowed_hosts: [127.0.0.1]}\n")
	t.Cleanup(sync.OnceFunc(func() { close(hold) }))
	for range 6 {
		a := first.execute(t, target.URL+"/slow", "Prefer", "respond-async")
		require.Equal(t, http.StatusAccepted, a.Status, a.Body)
	}
	for range 3 {
		<-begun
	}
	a := second.execute(t, target.URL+"/fast")
	require.Equal(t, http.StatusOK, a.Status, "%.200s", a.Body)
	require.Empty(t, begun, "of the first tenant's other answers nothing more was read")
}
