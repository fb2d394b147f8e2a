package app

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

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
	status, text, _ = caller{c.App, k.task.Token}.do(t, http.MethodGet, schemas.RouteAgentTask, "")
	require.Equal(t, http.StatusOK, status, text)
	status, text, _ = c.do(t, http.MethodGet, schemas.RouteTasks+"/"+k.task.ID, "")
	require.Equal(t, http.StatusOK, status, text)
	require.NoError(t, json.Unmarshal([]byte(text), &k.task.TaskView))
	require.NotEmpty(t, k.task.Base)
	return k
}

// pushing is a push on its way: half of it was sent, and the rest follows at 2 KiB/s.
type pushing struct {
	stop chan struct{} // no, it follows at once
	end  chan string   // what it was answered
}

// push begins a push of one commit.
func (k coder) push(t *testing.T) *pushing {
	t.Helper()
	noise := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(noise)
	pack, head := gitkit.GoodCommit(string(noise), k.task.Base)
	body := gitkit.PushBody(gitkit.Update{Old: k.task.Base, New: head, Ref: schemas.RefOf(k.task.Branch)}, pack)
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.URL()+schemas.RouteGit+"/"+k.repo+".git/"+schemas.GitReceivePack, r)
	require.NoError(t, err)
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	req.Header.Set("Authorization", "Bearer "+k.task.Token)
	p := &pushing{stop: make(chan struct{}), end: make(chan string, 1)}
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			p.end <- err.Error()
			return
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		p.end <- fmt.Sprint(resp.StatusCode, " ", string(answer))
	}()
	rest := body[len(body)/2:]
	_, _ = w.Write(body[:len(body)/2]) // fails where it is refused
	go func() {
		drop := time.NewTicker(time.Second)
		defer drop.Stop()
		for wait := true; wait; {
			select {
			case <-drop.C:
				n, _ := w.Write(rest[:min(2<<10, len(rest))])
				rest = rest[n:]
			case <-p.stop:
				wait = false
			case <-t.Context().Done():
				wait = false
			}
		}
		_, _ = w.Write(rest)
		_ = w.Close()
	}()
	return p
}

// finish sends the rest, and returns the answer.
func (p *pushing) finish() string {
	close(p.stop)
	return <-p.end
}

// running waits until so many actions of a kind run.
func (c caller) running(t *testing.T, kind schemas.Kind, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, text, _ := c.do(t, http.MethodGet, "/v1/actions?limit=100&kind="+string(kind), "")
		return strings.Count(text, `"status":"started"`) == n
	}, time.Minute, 20*time.Millisecond)
}

func (c caller) twoCoders(t *testing.T) (first, second caller) {
	t.Helper()
	first, _ = c.grant(t, `{"name":"first","tenant":"first","scopes":["tasks:write","actions:write","actions:read"]}`)
	second, _ = c.grant(t, `{"name":"second","tenant":"second","scopes":["tasks:write","actions:write","actions:read"]}`)
	return first, second
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
	a := newApp(t, withTokens+fmt.Sprintf(`
policy:
  allowlist:
    - {name: slow, url_prefix: "%s/", methods: [GET, POST], network: loopback}
    - {name: fast, url_prefix: "%s/", methods: [GET, POST], network: loopback}
`, slow.URL, fast.URL))
	t.Cleanup(func() { close(hold) }) // before the app is stopped
	first, second := a.admin(t).twoCoders(t)
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

// TestOneTenantDoesNotTakeEveryWorkerOfPushes: another tenant's push finds one while as many of a tenant's stand still as may.
func TestOneTenantDoesNotTakeEveryWorkerOfPushes(t *testing.T) {
	t.Parallel()
	a := newApp(t, withTokens+"workers: {slots: 4}\n")
	first, second := a.admin(t).twoCoders(t)
	k, other := first.coder(t, "shop"), second.coder(t, "shop")
	pushes := []*pushing{k.push(t), k.push(t), k.push(t)}
	first.running(t, schemas.KindPush, 3)
	answer := k.push(t).finish()
	for _, part := range []string{"429", "RATE_LIMITED", "workers.slots", "limits.tenant_share", "this tenant has 3 pushes"} {
		require.Contains(t, answer, part)
	}
	require.Contains(t, other.push(t).finish(), "unpack ok")
	first.running(t, schemas.KindPush, 3)
	require.Contains(t, pushes[0].finish(), "unpack ok")
	for _, p := range pushes[1:] {
		p.finish()
	}
}
