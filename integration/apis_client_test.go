//go:build e2e

package integration_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/program"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// targetKey is the credential of every target. Weir adds it; no client has it.
const targetKey = "AGWCANARY-target-key-71c3"

// unchanged is a Weir, its targets, and a token for its clients.
type unchanged struct {
	*weir
	proxy     string // with the token, as HTTPS_PROXY has it
	ca        string // file: who signed the certificates of the targets, and what Weir signs with
	forge     *api   // plain HTTP
	secure    *api   // the same with TLS, whose tunnels are inspected
	registry  *api
	modules   *api
	payments  *api
	payTLS    *api // the same with TLS, whose tunnels are inspected
	git       *gitkit.Backend
	gitTLS    *httptest.Server
	integrity string
}

func newUnchanged(t *testing.T) *unchanged {
	t.Helper()
	authority := upstream.NewAuthority(t)
	ca, key := authority.Files()
	u := &unchanged{ca: ca}
	u.forge = newAPI(t, "forge", nil, codeForge("token "+targetKey))
	u.secure = newAPI(t, "secure", authority, codeForge("token "+targetKey))
	u.payments = newAPI(t, "payments", nil, newPayments("Bearer "+targetKey))
	u.payTLS = newAPI(t, "pay", authority, newPayments("Bearer "+targetKey))
	u.registry, u.integrity = newNPMRegistry(t, authority)
	u.modules = newGoProxy(t, authority)
	u.git = gitkit.NewBackend(t)
	u.git.Require(targetKey)
	u.gitTLS = httptest.NewUnstartedServer(u.git.Config.Handler)
	u.gitTLS.TLS = authority.Config("git.localhost")
	u.gitTLS.StartTLS()
	t.Cleanup(u.gitTLS.Close)
	basic := base64.StdEncoding.EncodeToString([]byte("weir:" + targetKey))
	admin := serveTokens(t, []string{"WEIR_SECRET_TARGET=" + targetKey, "WEIR_SECRET_GIT=" + basic, "SSL_CERT_FILE=" + ca}, t.TempDir(), fmt.Sprintf(`proxy: {listen: "127.0.0.1:0", ca_cert: %q, ca_key: %q}
policy:
  allowed_hosts: []
  allowlist:
    - {name: forge, url_prefix: "%s/", methods: [GET, POST], network: loopback, headers: {Authorization: "token ${secret:TARGET}"}, caller_params: [page, per_page]}
    - {name: secure, url_prefix: "%s/", methods: [GET, POST], network: loopback, headers: {Authorization: "token ${secret:TARGET}"}, connect: inspect}
    - {name: payments, url_prefix: "%s/v1/", methods: [GET, POST], network: loopback, headers: {Authorization: "Bearer ${secret:TARGET}"}, caller_headers: ["X-Stripe-*"], caller_params: [limit, starting_after], upstream_idempotency: {ttl: 24h}}
    - {name: pay, url_prefix: "%s/v1/", methods: [GET, POST], network: loopback, headers: {Authorization: "Bearer ${secret:TARGET}"}, caller_headers: ["X-Stripe-*"], caller_params: [limit, starting_after], upstream_idempotency: {ttl: 24h}, connect: inspect}
    - {name: git, url_prefix: "%s/", methods: [GET, POST], network: loopback, headers: {Authorization: "Basic ${secret:GIT}"}, caller_params: [service]}
    - {name: registry, url_prefix: "%s/", methods: [GET], network: loopback, connect: tunnel}
    - {name: modules, url_prefix: "%s/", methods: [GET], network: loopback, connect: tunnel}
    - {name: git-tls, url_prefix: "%s/", methods: [GET, POST], network: loopback, connect: tunnel}
`, ca, key, u.forge.URL, u.secure.URL, u.payments.URL, u.payTLS.URL, u.git.URL, u.registry.URL, u.modules.URL, named("git", u.gitTLS)))
	u.weir = admin.as(admin.MakeToken(t, schemas.TokenRequest{Name: "agent", Tenant: "agents", Scopes: []string{schemas.ScopeActionsWrite, schemas.ScopeEvidenceRead}}).Secret)
	u.proxy = strings.Replace(u.Proxy, "http://", "http://agent:"+u.Token+"@", 1)
	return u
}

// named is the URL of a server under a name below localhost.
func named(name string, s *httptest.Server) string {
	return strings.Replace(s.URL, "127.0.0.1", name+".localhost", 1)
}

// via is the base URL of an entry.
func (u *unchanged) via(entry string) string { return u.URL + "/via/" + entry }

