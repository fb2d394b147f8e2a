//go:build e2e

package integration_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
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

// netHTTP is Go's client with a base URL, and with a proxy.
func netHTTP(t *testing.T, u *unchanged) {
	t.Helper()
	proxy, err := url.Parse(u.proxy)
	require.NoError(t, err)
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: u.pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	proxied := &http.Client{Transport: transport}
	for _, url := range []string{u.forge.URL + "/user", u.secure.URL + "/user"} {
		assert.JSONEq(t, login, fetch(t, proxied, http.MethodGet, url, nil))
	}
	assert.Contains(t, fetch(t, proxied, http.MethodGet, u.registry.URL+"/left", nil), u.integrity)
	issue := []byte(`{"title":"Sold out"}`)
	assert.Contains(t, fetch(t, proxied, http.MethodPost, u.secure.URL+"/repos/acme/shop/issues", issue), "Sold out")
	assert.Contains(t, fetch(t, http.DefaultClient, http.MethodPost, u.via("forge")+"/repos/acme/shop/issues", issue, "Authorization", "Bearer "+u.token), "Sold out")
}

// fetch sends a request and returns the body of its answer, which must be a success.
func fetch(t *testing.T, client *http.Client, method, url string, body []byte, header ...string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Less(t, resp.StatusCode, http.StatusMultipleChoices, "%s", text)
	return string(text)
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

	for range 32 { // git compresses a request that names many commits
		g.do(t, "repo", "commit", "-q", "--allow-empty", "-m", "Local")
	}
	tip := gitkit.Git(t, dir, "commit-tree", "-p", head, "-m", "Remote", head+"^{tree}")
	gitkit.Git(t, dir, "update-ref", "refs/heads/remote", tip)
	g.trace = true
	assert.Contains(t, g.do(t, "repo", append(settings, "fetch", "origin", "remote")...), "=> Send header: Content-Encoding: gzip")
	g.trace = false
	assert.Equal(t, tip, g.do(t, "repo", "rev-parse", "FETCH_HEAD"))
}
