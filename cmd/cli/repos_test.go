package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// copying answers as a server that copies a repository: 202 at once, 202 again, as a
// node does that stops, and then the repository.
func copying(t *testing.T, ends bool) (url string, ids chan string) {
	t.Helper()
	ids = make(chan string, 3)
	var posts atomic.Int64
	url = served(t, func(w http.ResponseWriter, r *http.Request) {
		var req schemas.RepoRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.RequestID == "" {
			http.Error(w, "no id", http.StatusBadRequest)
			return
		}
		ids <- req.RequestID
		if n := posts.Add(1); n == 2 || r.Header.Get("Prefer") == "respond-async" {
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"id":"a-1","status":"accepted","duplicate":false,"durability":"disk"}`)
			return
		}
		if !ends {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"name":"shop","mode":"hosted","default_branch":"main","url":"http://127.0.0.1/git/shop.git"}`)
	})
	return url, ids
}

func TestCopyARepository(t *testing.T) {
	t.Parallel()
	url, ids := copying(t, true)
	code, out, said := command(t, "repos", "create", "shop", "--import", "https://up.example.com/shop.git", "--server", url)
	require.Equal(t, ExitOK, code, said)
	require.Equal(t, "repository shop, hosted, branch main: http://127.0.0.1/git/shop.git\n", out)
	require.Equal(t, "copying; `weir tail actions a-1` shows the progress\n", said)
	close(ids)
	id := <-ids
	require.NotEmpty(t, id)
	for again := range ids {
		require.Equal(t, id, again, "a repeat joins the same action")
	}
}

// TestACopyIsRefused: nothing is said to be under way that never began.
func TestACopyIsRefused(t *testing.T) {
	t.Parallel()
	url := always(t, http.StatusConflict, "application/problem+json", `{"title":"Conflict","status":409,"detail":"there is one","code":"CONFLICT"}`)
	code, out, said := command(t, "repos", "create", "shop", "--import", "https://up.example.com/shop.git", "--server", url)
	require.Equal(t, 1, code)
	require.Empty(t, out)
	require.Equal(t, "weir: there is one (CONFLICT)\n", said)
}

// TestACopyGoesOn: a command that stops waiting says that the server goes on.
func TestACopyGoesOn(t *testing.T) {
	t.Parallel()
	url, ids := copying(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said bytes.Buffer
	c := clientOf(t, url)
	c.Out, c.Err = &said, &said
	failed := make(chan error, 1)
	go func() {
		_, err := c.createRepo(ctx, schemas.RepoRequest{Name: "shop", ImportURL: "https://up.example.com/shop.git", RequestID: "mine"})
		failed <- err
	}()
	for range 3 {
		require.Equal(t, "mine", <-ids)
	}
	cancel()
	require.EqualError(t, <-failed, "the copy goes on: `weir tail actions a-1` follows it, `weir actions cancel a-1` ends it")
}
