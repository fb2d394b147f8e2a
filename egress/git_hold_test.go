package egress_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress/git"
	"weir/internal/fault"
	"weir/internal/task"
	"weir/schemas"
)

// Who reads keeps the lease of its task until it is answered, whatever comes of it.
func TestGitKeepsTheLease(t *testing.T) {
	t.Parallel()
	denied := fault.New(schemas.DenyHost, "the policy does not allow it")
	for name, tc := range map[string]struct {
		source  stable
		fetch   string // a body; nothing: it is info/refs
		token   string
		headers []string
		status  int
		held    int32
	}{
		"refs":                    {token: "task", status: 200, held: 1},
		"refs that fail":          {source: stable{err: denied}, token: "task", status: 403, held: 1},
		"refs of a dead token":    {token: "dead", status: 401},
		"refs of another's":       {token: "stranger", status: 404},
		"a fetch":                 {fetch: lsRefs, token: "task", status: 200, held: 1},
		"a probe":                 {fetch: "0000", token: "task", status: 200, held: 1},
		"one that is no fetch":    {fetch: "0003", token: "task", status: 400, held: 1},
		"one that is too large":   {fetch: strings.Repeat("0", 9<<20), token: "task", status: 413, held: 1},
		"a fetch that fails":      {source: stable{err: errDown}, fetch: lsRefs, token: "task", status: 500, held: 1},
		"one that breaks off":     {source: stable{err: errDown, before: "some"}, fetch: lsRefs, token: "task", held: 1},
		"its media type":          {fetch: lsRefs, token: "task", headers: []string{"Content-Type", "text/plain"}, status: 415},
		"a fetch of a dead token": {fetch: lsRefs, token: "dead", status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now, ever, during atomic.Int32
			var who task.Grant
			source := tc.source
			source.during = func() { during.Store(now.Load()) }
			h := gitHouse(t, &source, func(c *git.Config) {
				c.Hold = func(g task.Grant) func() {
					who = g
					now.Add(1)
					ever.Add(1)
					return func() { now.Add(-1) }
				}
			})
			var w *httptest.ResponseRecorder
			ask := func() {
				if tc.fetch == "" {
					w = h.ask(http.MethodGet, "/git/own"+refsPath, tc.token)
				} else {
					w = h.fetch("/git/own/git-upload-pack", tc.token, tc.fetch, tc.headers...)
				}
			}
			if tc.status == 0 {
				require.PanicsWithError(t, http.ErrAbortHandler.Error(), ask)
			} else {
				ask()
				require.Equal(t, tc.status, w.Code, w.Body)
			}
			require.Equal(t, tc.held, ever.Load())
			require.Zero(t, now.Load(), "it is released")
			if tc.held > 0 {
				require.Equal(t, "t-1", who.TaskID)
			}
			if tc.status == http.StatusOK && tc.fetch != "0000" {
				require.EqualValues(t, 1, during.Load(), "it is held while the source answers")
			}
		})
	}
}

// One task cannot take all of a repository's fetches with answers that it does not read.
func TestFetchesOfOneTask(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	h := gitHouse(t, &stable{during: func() { begun <- struct{}{}; <-end }})
	done := make(chan int, 4)
	for range 4 {
		go func() { done <- h.fetch("/git/own/git-upload-pack", "task", lsRefs).Code }()
		<-begun
	}
	w := h.fetch("/git/own/git-upload-pack", "task", lsRefs, "User-Agent", "git/2.39.5")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, "this task has 4 fetches on their way already; try again when one of them has ended (RATE_LIMITED)\n", w.Body.String())
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	go func() { done <- h.fetch("/git/own/git-upload-pack", "reader", lsRefs).Code }()
	<-begun // who has no task is not counted
	close(end)
	for range 5 {
		require.Equal(t, http.StatusOK, <-done)
	}
	go func() { done <- h.fetch("/git/own/git-upload-pack", "task", lsRefs).Code }()
	<-begun
	require.Equal(t, http.StatusOK, <-done)
}
