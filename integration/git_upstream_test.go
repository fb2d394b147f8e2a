//go:build e2e

package integration_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// forge is a git server elsewhere that wants a password, and a Weir that has it.
type forge struct {
	*gitkit.Backend
	w        *weir
	url, dir string // of the repository "shop", on the server and on its disk
	head     string
}

const forgePassword = "AGWCANARY-forge-password"

func newForge(t *testing.T) *forge {
	t.Helper()
	f := &forge{Backend: gitkit.NewBackend(t)}
	from, head := gitkit.NewRepo(t)
	f.head = head
	f.url, f.dir = f.Add(t, "shop.git", from)
	f.Require(forgePassword)
	config := filepath.Join(t.TempDir(), "weir.yaml")
	require.NoError(t, os.WriteFile(config, []byte(fmt.Sprintf(`
policy:
  allowed_hosts: []
  allowlist:
    - name: forge
      url_prefix: %s/shop.git/
      methods: [GET, POST]
      network: loopback
      headers: {Authorization: "Basic ${secret:FORGE}"}
`, f.URL)), 0o600))
	secret := base64.StdEncoding.EncodeToString([]byte("weir:" + forgePassword))
	w, err := tryServe(program.How{Environ: []string{"WEIR_SECRET_FORGE=" + secret}}, t.TempDir(), "--config", config)
	require.NoError(t, err)
	t.Cleanup(func() {
		w.Kill()
		assert.NotContains(t, w.Said(), secret)
		assert.NotContains(t, w.Said(), forgePassword)
	})
	f.w = w
	return f
}

func (f *forge) make(t *testing.T, how string) (int, string) {
	t.Helper()
	resp, text := f.w.request(t, http.MethodPost, schemas.RouteRepos, how)
	return resp.StatusCode, text
}

// TestGitUpstream: a repository that stays where it is. The agent never sees its
// server or its password, and its pushes go to one branch there.
func TestGitUpstream(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	status, text := f.make(t, fmt.Sprintf(`{"name":"shop","upstream_url":%q,"allowlist_key":"forge"}`, f.url))
	require.Equal(t, http.StatusCreated, status, text)
	assert.Contains(t, text, `"mode":"proxy"`)
	task := f.w.makeTask(t, `,"branch":"paint"`)
	g := f.w.begin(t, task)
	require.Equal(t, f.head, g.do(t, "repo", "rev-parse", "HEAD"), "it begins at the upstream's branch")
	require.NotContains(t, g.do(t, "repo", "remote", "-v"), f.URL)

	head := g.commit(t, "shed", []byte("red\n"))
	g.do(t, "repo", "push", "-q", "origin", "HEAD")
	assert.Equal(t, head, gitkit.Git(t, f.dir, "rev-parse", "refs/heads/paint"))
	assert.Equal(t, head, f.w.task(t, task.ID).Head)

	before := len(f.Requests())
	out, err := g.run(t.Context(), "repo", "push", "origin", "HEAD:refs/heads/sneaky")
	require.Error(t, err)
	assert.Contains(t, out, "error: ")
	for _, r := range f.Requests()[before:] {
		assert.NotContains(t, r, "POST", "the upstream has not seen a byte of a push that is refused")
	}

	g.do(t, ".", "clone", "-q", "--depth", "1", "-b", "paint", f.w.gitURL("shop"), "again")
	assert.Equal(t, head, g.do(t, "again", "rev-parse", "HEAD"))
	assert.NotContains(t, g.do(t, "again", "ls-remote"), "refs/heads/sneaky")

	audits := evidenceOf[schemas.PushAudit](t, f.w, schemas.EvidencePush, "")
	require.Len(t, audits, 2)
	resp, calls := f.w.request(t, http.MethodGet, "/v1/evidence?kind="+schemas.EvidenceAttempt, "", "Accept", "application/json")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Contains(t, calls, `"entry":"forge"`, "every call to the upstream leaves evidence")
	assert.NotContains(t, calls, "AGWCANARY")
}

// TestGitUpstreamThatPolicyDenies: there is no way there, whatever is asked for.
func TestGitUpstreamThatPolicyDenies(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	for _, how := range []string{
		`{"name":"a","upstream_url":"%s/other.git"}`, `{"name":"b","import_url":"%s/other.git"}`,
		`{"name":"c","import_url":"http://169.254.169.254/latest%s"}`, `{"name":"d","import_url":"file:///etc%s"}`, `{"name":"e","import_url":"ext::sh -c id%s"}`,
	} {
		status, text := f.make(t, fmt.Sprintf(how, f.URL))
		if strings.Contains(how, "latest%s") || strings.Contains(how, "etc%s") || strings.Contains(how, "id%s") {
			status, text = f.make(t, strings.ReplaceAll(how, "%s", ""))
		}
		assert.GreaterOrEqual(t, status, http.StatusBadRequest, text)
		assert.Less(t, status, http.StatusInternalServerError, text)
	}
	for _, r := range f.Requests() {
		assert.NotContains(t, r, "other.git")
	}
	resp, text := f.w.request(t, http.MethodGet, schemas.RouteRepos, "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Contains(t, text, `"items":[]`)
}

// TestGitImport: copied once, and then it is ours.
func TestGitImport(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	status, text := f.make(t, fmt.Sprintf(`{"name":"shop","import_url":%q}`, f.url))
	require.Equal(t, http.StatusCreated, status, text)
	assert.Contains(t, text, `"mode":"hosted"`)
	asked := len(f.Requests())
	require.NotZero(t, asked)
	task := f.w.makeTask(t, "")
	g := f.w.begin(t, task)
	require.Equal(t, f.head, g.do(t, "repo", "rev-parse", "HEAD"))
	g.commit(t, "shed", []byte("red\n"))
	g.do(t, "repo", "push", "-q", "origin", "HEAD")
	assert.Len(t, f.Requests(), asked, "nobody asks the server any more")
}

// TestRulesOfATask: traffic rules see whose task a call is made for.
func TestRulesOfATask(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	status, text := f.make(t, fmt.Sprintf(`{"name":"shop","upstream_url":%q}`, f.url))
	require.Equal(t, http.StatusCreated, status, text)
	one, other := f.w.makeTask(t, `,"request_id":"one"`), f.w.makeTask(t, `,"request_id":"other"`)
	g, h := f.w.begin(t, one), f.w.begin(t, other)
	resp, text := f.w.request(t, http.MethodPost, schemas.RouteAgentAPI, `{"request_id":"r","operation":"status","args":{}}`)
	require.Equal(t, http.StatusOK, resp.StatusCode, text)
	etag := decode[struct {
		Data struct {
			Etag string `json:"rules_etag"`
		} `json:"data"`
	}](t, text).Data.Etag
	resp, text = f.w.request(t, http.MethodPost, schemas.RouteAgentAPI, fmt.Sprintf(`{"request_id":"w","operation":"rules.create","args":{"if_match":%q,"rule":{
		"id":"away","type":"mock","match":{"url_pattern":"*"},"action":{"status":503,"body_mode":"text","body":"away"},"scope":{"task_id":"one"}}}}`, etag))
	require.Equal(t, http.StatusOK, resp.StatusCode, text)
	_, err := g.run(t.Context(), "repo", "fetch", "origin")
	require.Error(t, err, "the rule answers in the upstream's place")
	h.do(t, "repo", "fetch", "-q", "origin")
}
