//go:build e2e

package integration_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestGitClone: by protocol v2, and by v0 for those who have nothing else; shallow, which
// can be pushed from, and partial.
func TestGitClone(t *testing.T) {
	t.Parallel()
	w, task, g := serveShop(t, "", nil)
	for i := range 3 {
		g.commit(t, "text", fmt.Appendf(nil, "%stext %d\n", strings.Repeat("one line and another\n", 5000), i)) // a delta of the one before
	}
	assert.Contains(t, g.do(t, "repo", "push", "--progress", "origin", "HEAD"), "remote: Resolving deltas: 100%", "git's own work on this side")
	url := w.gitURL("shop")

	g.trace = true
	assert.Contains(t, g.do(t, ".", "-c", "protocol.version=2", "clone", "-b", task.Branch, url, "v2"), "version 2")
	assert.NotContains(t, g.do(t, ".", "-c", "protocol.version=0", "clone", "-b", task.Branch, url, "v0"), "version 2")
	g.trace = false
	require.Equal(t, g.do(t, "v2", "rev-parse", "HEAD"), g.do(t, "v0", "rev-parse", "HEAD"))

	g.do(t, ".", "clone", "-q", "--depth", "1", "-b", task.Branch, url, "shallow")
	assert.Equal(t, "1", g.do(t, "shallow", "rev-list", "--count", "HEAD"))
	g.do(t, "shallow", "fetch", "-q", "--unshallow")
	assert.Equal(t, "4", g.do(t, "shallow", "rev-list", "--count", "HEAD"))
	pusher := newClientGit(t, task.Token)
	pusher.do(t, ".", "clone", "-q", "--depth=1", "-b", task.Branch, url, "repo")
	head := pusher.commit(t, "more", []byte("text\n"))
	pusher.do(t, "repo", "push", "-q", "origin", "HEAD")
	assert.Equal(t, head, w.Task(t, task.ID).Head, "a push need not have all that it is built on")
	g.do(t, "repo", "pull", "-q")
	assert.Equal(t, "5", g.do(t, "repo", "rev-list", "--count", "HEAD"), "and the history is whole")

	g.do(t, ".", "clone", "-q", "--no-checkout", "--filter=blob:none", "-b", task.Branch, url, "partial")
	assert.Contains(t, g.do(t, "partial", "rev-list", "--objects", "--all", "--missing=print"), "\n?", "blobs are left where they are")
	g.do(t, "partial", "checkout", "-q", task.Branch)
	assert.True(t, strings.HasSuffix(g.do(t, "partial", "show", "HEAD:text"), "text 2"))
	out, err := g.run(t.Context(), ".", "clone", "--filter=tree:0", url, "treeless")
	require.Error(t, err, out)
}

// TestGitRefusesWithAReason: whatever a push asks for beyond an update of the task's own branch is
// refused, as is a pack that is too large, and the person at git reads why.
func TestGitRefusesWithAReason(t *testing.T) {
	t.Parallel()
	w, task, g := serveShop(t, "git: {max_pack: 1MiB}\n", map[string]any{"branch": "paint"})
	first := g.commit(t, "a", []byte("a"))
	g.do(t, "repo", "push", "-q", "origin", "HEAD")
	g.do(t, "repo", "tag", "v1")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"main":         {[]string{"origin", "HEAD:main"}, "error: "},
		"a new branch": {[]string{"origin", "HEAD:other"}, "error: "},
		"a tag":        {[]string{"origin", "v1"}, "error: "},
		"deleted":      {[]string{"origin", ":paint"}, "error: "},
		"two refs":     {[]string{"origin", "HEAD:paint", "HEAD:main"}, "error: "},
	} {
		out, err := g.run(t.Context(), "repo", append([]string{"push"}, c.args...)...)
		require.Error(t, err, name)
		assert.Contains(t, out, c.want, name)
		assert.Contains(t, out, "paint", "%s: it names the branch that may be pushed to", name)
	}
	g.do(t, "repo", "reset", "-q", "--hard", "HEAD~1")
	g.commit(t, "b", []byte("b"))
	out, err := g.run(t.Context(), "repo", "push", "--force", "origin", "HEAD")
	require.Error(t, err)
	assert.Contains(t, out, "force_push", "it says what would let it")
	g.commit(t, "large", noise(6, 8<<20))
	out, err = g.run(t.Context(), "repo", "push", "origin", "HEAD:main")
	require.Error(t, err)
	assert.Contains(t, out, "paint", "who sends much is heard out, or would not hear why")
	g.do(t, "repo", "reset", "-q", "--hard", first)
	g.commit(t, "larger", noise(8, 12<<20))
	out, err = g.run(t.Context(), "repo", "push", "origin", "HEAD")
	require.Error(t, err)
	assert.Contains(t, out, "larger than is allowed")
	assert.Equal(t, first, w.Task(t, task.ID).Head, "nothing was moved")
	pushes := w.pushes(t)
	n := results(pushes)
	assert.Equal(t, []int{9, 6, 1}, []int{len(pushes), n[string(schemas.GitRefDenied)], n[string(schemas.GitPackTooLarge)]})
}