// TestUnchangedClients runs programs and packages that know nothing of Weir. Each has another base
// URL, or a proxy in its environment, and does what it does without Weir. The targets receive the
// credential of their entry and never the token; each request and each tunnel leaves evidence.
func TestUnchangedClients(t *testing.T) {
	t.Parallel()
	u := newUnchanged(t)
	for name, client := range map[string]struct {
		attempts []string // entries that have attempts afterwards
		tunnels  []string // targets that have tunnels
		run      func(t *testing.T, u *unchanged)
	}{
		"octokit": {attempts: []string{"forge"}, run: octokit},
		"stripe": {attempts: []string{"payments"}, run: func(t *testing.T, u *unchanged) {
			t.Helper()
			stripe(t, u, u.payments, u.via("payments"))
		}},
		"stripe through the proxy": {attempts: []string{"pay"}, run: func(t *testing.T, u *unchanged) {
			t.Helper()
			stripe(t, u, u.payTLS, u.payTLS.URL, u.proxy)
		}},
		"curl":              {attempts: []string{"forge", "secure"}, tunnels: []string{u.registry.URL}, run: curl},
		"undici ProxyAgent": {attempts: []string{"secure"}, tunnels: []string{u.registry.URL}, run: undici},
		"npm ci": {tunnels: []string{u.registry.URL}, run: func(t *testing.T, u *unchanged) {
			t.Helper()
			npmCI(t, u.registry, u.integrity, u.ca, "HTTPS_PROXY="+u.proxy)
		}},
		"go mod download": {tunnels: []string{u.modules.URL}, run: func(t *testing.T, u *unchanged) {
			t.Helper()
			goModDownload(t, u.modules, "HTTPS_PROXY="+u.proxy, "SSL_CERT_FILE="+u.ca)
		}},
		"git":              {attempts: []string{"git"}, run: gitAbsolute},
		"git over CONNECT": {tunnels: []string{named("git", u.gitTLS)}, run: gitConnect},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client.run(t, u)
			for _, entry := range client.attempts {
				assert.NotEmpty(t, u.evidence(t, schemas.EvidenceAttempt, `"entry":"`+entry+`"`), "no evidence of attempts for %s", entry)
			}
			for _, target := range client.tunnels {
				assert.NotEmpty(t, u.evidence(t, schemas.EvidenceTunnel, strings.TrimPrefix(target, "https://")), "no evidence of tunnels to %s", target)
			}
		})
	}
	t.Cleanup(func() {
		for _, a := range []*api{u.forge, u.secure, u.payments, u.payTLS, u.registry, u.modules} {
			for _, r := range a.requests() {
				assert.NotContains(t, r.text(), u.Token, "a target received the token")
			}
		}
	})
}

// evidence are the records of a kind that contain a text.
func (u *unchanged) evidence(t *testing.T, kind, text string) (lines []string) {
	t.Helper()
	for _, item := range program.Items[json.RawMessage](t, u.Client, "/v1/evidence?limit=1000&kind="+kind) {
		require.NotContains(t, string(item), targetKey)
		if strings.Contains(string(item), text) {
			lines = append(lines, string(item))
		}
	}
	return lines
}

// node runs clients/apis.mjs and returns what it printed.
func node(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	program.Needs(t, filepath.Join("clients", "node_modules", "undici"), needsNPM)
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"apis.mjs"}, args...)...)
	cmd.Dir, cmd.Stderr, cmd.Env = "clients", t.Output(), append(os.Environ(), environ...)
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}

// octokit does the same with the API itself and through Weir.
func octokit(t *testing.T, u *unchanged) {
	t.Helper()
	type found map[string]any
	straight := fixture.Decode[found](t, node(t, nil, "octokit", u.forge.Direct, targetKey))
	through := fixture.Decode[found](t, node(t, nil, "octokit", u.via("forge"), u.Token))
	assert.Regexp(t, `^[0-9a-z-]+$`, through["action"])
	delete(through, "action")
	assert.True(t, straight["archive"] == through["archive"], "the archive differs") //nolint:testifylint // it is long
	delete(straight, "archive")
	delete(through, "archive")
	assert.Equal(t, straight, through)
}

// stripe does the same with an API of its own and through Weir: by another base URL, or by a proxy.
func stripe(t *testing.T, u *unchanged, target *api, base string, proxy ...string) {
	t.Helper()
	straight := newAPI(t, "straight", nil, newPayments("Bearer "+targetKey))
	assert.JSONEq(t, node(t, nil, "stripe", straight.Direct, targetKey), node(t, []string{"NODE_EXTRA_CA_CERTS=" + u.ca}, append([]string{"stripe", base, u.Token}, proxy...)...))
	forms := 0
	for _, r := range target.requests() {
		if r.Method == http.MethodPost && r.URL.Path == "/v1/customers" {
			forms++
			assert.NotEmpty(t, r.Header.Get("Idempotency-Key"))
		}
	}
	assert.Equal(t, 2, forms, "the repeat under the same key did not reach the target")
}

const login = `{"login":"weir-agent"}`

// curl uses passthrough, and the proxy for plain HTTP, a tunnel and an inspected tunnel.
func curl(t *testing.T, u *unchanged) {
	t.Helper()
	dir := t.TempDir()
	run := func(args ...string) string {
		return runClient(t, dir, nil, "curl", append([]string{"--silent", "--show-error", "--fail"}, args...)...)
	}
	token := "Authorization: Bearer " + u.Token
	assert.JSONEq(t, login, run("-H", token, u.via("forge")+"/user"))
	run("-H", token, "-o", "archive.gz", u.via("forge")+"/repos/acme/shop/tarball/main")
	got, err := os.ReadFile(filepath.Join(dir, "archive.gz"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(archive, got), "the archive differs")
	assert.JSONEq(t, login, run("--user", "agent:"+u.Token, u.via("forge")+"/user"))
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
	out := node(t, []string{"NODE_EXTRA_CA_CERTS=" + u.ca}, "undici", u.Proxy, u.Token, u.secure.URL+"/user", u.registry.URL+"/left", u.secure.URL+"/nothing")
	got := fixture.Decode[answers](t, out).Answers
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
