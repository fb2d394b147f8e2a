//go:build e2e

package integration_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/weirtest/disk"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// TestGitDiskIsFull: with no room under the repositories a push is refused, and the person at
// git reads why; nothing of it is left behind. All else goes on, and with room again so do
// pushes.
func TestGitDiskIsFull(t *testing.T) { //nolint:paralleltest // its process is its own
	if why := disk.Unavailable(); why != "" {
		t.Logf("form: none here: %s", why)
		return
	}
	if !disk.Inside(t) {
		return
	}
	dir, target := t.TempDir(), upstream.New(t)
	repos := filepath.Join(dir, "git")
	require.NoError(t, os.Mkdir(repos, 0o700))
	require.NoError(t, unix.Mount("tmpfs", repos, "tmpfs", 0, "size=24m"))
	defer func() { require.NoError(t, unix.Unmount(repos, unix.MNT_DETACH)) }()
	w := serve(t, dir, "--config", policyFile(t, target.URL(), ""))
	w.MakeRepo(t, map[string]any{"name": "shop"})
	task := w.makeTask(t, nil)
	g, old, head := w.noisy(t, task, 27)

	ballast := filepath.Join(repos, "ballast")
	for _, room := range []int64{1 << 20, 0} { // it becomes full in the middle of the pack; it is full before
		require.NoError(t, disk.Fill(ballast, room))
		out, err := g.run(t.Context(), "repo", "push", "origin", "HEAD")
		require.Error(t, err, "a push that has no room went through")
		t.Logf("with %d bytes left: %s", room, out)
		assert.Contains(t, out, "there is no room left on the disk of the repositories", "who pushes reads what is wrong")
		assert.NotContains(t, out, dir)
		assert.Equal(t, old, w.Task(t, task.ID).Head)
		assert.Empty(t, quarantined(t, filepath.Join(repos, "repos")), "nothing of it is left")
	}
	g.do(t, ".", "clone", "-q", "-b", task.Branch, w.gitURL("shop"), "copy")
	assert.Equal(t, old, g.do(t, "copy", "rev-parse", "HEAD"), "what is there can be fetched")
	w.Must(t, http.StatusOK, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"POST","url":"%s/meanwhile","body":{}}`, target.URL()))

	require.NoError(t, os.Remove(ballast))
	g.do(t, "repo", "push", "-q", "origin", "HEAD")
	assert.Equal(t, head, w.Task(t, task.ID).Head)
	w.MakeRepo(t, map[string]any{"name": "another"})
	for _, a := range w.pushes(t) {
		assert.Contains(t, []string{schemas.AuditOK, string(schemas.GitRejected)}, a.Result)
	}
}
