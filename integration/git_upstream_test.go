//go:build e2e

package integration_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

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
	w, err := tryServe(program.How{Environ: []string{"WEIR_SECRET_FORGE=" + secret}}, t.TempDir(), "--config", config)
	require.NoError(t, err)
	endWith(t, w)
	resp, text := w.request(t, http.MethodPost, schemas.RouteRepos, fmt.Sprintf(`{"name":"shop","upstream_url":%q,"allowlist_key":"forge"}`, url))
	require.Equal(t, http.StatusCreated, resp.StatusCode, text)
	assert.Contains(t, text, `"mode":"proxy"`)
	task := w.makeTask(t, `,"branch":"paint"`)
	g := w.begin(t, task)
	require.Equal(t, first, g.do(t, "repo", "rev-parse", "HEAD"), "it begins at the upstream's branch")
	require.NotContains(t, g.do(t, "repo", "remote", "-v"), forge.URL)

	head := g.commit(t, "shed", []byte("red\n"))
	g.do(t, "repo", "push", "-q", "origin", "HEAD")
	assert.Equal(t, head, gitkit.Git(t, dir, "rev-parse", "refs/heads/paint"))
	assert.Equal(t, head, w.task(t, task.ID).Head)

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

	audits := evidenceOf[schemas.PushAudit](t, w, schemas.EvidencePush, "")
	require.Len(t, audits, 2)
	resp, calls := w.request(t, http.MethodGet, "/v1/evidence?kind="+schemas.EvidenceAttempt, "", "Accept", "application/json")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Contains(t, calls, `"entry":"forge"`, "every call to the upstream leaves evidence")
	assert.NotContains(t, calls, "AGWCANARY")
	for _, hidden := range []string{secret, password} {
		assert.NotContains(t, w.Said(), hidden)
	}
}
