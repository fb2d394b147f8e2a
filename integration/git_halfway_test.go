//go:build e2e

package integration_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestGitPushThatEndsHalfway: in the middle of a pack the client leaves, or Weir is killed.
// The branch is as it was, nothing half is left, the push ends once, as a failure, and the
// same push made again goes through.
func TestGitPushThatEndsHalfway(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, dir string, w *weir, leave func()) *weir{
		"the client leaves": func(_ *testing.T, _ string, w *weir, leave func()) *weir {
			leave()
			return w
		},
		"weir is killed": func(t *testing.T, dir string, w *weir, leave func()) *weir {
			t.Helper()
			w.Kill()
			leave()
			return serve(t, dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w := serve(t, dir)
			w.makeRepo(t, "shop")
			task := w.makeTask(t, "")
			g, old, head := w.noisy(t, task, 39)
			pack := gitkit.PackOf(t, filepath.Join(g.dir, "repo"), false, head, old)
			body := gitkit.PushBody(gitkit.Update{Old: old, New: head, Ref: schemas.RefOf(task.Branch)}, pack)

			leave := w.pushHalf(t, task, body)
			repos := filepath.Join(dir, "git", "repos")
			poll.Until(t, func() bool {
				_, text := w.request(t, http.MethodGet, "/v1/actions?kind=push", "")
				return strings.Contains(text, `"status":"started"`)
			}, "the push to have begun")
			assert.Empty(t, quarantined(t, repos), "git is asked once the pack is here")
			w = end(t, dir, w, leave)

			var audits []schemas.PushAudit
			poll.Until(t, func() bool {
				audits = evidenceOf[schemas.PushAudit](t, w, schemas.EvidencePush, "")
				return len(audits) == 2
			}, "the push to end")
			results := []string{audits[0].Result, audits[1].Result}
			assert.ElementsMatch(t, []string{schemas.AuditOK, string(schemas.GitIncomplete)}, results)
			assert.Equal(t, old, w.task(t, task.ID).Head)

			push := []string{"push", "-q", w.gitURL("shop"), "HEAD:" + task.Branch}
			g.do(t, "repo", push...)
			assert.Equal(t, head, w.task(t, task.ID).Head)
			assert.Empty(t, quarantined(t, repos))
			assert.Empty(t, matches(t, dir, "git/tmp/*"), "and nothing is left of the other")
			for _, repo := range matches(t, repos, "*.git") {
				gitkit.Git(t, repo, "fsck", "--strict", "--no-dangling")
			}
			g.do(t, ".", "clone", "-q", "-b", task.Branch, w.gitURL("shop"), "copy")
			assert.Equal(t, head, g.do(t, "copy", "rev-parse", "HEAD"))
			audits = evidenceOf[schemas.PushAudit](t, w, schemas.EvidencePush, "")
			assert.Len(t, audits, 3)
		})
	}
}

// pushHalf sends the first half of a push's body and returns how to break off.
func (w *weir) pushHalf(t *testing.T, task schemas.NewTask, body []byte) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, pipe := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.gitURL("shop")+"/git-receive-pack", r)
	require.NoError(t, err)
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("agent:"+task.Token)))
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	_, err = io.Copy(pipe, bytes.NewReader(body[:len(body)/2]))
	require.NoError(t, err)
	return func() {
		cancel()
		_ = pipe.Close()
		<-answered
	}
}

// quarantined is what pushes that have not ended, and killed ones, have below a directory
// of repositories.
func quarantined(t *testing.T, repos string) []string {
	t.Helper()
	return append(matches(t, repos, "*.git/objects/*incoming-*"), matches(t, repos, "*.git/objects/pack/tmp_*")...)
}

func matches(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
	require.NoError(t, err)
	return found
}