// TestGitTellsWhoMayNot: the person at git reads what is wrong. The token of a task that has
// ended is none, and the task's branch stays.
func TestGitTellsWhoMayNot(t *testing.T) {
	t.Parallel()
	w, task, g := serveShop(t, "", nil)
	w.MakeRepo(t, map[string]any{"name": "other"})
	head := g.commit(t, "a", []byte("a"))
	g.do(t, "repo", "push", "-q", "origin", "HEAD")
	const hidden = "remote: there is no such repository, or this token may not see it (NOT_FOUND)"
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a version that is not served": {[]string{"-c", "protocol.version=1", "ls-remote", w.gitURL("shop")}, "remote: this version of git's protocol is not served; set protocol.version to 2"},
		"another repository":           {[]string{"ls-remote", w.gitURL("other")}, hidden},
		"none":                         {[]string{"ls-remote", w.gitURL("none")}, hidden},
	} {
		out, err := g.run(t.Context(), ".", c.args...)
		require.Error(t, err, name)
		assert.Contains(t, out, c.want, name)
	}
	password := newClientGit(t, "")
	remote := strings.Replace(w.gitURL("shop"), "http://", "http://agent:"+task.Token+"@", 1)
	assert.Contains(t, password.do(t, ".", "ls-remote", remote), "refs/heads/"+task.Branch, "a token may be a password")

	w.As(task.Token).Must(t, http.StatusOK, http.MethodPost, schemas.RouteAgentComplete, `{"description":"done"}`)
	out, err := password.run(t.Context(), ".", "ls-remote", remote)
	require.Error(t, err)
	assert.Contains(t, out, "Authentication failed")
	g.commit(t, "b", []byte("b"))
	for _, args := range [][]string{{"push", "origin", "HEAD"}, {"fetch", "origin"}} {
		out, err = g.run(t.Context(), "repo", args...)
		require.Error(t, err, args)
		assert.Contains(t, out, "terminal prompts disabled", "%v: git would ask for another token", args)
	}
	v := w.Task(t, task.ID)
	assert.Equal(t, []any{head, schemas.TaskStatusCompleted}, []any{v.Head, v.Status})
}

// TestGitLargePush: a pack of 128 MiB goes through, and none of the memory is its.
func TestGitLargePush(t *testing.T) {
	t.Parallel()
	const size = 128 << 20
	w, task, g := serveShop(t, "", nil)
	g.do(t, "repo", "config", "core.compression", "0")
	head := g.commit(t, "large", noise(7, size))
	before := memory(t, w.PID(), "VmHWM")
	g.do(t, "repo", "push", "-q", "origin", "HEAD")
	assert.Equal(t, head, w.Task(t, task.ID).Head)
	assert.Less(t, memory(t, w.PID(), "VmHWM")-before, int64(64<<20), "the pack is nowhere in memory")
	audits := w.pushes(t)
	require.Len(t, audits, 1)
	assert.Greater(t, audits[0].Bytes, int64(size))
	reader := newClientGit(t, task.Token)
	reader.do(t, ".", "clone", "-q", "--no-checkout", "-b", task.Branch, w.gitURL("shop"), "copy")
	assert.Equal(t, head, reader.do(t, "copy", "rev-parse", "HEAD"))
	assert.Less(t, memory(t, w.PID(), "VmHWM")-before, int64(64<<20), "nor is one that is fetched")
}

