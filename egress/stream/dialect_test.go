package stream_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/weirtest/poll"
	"weir/internal/wire"
	"weir/schemas"
)

// slow is a dialect whose frame of the end is read from somewhere, when it is let.
type slow struct {
	asked chan context.Context
	let   chan error
	times *atomic.Int64
}

func newSlow() slow {
	return slow{asked: make(chan context.Context), let: make(chan error), times: &atomic.Int64{}}
}

func (s slow) frame(ctx context.Context, it *stream.Item) ([]byte, error) {
	if it.Event.Settled != nil {
		s.times.Add(1)
		s.asked <- ctx
		select {
		case err := <-s.let:
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return it.Frame(), nil
}

// number is the key of a watcher's number in its context.
type number struct{}

// watch follows the action a for as long as ctx lasts; its body comes when the
// stream has ended.
func (s slow) watch(ctx context.Context, n *node) <-chan string {
	events := stream.NewEvents(n.feed, stream.HTTP{})
	body := make(chan string, 1)
	go func() {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
		events.AnswerAs(w, r, stream.Dialect{Ref: ref("a"), Frame: s.frame, Refuse: func(http.ResponseWriter, *http.Request, error) {}})
		body <- w.Body.String()
	}()
	return body
}

// TestAFrameThatIsReadIsNobodysHostage: while one watcher reads it for all, each of
// them may go, and the one that reads leaves it to the next.
func TestAFrameThatIsReadIsNobodysHostage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		defer n.feed.Close()
		a := n.claim("a")
		s := newSlow()
		const watchers = 4
		bodies, leave := [watchers]<-chan string{}, [watchers]context.CancelFunc{}
		for i := range watchers {
			var ctx context.Context
			ctx, leave[i] = context.WithCancel(context.WithValue(t.Context(), number{}, i))
			defer leave[i]()
			bodies[i] = s.watch(ctx, n)
		}
		synctest.Wait() // all have their events from the feed
		a.settle(`{}`)
		reads, ok := (<-s.asked).Value(number{}).(int)
		require.True(t, ok)
		synctest.Wait()
		waits := (reads + 1) % watchers
		leave[waits]()
		require.NotContains(t, <-bodies[waits], "settled", "who waits may go")
		leave[reads]()
		require.NotContains(t, <-bodies[reads], "settled", "and who reads")
		<-s.asked // another one goes on
		s.let <- nil
		for i, body := range bodies {
			if i != waits && i != reads {
				require.Equal(t, 1, strings.Count(<-body, "event: settled\n"))
			}
		}
	})
}

// TestALogThatFailsFailsForAllWhoWait, once: they come back together.
func TestALogThatFailsFailsForAllWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{Retry: time.Second})
		defer n.feed.Close()
		a := n.claim("a")
		s := newSlow()
		var bodies []<-chan string
		for range 5 {
			bodies = append(bodies, s.watch(t.Context(), n))
		}
		synctest.Wait()
		a.settle(`{}`)
		for i := range 3 {
			<-s.asked
			synctest.Wait()
			s.let <- fault.ErrUnavailable
			synctest.Wait()
			require.EqualValues(t, i+1, s.times.Load())
		}
		<-s.asked
		s.let <- nil
		for _, body := range bodies {
			require.Contains(t, <-body, "event: settled\n")
		}
	})
}

// TestAStreamNeverJustEnds: where its end was read and cannot be given, it says so.
func TestAStreamNeverJustEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		a := n.claim("a")
		s := newSlow()
		events := stream.NewEvents(n.feed, stream.HTTP{})
		body := make(chan string, 1)
		go func() {
			w := httptest.NewRecorder()
			events.AnswerAs(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody), stream.Dialect{
				Ref: ref("a"), Frame: s.frame, Cut: func() []byte { return []byte("cut\n\n") }, Over: []byte("over\n\n"),
			})
			body <- w.Body.String()
		}()
		synctest.Wait()
		a.settle(`{}`)
		<-s.asked
		n.feed.Close()
		got := <-body
		require.NotContains(t, got, "settled")
		require.True(t, strings.HasSuffix(got, "cut\n\n"), got)
	})
}

// TestAClientThatHasGoneBeforeItsStream could be begun is told of, too.
func TestAClientThatHasGoneBeforeItsStream(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		leaves, drained bool
		left, refused   int
	}{
		"it has gone":         {leaves: true, left: 1},
		"it is there":         {refused: 1},
		"it is sent away too": {leaves: true, drained: true},
	} {
		n := newNode(t, stream.Config{})
		if tc.drained {
			n.feed.EndWaits()
		}
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		if tc.leaves {
			leave()
		}
		left, refused := 0, 0
		stream.NewEvents(n.feed, stream.HTTP{}).AnswerAs(
			httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody), stream.Dialect{
				Ref: ref("nobody"), Left: func() { left++ },
				Refuse: func(http.ResponseWriter, *http.Request, error) { refused++ },
			})
		require.Equal(t, tc.left, left, name)
		require.Equal(t, tc.refused, refused, name)
	}
}

// TestASeatIsTakenOnce: by the stream that it was for, or by nobody.
func TestASeatIsTakenOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	n.claim("a").settle(`{}`)
	taken, open := 0, 0
	events := stream.NewEvents(n.feed, stream.HTTP{Watch: func(r *http.Request) (context.Context, func(), error) {
		if open == 1 {
			return nil, nil, fault.New(schemas.RateLimited, "too many")
		}
		taken, open = taken+1, open+1
		return r.Context(), func() { open-- }, nil
	}})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
	seated, leave, err := events.Seat(r, nil)
	require.NoError(t, err)
	_, _, err = events.Seat(r, nil)
	require.Error(t, err)
	leave()
	leave()
	require.Zero(t, open, "nobody has begun a stream")

	seated, leave, err = events.Seat(seated, nil)
	require.NoError(t, err)
	refused := 0
	d := stream.Dialect{
		Ref: ref("a"), Frame: func(_ context.Context, it *stream.Item) ([]byte, error) { return it.Frame(), nil },
		Refuse: func(http.ResponseWriter, *http.Request, error) { refused++ },
	}
	w := httptest.NewRecorder()
	events.AnswerAs(w, seated, d)
	require.Contains(t, w.Body.String(), "event: settled\n")
	require.Equal(t, 2, taken)
	require.Zero(t, open)
	leave()
	require.Zero(t, open)
	events.AnswerAs(httptest.NewRecorder(), seated, d) // another one on the same request
	require.Equal(t, 3, taken)
	require.Zero(t, refused)
}

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
