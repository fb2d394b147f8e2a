package stream_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/stream"
	"weir/internal/weirtest/poll"
	"weir/internal/wire"
)

// borrowed is a writer that routes lend to a handler, and give to the next request
// when it has returned.
type borrowed struct{ http.ResponseWriter }

func (b *borrowed) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// TestAStreamOutlivesItsRoute has the stream begun by a route and finished after it,
// as the server of a node does.
func TestAStreamOutlivesItsRoute(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	a.start()
	var watching atomic.Int64
	released := make(chan struct{})
	events := stream.NewEvents(n.feed, stream.HTTP{
		KeepAlive: 10 * time.Millisecond,
		Watching:  func(d int) { watching.Add(int64(d)) },
		Watch: func(r *http.Request) (context.Context, func(), error) {
			return r.Context(), func() { close(released) }, nil
		},
	})
	returned := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wire.Begin(r.Context())
		lent := &borrowed{w}
		events.Serve(lent, r, "acme", strings.TrimPrefix(r.URL.Path, "/"))
		lent.ResponseWriter = httptest.NewRecorder() // another request's by now
		close(returned)
		wire.Finish(r.Context())
	}))
	srv.Listener = wire.Wrap(srv.Listener, wire.Config{})
	srv.Config.ConnContext = wire.Context
	srv.Start()
	t.Cleanup(func() {
		n.feed.Close()
		srv.Close()
	})
	defer time.AfterFunc(30*time.Second, srv.CloseClientConnections).Stop()
	res := get(t, srv.URL+"/a")
	require.Equal(t, http.StatusOK, res.StatusCode)
	lines := bufio.NewScanner(res.Body)
	until := func(prefix string) {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), prefix) {
				return
			}
		}
		require.Fail(t, "the stream has ended", "before %q: %v", prefix, lines.Err())
	}
	until("id: 2")
	<-returned
	require.EqualValues(t, 1, watching.Load())
	until(":")
	until(":") // comments of the silent stream
	a.progress(`{"x":1}`)
	until("event: progress")
	a.settle(`{}`)
	until("event: settled")
	for lines.Scan() {
		require.NotContains(t, lines.Text(), "event:", "it ends")
	}
	require.NoError(t, lines.Err())
	<-released
	poll.Until(t, func() bool { return watching.Load() == 0 && n.feed.Watching() == 0 })
}
