//go:build e2e

package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestGitClone: by protocol v2, and by v0 for those who have nothing else; shallow, which
// can be pushed from, and partial.
func TestGitClone(t *testing.T) {
	t.Parallel()
	w, task, g := serveShop(t, "", "")
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
	assert.Equal(t, head, w.task(t, task.ID).Head, "a push need not have all that it is built on")
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
	w, task, g := serveShop(t, "git: {max_pack: 1MiB}\n", `,"branch":"paint"`)
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
	assert.Equal(t, first, w.task(t, task.ID).Head, "nothing was moved")
	audits := evidenceOf[schemas.PushAudit](t, w, schemas.EvidencePush, "")
	results := map[string]int{}
	for _, a := range audits {
		results[a.Result]++
	}
	assert.Equal(t, []int{9, 6, 1}, []int{len(audits), results[string(schemas.GitRefDenied)], results[string(schemas.GitPackTooLarge)]})
}

// TestGitTellsWhoMayNot: the person at git reads what is wrong. The token of a task that has
// ended is none, and the task's branch stays.
func TestGitTellsWhoMayNot(t *testing.T) {
	t.Parallel()
	w, task, g := serveShop(t, "", "")
	w.makeRepo(t, "other")
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

	status, text := w.asAgent(t, task.Token, http.MethodPost, schemas.RouteAgentComplete, `{"description":"done"}`)
	require.Equal(t, http.StatusOK, status, text)
	out, err := password.run(t.Context(), ".", "ls-remote", remote)
	require.Error(t, err)
	assert.Contains(t, out, "Authentication failed")
	g.commit(t, "b", []byte("b"))
	for _, args := range [][]string{{"push", "origin", "HEAD"}, {"fetch", "origin"}} {
		out, err = g.run(t.Context(), "repo", args...)
		require.Error(t, err, args)
		assert.Contains(t, out, "terminal prompts disabled", "%v: git would ask for another token", args)
	}
	v := w.task(t, task.ID)
	assert.Equal(t, []any{head, schemas.TaskStatusCompleted}, []any{v.Head, v.Status})
}

// TestGitLargePush: a pack of 128 MiB goes through, and none of the memory is its.
func TestGitLargePush(t *testing.T) {
	t.Parallel()
	const size = 128 << 20
	w, task, g := serveShop(t, "", "")
	g.do(t, "repo", "config", "core.compression", "0")
	head := g.commit(t, "large", noise(7, size))
	before := memory(t, w.PID(), "VmHWM")
	g.do(t, "repo", "push", "-q", "origin", "HEAD")
	assert.Equal(t, head, w.task(t, task.ID).Head)
	assert.Less(t, memory(t, w.PID(), "VmHWM")-before, int64(64<<20), "the pack is nowhere in memory")
	audits := evidenceOf[schemas.PushAudit](t, w, schemas.EvidencePush, "")
	require.Len(t, audits, 1)
	assert.Greater(t, audits[0].Bytes, int64(size))
	reader := newClientGit(t, task.Token)
	reader.do(t, ".", "clone", "-q", "--no-checkout", "-b", task.Branch, w.gitURL("shop"), "copy")
	assert.Equal(t, head, reader.do(t, "copy", "rev-parse", "HEAD"))
	assert.Less(t, memory(t, w.PID(), "VmHWM")-before, int64(64<<20), "nor is one that is fetched")
}
