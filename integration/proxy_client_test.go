//go:build e2e

package integration_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
)

const login = `{"login":"weir-agent"}`

// curl uses passthrough, and the proxy for plain HTTP, a tunnel and an inspected tunnel.
func curl(t *testing.T, u *unchanged) {
	t.Helper()
	dir := t.TempDir()
	run := func(args ...string) string {
		return runClient(t, dir, nil, "curl", append([]string{"--silent", "--show-error", "--fail"}, args...)...)
	}
	token := "Authorization: Bearer " + u.token
	assert.JSONEq(t, login, run("-H", token, u.via("forge")+"/user"))
	run("-H", token, "-o", "archive.gz", u.via("forge")+"/repos/acme/shop/tarball/main")
	got, err := os.ReadFile(filepath.Join(dir, "archive.gz"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(archive, got), "the archive differs")
	assert.JSONEq(t, login, run("--user", "agent:"+u.token, u.via("forge")+"/user"))
	assert.JSONEq(t, login, run("-x", u.proxy, u.forge.URL+"/user"))
	assert.Contains(t, run("-x", u.proxy, "--cacert", u.ca, u.registry.URL+"/left"), u.integrity)
	assert.JSONEq(t, login, run("-x", u.proxy, "--cacert", u.ca, u.secure.URL+"/user"))
}

// undici tunnels to both kinds of entries.
func undici(t *testing.T, u *unchanged) {
	t.Helper()
	type answers struct {
		Answers []struct {
			Status int    `json:"status"`
			Text   string `json:"text"`
		} `json:"answers"`
	}
	out := node(t, []string{"NODE_EXTRA_CA_CERTS=" + u.ca}, "undici", u.Proxy, u.token, u.secure.URL+"/user", u.registry.URL+"/left", u.secure.URL+"/nothing")
	got := decode[answers](t, out).Answers
	require.Len(t, got, 3)
	assert.JSONEq(t, login, got[0].Text)
	assert.Contains(t, got[1].Text, u.integrity)
	assert.Equal(t, http.StatusNotFound, got[2].Status, "the target's own answer")
}

// gitAbsolute clones and pushes as actions: Weir adds the password.
func gitAbsolute(t *testing.T, u *unchanged) {
	t.Helper()
	from, _ := gitkit.NewRepo(t)
	url, dir := u.git.Add(t, "plain.git", from)
	cloneAndPush(t, url, dir, "-c", "http.proxy="+u.proxy, "-c", "http.proxyAuthMethod=basic")
}

// gitConnect clones and pushes through a tunnel: git has the password itself.
func gitConnect(t *testing.T, u *unchanged) {
	t.Helper()
	from, _ := gitkit.NewRepo(t)
	_, dir := u.git.Add(t, "tunnel.git", from)
	url := named("git:"+targetKey+"@git", u.gitTLS) + "/tunnel.git"
	cloneAndPush(t, url, dir, "-c", "http.proxy="+u.proxy, "-c", "http.proxyAuthMethod=basic", "-c", "http.sslCAInfo="+u.ca)
}

func cloneAndPush(t *testing.T, url, dir string, settings ...string) {
	t.Helper()
	g := newClientGit(t, "")
	g.do(t, ".", append(settings, "clone", "-q", url, "repo")...)
	head := g.commit(t, "shed", []byte("red\n"))
	g.do(t, "repo", append(settings, "push", "-q", "origin", "HEAD:refs/heads/paint")...)
	assert.Equal(t, head, gitkit.Git(t, dir, "rev-parse", "refs/heads/paint"))

	// git compresses a request that names many commits. It names the newest first, until one is known.
	g.env = []string{"GIT_COMMITTER_DATE=4000000000 +0000"}
	for range 32 {
		g.do(t, "repo", "commit", "-q", "--allow-empty", "-m", "Local")
	}
	tip := gitkit.Git(t, dir, "commit-tree", "-p", head, "-m", "Remote", head+"^{tree}")
	gitkit.Git(t, dir, "update-ref", "refs/heads/remote", tip)
	g.trace = true
	assert.Contains(t, g.do(t, "repo", append(settings, "fetch", "origin", "remote")...), "=> Send header: Content-Encoding: gzip")
	g.trace = false
	assert.Equal(t, tip, g.do(t, "repo", "rev-parse", "FETCH_HEAD"))
}
