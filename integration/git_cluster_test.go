//go:build e2e

package integration_test

import (
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
	w.makeRepo(t, "shop")
	task := w.makeTask(t, "")
	g := w.begin(t, task)
	for i := range 5 {
		head := g.commit(t, fmt.Sprint("file-", i), []byte("text\n"))
		begun := time.Now()
		g.do(t, "repo", "push", "-q", "origin", "HEAD")
		t.Logf("pushed in %v", time.Since(begun))
		assert.Equal(t, head, w.task(t, task.ID).Head)
	}

	old := g.do(t, "repo", "rev-parse", "HEAD")
	head := g.commit(t, "noise", noise(41, 1<<20))
	pack := gitkit.PackOf(t, filepath.Join(g.dir, "repo"), false, head, old)
	half := w.pushHalf(t, "shop", task, gitkit.PushBody(gitkit.Update{Old: old, New: head, Ref: schemas.RefOf(task.Branch)}, pack))
	poll.Until(t, func() bool {
		_, text := w.request(t, http.MethodGet, "/v1/actions?kind=push", "")
		return strings.Contains(text, `"status":"started"`)
	}, "the push to have begun")
	w.Kill()
	half.leave()
	w = serve(t, t.TempDir(), "--config", own)
	poll.Until(t, func() bool {
		return len(evidenceOf[schemas.PushAudit](t, w, schemas.EvidencePush, "")) == 6
	}, "the push to end")
	results := map[string]int{}
	for _, a := range evidenceOf[schemas.PushAudit](t, w, schemas.EvidencePush, "") {
		results[a.Result]++
	}
	assert.Equal(t, map[string]int{schemas.AuditOK: 5, string(schemas.GitIncomplete): 1}, results)
	assert.Empty(t, quarantined(t, filepath.Join(repos, "repos")), "nothing of it is left")
	assert.Equal(t, old, w.task(t, task.ID).Head)
	g.do(t, "repo", "push", "-q", w.gitURL("shop"), "HEAD:"+task.Branch)
	assert.Equal(t, head, w.task(t, task.ID).Head)
}
