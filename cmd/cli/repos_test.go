package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// copying answers as a server that copies a repository: 202 at once, 202 again, as a
// node does that stops, and then the repository. It reports its progress.
func copying(t *testing.T, ends bool) (url string, ids chan string) {
	t.Helper()
	ids = make(chan string, 3)
	var posts atomic.Int64
	url = served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 2\nevent: started\ndata: {\"seq\":2,\"type\":\"started\"}\n\n")
			fmt.Fprint(w, "id: 3\nevent: progress\ndata: {\"seq\":3,\"type\":\"progress\",\"data\":{\"phase\":\"receiving\",\"done\":5,\"total\":10}}\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
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
	require.Equal(t, "copying; this takes as long as a clone\n", said)
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
	require.EqualError(t, <-failed, "the copying goes on without you: `weir tail actions a-1` follows it, `weir actions cancel a-1` ends it")
}

// TestCopyIsFollowed: only progress is shown.
func TestCopyIsFollowed(t *testing.T) {
	t.Parallel()
	url, _ := copying(t, true)
	c := clientOf(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said []string
	c.followCopy(ctx, "a-1", func(what string) {
		said = append(said, what)
		cancel()
	})
	require.Equal(t, []string{"receiving   [###############...............] 5/10"}, said)
}

func TestClocked(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	say, end := clocked(&out, "copying")
	say(barText("receiving", 5, 10))
	end()
	drawn := strings.Split(out.String(), "\r")
	require.Contains(t, drawn[1], "copying, ")
	require.Contains(t, drawn[len(drawn)-1], "receiving [###############...............] 5/10, ")
	require.True(t, strings.HasSuffix(out.String(), "\n"))
}
