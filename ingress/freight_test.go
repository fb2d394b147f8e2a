package ingress_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/schemas"
)

// largeChat is a completion of about so many bytes.
func largeChat(n int) string {
	return strings.Replace(okChat, "hi", strings.Repeat("a", n), 1)
}

// slow is a request whose body comes when it is let go, with its length or without.
func slow(body string, length int64) (r *http.Request, finish func()) {
	read, write := io.Pipe()
	r = httptest.NewRequest(http.MethodPost, "/v1/chat/completions", read)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = length
	return r, func() { _, _ = io.WriteString(write, body); _ = write.Close() }
}

// sent serves a request, and gives its answer when there is one.
func (w *world) sent(r *http.Request) <-chan *httptest.ResponseRecorder {
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		rec := httptest.NewRecorder()
		w.engine.ServeHTTP(rec, r)
		done <- rec
	}()
	return done
}

// Large bodies are taken as far as there is room for them; small ones pass them.
func TestLargeBodiesAtATime(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		length func(body string) int64
		first  int // bytes of the one that is under way
		second int
		status int
	}{
		"no room":            {func(b string) int64 { return int64(len(b)) }, 700 << 10, 700 << 10, 503},
		"room beside it":     {func(b string) int64 { return int64(len(b)) }, 500 << 10, 300 << 10, 202},
		"small ones pass":    {func(b string) int64 { return int64(len(b)) }, 1000 << 10, 200 << 10, 202},
		"without a length":   {func(string) int64 { return -1 }, 10, 300 << 10, 503},
		"a small one beside": {func(string) int64 { return -1 }, 10, 10, 202},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := setup(t, desk(func(c *ingress.ChatConfig) { c.MaxBody, c.MaxBodies = 1<<20, 1<<20 }))
				first := largeChat(tc.first)
				r, finish := slow(first, tc.length(first))
				under := w.sent(r)
				synctest.Wait() // it waits for its body

				start := time.Now()
				a := w.do(t, post("/v1/chat/completions", largeChat(tc.second)))
				require.Equal(t, tc.status, a.Code, a.Body)
				if tc.status == http.StatusServiceUnavailable {
					require.Equal(t, "UNAVAILABLE", chatFault(t, a))
					require.Equal(t, "1", a.Header().Get("Retry-After"))
					require.Equal(t, "close", a.Header().Get("Connection"), "its body is not read")
					require.Equal(t, 2*time.Second, time.Since(start))
					require.Zero(t, w.records(t))
				}
				finish()
				require.Equal(t, http.StatusAccepted, (<-under).Code)
				require.Equal(t, http.StatusAccepted, w.do(t, post("/v1/chat/completions", largeChat(1000<<10))).Code, "all the room is back")
			})
		})
	}
}

// Whoever waits gets the room that another leaves, and the room of a body is left when it
// is stored: not when its answer has come, and however it was refused.
func TestRoomOfALargeBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, desk(func(c *ingress.ChatConfig) { c.MaxBody, c.MaxBodies = 1<<20, 1<<20 }))
		large := largeChat(1000 << 10)
		r, finish := slow(large, int64(len(large)))
		under := w.sent(r)
		synctest.Wait()
		second := w.sent(post("/v1/chat/completions", large))
		synctest.Wait()
		require.Empty(t, second)
		finish()
		require.Equal(t, http.StatusAccepted, (<-under).Code)
		require.Equal(t, http.StatusAccepted, (<-second).Code)

		answer, answering := make(chan struct{}), make(chan struct{}, 1)
		w.responder.chatting = func() { answering <- struct{}{}; <-answer }
		waits := w.sent(post("/v1/chat/completions", large))
		<-answering
		w.responder.chatting = nil
		require.Equal(t, http.StatusAccepted, (<-w.sent(post("/v1/chat/completions", large))).Code, "while the other one waits for its answer")
		close(answer)
		require.Equal(t, http.StatusAccepted, (<-waits).Code)

		for range 3 {
			require.Equal(t, http.StatusBadRequest, w.do(t, post("/v1/chat/completions", large[1:])).Code)
			require.Equal(t, http.StatusNotFound, w.do(t, post("/v1/chat/completions", strings.Replace(large, "fast", "nobody", 1))).Code)
			require.Equal(t, http.StatusUnsupportedMediaType, w.do(t, post("/v1/chat/completions", large, "Content-Type", "text/plain")).Code)
		}
		require.Equal(t, http.StatusAccepted, w.do(t, post("/v1/chat/completions", large)).Code)
		require.Zero(t, w.metrics.refused[schemas.Unavailable])
	})
}

// While a large completion is stored there are two of it here: what is stored, and the
// store's own.
func TestALargeBodyIsHeldOnce(t *testing.T) { //nolint:paralleltest // other tests' memory would be counted
	const size = 8 << 20
	held := func() int64 {
		for range 3 { // what pools keep outlasts one
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var during int64
	w := setup(t, desk(), func(c *ingress.Config) {
		c.Accept.Barrier = func(context.Context) error { during = held(); return nil }
	})
	body := largeChat(size)
	r := post("/v1/chat/completions", body)
	before := held()
	require.Equal(t, http.StatusAccepted, w.do(t, r).Code)
	runtime.KeepAlive(body)
	require.Less(t, during-before, int64(size/2*5))
}