// TestGitOnACluster: of three nodes one has the repositories. It executes every push that it accepts,
// at once. If it is killed meanwhile, it ends the push when it is back.
func TestGitOnACluster(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))
	log := fmt.Sprintf("log: {partitions: 1, replicas: 1, durability: process}\nnats: {url: %q}\n", s.ClientURL())
	repos := t.TempDir()
	own := configFile(t, log+fmt.Sprintf("git: {dir: %q}\n", repos))
	w := serve(t, t.TempDir(), "--config", own)
	for range 2 {
		serve(t, t.TempDir(), "--config", configFile(t, log))
	}
	w.MakeRepo(t, map[string]any{"name": "shop"})
	task := w.makeTask(t, nil)
	g := w.begin(t, task)
	for i := range 5 {
		head := g.commit(t, fmt.Sprint("file-", i), []byte("text\n"))
		begun := time.Now()
		g.do(t, "repo", "push", "-q", "origin", "HEAD")
		t.Logf("pushed in %v", time.Since(begun))
		assert.Equal(t, head, w.Task(t, task.ID).Head)
	}

	old := g.do(t, "repo", "rev-parse", "HEAD")
	head := g.commit(t, "noise", noise(41, 1<<20))
	pack := gitkit.PackOf(t, filepath.Join(g.dir, "repo"), false, head, old)
	half := w.pushHalf(t, task, gitkit.PushBody(gitkit.Update{Old: old, New: head, Ref: schemas.RefOf(task.Branch)}, pack))
	poll.Until(t, func() bool {
		return strings.Contains(w.Ask(t, http.MethodGet, "/v1/actions?kind=push", "").Body, `"status":"started"`)
	}, "the push to have begun")
	w.Kill()
	half.leave()
	w = serve(t, t.TempDir(), "--config", own)
	poll.Until(t, func() bool {
		return len(w.pushes(t)) == 6
	}, "the push to end")
	assert.Equal(t, map[string]int{schemas.AuditOK: 5, string(schemas.GitIncomplete): 1}, results(w.pushes(t)))
	assert.Empty(t, quarantined(t, filepath.Join(repos, "repos")), "nothing of it is left")
	assert.Equal(t, old, w.Task(t, task.ID).Head)
	g.do(t, "repo", "push", "-q", w.gitURL("shop"), "HEAD:"+task.Branch)
	assert.Equal(t, head, w.Task(t, task.ID).Head)
}

// TestGitUpstream: a repository that stays where it is, on a server that wants a password. The
// agent never sees its server or its password, and its pushes go to one branch there.
func TestGitUpstream(t *testing.T) {
	t.Parallel()
	const password = "AGWCANARY-forge-password"
	forge := gitkit.NewBackend(t)
	from, first := gitkit.NewRepo(t)
	url, dir := forge.Add(t, "shop.git", from)
	forge.Require(password)
	config := configFile(t, fmt.Sprintf(`policy:
  allowed_hosts: []
  allowlist:
    - {name: forge, url_prefix: "%s/shop.git/", methods: [GET, POST], network: loopback, headers: {Authorization: "Basic ${secret:FORGE}"}}
`, forge.URL))
	secret := base64.StdEncoding.EncodeToString([]byte("weir:" + password))
	w := serveWith(t, []string{"WEIR_SECRET_FORGE=" + secret}, t.TempDir(), "--config", config)
	text := w.Must(t, http.StatusCreated, http.MethodPost, schemas.RouteRepos, fmt.Sprintf(`{"name":"shop","upstream_url":%q,"allowlist_key":"forge"}`, url))
	assert.Contains(t, text, `"mode":"proxy"`)
	task := w.makeTask(t, map[string]any{"branch": "paint"})
	g := w.begin(t, task)
	require.Equal(t, first, g.do(t, "repo", "rev-parse", "HEAD"), "it begins at the upstream's branch")
	require.NotContains(t, g.do(t, "repo", "remote", "-v"), forge.URL)

	head := g.commit(t, "shed", []byte("red\n"))
	g.do(t, "repo", "push", "-q", "origin", "HEAD")
	assert.Equal(t, head, gitkit.Git(t, dir, "rev-parse", "refs/heads/paint"))
	assert.Equal(t, head, w.Task(t, task.ID).Head)

	before := len(forge.Requests())
	out, err := g.run(t.Context(), "repo", "push", "origin", "HEAD:refs/heads/sneaky")
	require.Error(t, err)
	assert.Contains(t, out, "error: ")
	for _, r := range forge.Requests()[before:] {
		assert.NotContains(t, r, "POST", "the upstream has not seen a byte of a push that is refused")
	}

	g.do(t, ".", "clone", "-q", "--depth", "1", "-b", "paint", w.gitURL("shop"), "again")
	assert.Equal(t, head, g.do(t, "again", "rev-parse", "HEAD"))
	assert.NotContains(t, g.do(t, "again", "ls-remote"), "refs/heads/sneaky")

	require.Len(t, w.pushes(t), 2)
	calls := w.Must(t, http.StatusOK, http.MethodGet, "/v1/evidence?kind="+schemas.EvidenceAttempt, "", "Accept", "application/json")
	assert.Contains(t, calls, `"entry":"forge"`, "every call to the upstream leaves evidence")
	assert.NotContains(t, calls, "AGWCANARY")
	for _, hidden := range []string{secret, password} {
		assert.NotContains(t, w.Said(), hidden)
	}
}
