package stream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

func TestEventsAreOneLineAndPublic(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	hostile := "a\rb\nc\r\nd\u2028e\u2029data: x\n\nevent: final\ndata: {}\n\n\x00id: 99"
	value, err := json.Marshal(map[string]string{hostile: hostile})
	require.NoError(t, err)
	a.start()
	a.attempt()
	a.progress(string(value))
	a.progress("{\n\r \"a\" :\r\n1.0000000000000000000001}")
	a.attempted()
	a.settle(string(value))
	srv := n.serve(t, stream.HTTP{}, nil)
	events, err := watch(t.Context(), srv.URL+"/a")
	require.NoError(t, err)
	require.Equal(t, a.ids(), ids(events))
	types := make([]string, 0, len(events))
	for i, ev := range events {
		types = append(types, ev.Type)
		require.NotContains(t, ev.Data, "\n")
		for _, internal := range []string{"secret.example", "worker-7", "blob-name", "fingerprint", "payload", "tenant"} {
			require.NotContains(t, ev.Data, internal)
		}
		var p struct {
			Seq  uint64            `json:"seq"`
			N    int               `json:"n"`
			Type string            `json:"type"`
			Time time.Time         `json:"time"`
			Data map[string]string `json:"data"`
		}
		if i != 4 {
			require.NoError(t, json.Unmarshal([]byte(ev.Data), &p))
			require.Equal(t, ev.LastEventID, strconv.FormatUint(p.Seq, 10))
			require.Equal(t, i+1, p.N)
			require.Equal(t, ev.Type, p.Type)
			require.False(t, p.Time.IsZero())
		}
		if i == 3 {
			require.Equal(t, map[string]string{hostile: hostile}, p.Data)
		}
	}
	require.Contains(t, events[4].Data, `{"a":1.0000000000000000000001}`, "numbers keep their digits")
	require.Equal(t, []string{"accepted", "started", "attempt", "progress", "progress", "attempted", "settled"}, types)
}

func TestStreamHeadersAndFirstByte(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	var watching atomic.Int64
	srv := n.serve(t, stream.HTTP{Watching: func(d int) { watching.Add(int64(d)) }}, nil)
	res := get(t, srv.URL+"/a", "Last-Event-ID", strconv.FormatUint(a.st.Seq, 10))
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	require.Equal(t, "no-store, no-transform", res.Header.Get("Cache-Control"))
	require.Equal(t, "no", res.Header.Get("X-Accel-Buffering"))
	first := make([]byte, 3)
	_, err := io.ReadFull(res.Body, first) // before anything has happened
	require.NoError(t, err)
	require.Equal(t, ":\n\n", string(first))
	require.EqualValues(t, 1, watching.Load())
	a.settle(`1`)
	rest, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(rest), "event: settled\n"))
}

func TestCutAnywhereAndResume(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	a.whole(3)
	var at, requests atomic.Int64
	srv := n.serve(t, stream.HTTP{}, func(w http.ResponseWriter) http.ResponseWriter {
		if requests.Add(1) > 1 {
			return w
		}
		return &scissors{ResponseWriter: w, left: int(at.Load())}
	})
	res := get(t, srv.URL+"/a")
	_ = res.Body.Close()
	requests.Store(1)
	whole, err := io.ReadAll(get(t, srv.URL+"/a").Body)
	require.NoError(t, err)
	want := a.ids()
	for cut := int64(1); cut < int64(len(whole)); cut += 17 {
		at.Store(cut)
		requests.Store(0)
		got, err := watch(t.Context(), srv.URL+"/a")
		require.NoError(t, err, "cut at %d", cut)
		require.Equal(t, want, ids(got), "cut at %d", cut)
	}
}

func TestWhereToResume(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	gone := n.claim("gone")
	gone.whole(1)
	n.claim("open")
	done := n.claim("done")
	done.whole(1)
	n.log.Purge(schemas.LogStream(layout.Partition("acme", "gone")), gone.seqs()[1])
	srv := n.serve(t, stream.HTTP{}, nil)
	last := strconv.FormatUint(done.st.Seq, 10)
	for _, tc := range []struct {
		path, id string
		status   int
		code     schemas.Code
	}{
		{"/done", "", 200, ""},
		{"/done", "0", 200, ""},
		{"/done", last, 204, ""},
		{"/done?after=" + last, "", 204, ""},
		{"/done?after=" + last, "0", 200, ""}, // the header goes first
		{"/done?after=0", last, 204, ""},
		{"/done", "-1", 400, schemas.InvalidRequest},
		{"/done", " 1 2", 400, schemas.InvalidRequest},
		{"/done", "18446744073709551616", 400, schemas.InvalidRequest},
		{"/done", strings.Repeat("9", 400), 400, schemas.InvalidRequest},
		{"/done", strings.Repeat("0", 21), 400, schemas.InvalidRequest},
		{"/done", "999999999", 400, schemas.InvalidRequest},
		{"/done?after=", "", 400, schemas.InvalidRequest},
		{"/done?after=1&after=2", "", 400, schemas.InvalidRequest},
		{"/done?live=websocket", "", 400, schemas.InvalidRequest},
		{"/nobody", "", 404, schemas.NotFound},
		{"/bad*id", "", 404, schemas.NotFound},
		{"/gone", "", 410, schemas.StreamGone},
	} {
		header := []string{}
		if tc.id != "" {
			header = append(header, "Last-Event-ID", tc.id)
		}
		res := get(t, srv.URL+tc.path, header...)
		require.Equal(t, tc.status, res.StatusCode, "%+v", tc)
		if tc.code != "" {
			var p schemas.Problem
			require.Equal(t, problem.MediaType, res.Header.Get("Content-Type"))
			require.NoError(t, json.NewDecoder(res.Body).Decode(&p))
			require.Equal(t, tc.code, p.Code)
			if tc.status == http.StatusGone {
				require.Equal(t, strconv.FormatUint(gone.at(1), 10), p.EarliestID)
				require.Contains(t, res.Header.Get("Link"), "</v1/actions/gone>")
			}
		}
		_ = res.Body.Close()
	}
	require.Equal(t, 400, get(t, srv.URL+"/done", "Last-Event-ID", "1", "Last-Event-ID", "2").StatusCode)
}

// at is the sequence of the event at i, however much history was dropped.
func (a *action) at(i int) uint64 { return a.st.Events[i].Seq }

func TestSlowReaderIsClosedAndLosesNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	closed := make(chan struct{}, 10)
	srv := n.serve(t, stream.HTTP{WriteTimeout: 100 * time.Millisecond, Watching: func(d int) {
		if d < 0 {
			select {
			case closed <- struct{}{}:
			default: // the first is waited for
			}
		}
	}}, nil)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	tcp, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, tcp.SetReadBuffer(4096))
	_, err = io.WriteString(conn, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	big := `"` + strings.Repeat("x", 100_000) + `"`
	for range 100 { // more than any socket's buffer, and nobody reads
		a.progress(big)
	}
	<-closed
	a.settle(`1`)
	got, err := watch(t.Context(), srv.URL+"/a")
	require.NoError(t, err)
	require.Equal(t, a.ids(), ids(got))
}

func TestForms(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	n.claim("a").whole(0)
	srv := n.serve(t, stream.HTTP{}, nil)
	for accept, want := range map[string]string{
		"":                                       "text/event-stream",
		"*/*":                                    "text/event-stream",
		"text/*":                                 "text/event-stream",
		"application/json, text/event-stream":    "text/event-stream",
		"application/json":                       "application/json",
		"Application/JSON; charset=utf-8, */*":   "application/json",
		"text/event-stream;q=0,application/json": "application/json",
		"text/html":                              problem.MediaType,
	} {
		res := get(t, srv.URL+"/a", "Accept", accept)
		require.Equal(t, want, res.Header.Get("Content-Type"), accept)
		if want == problem.MediaType {
			require.Equal(t, 406, res.StatusCode)
		}
	}
}

type page struct {
	Items []struct {
		Seq uint64 `json:"seq"`
	} `json:"items"`
	Next *string `json:"next"`
}

func readPage(t *testing.T, res answer) page {
	t.Helper()
	var p page
	require.Equal(t, 200, res.StatusCode)
	require.NoError(t, json.NewDecoder(res.Body).Decode(&p))
	require.NotNil(t, p.Items)
	return p
}

func TestPages(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	a.whole(200)
	open := n.claim("open")
	srv := n.serve(t, stream.HTTP{}, nil)
	for _, limit := range []int{1, 7, 64, 100, 1000} {
		var got []uint64
		after, pages := "0", 0
		for {
			p := readPage(t, get(t, fmt.Sprintf("%s/a?limit=%d&after=%s", srv.URL, limit, after), "Accept", "application/json"))
			for _, it := range p.Items {
				got = append(got, it.Seq)
			}
			require.LessOrEqual(t, len(p.Items), limit)
			if pages++; p.Next == nil {
				break
			}
			after = *p.Next
		}
		require.Equal(t, a.seqs(), got, "limit %d", limit)
		require.LessOrEqual(t, pages, 205/limit+2)
	}
	p := readPage(t, get(t, srv.URL+"/open", "Accept", "application/json"))
	require.Len(t, p.Items, 1)
	require.Equal(t, strconv.FormatUint(open.st.Seq, 10), *p.Next, "more may come")
	p = readPage(t, get(t, srv.URL+"/open?after="+*p.Next, "Accept", "application/json"))
	require.Empty(t, p.Items)
	require.NotNil(t, p.Next)
	for _, limit := range []string{"0", "1001", "-1", "x", ""} {
		require.Equal(t, 400, get(t, srv.URL+"/a?limit="+limit, "Accept", "application/json").StatusCode, limit)
	}
}

func TestLongPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		defer n.feed.Close()
		a := n.claim("a")
		poll := func(query string) (page, time.Duration) {
			begin, w := time.Now(), httptest.NewRecorder()
			n.feed.Serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a?live=long-poll"+query, http.NoBody), "acme", "a")
			return readPage(t, answer{w.Code, w.Header(), io.NopCloser(w.Body)}), time.Since(begin)
		}
		p, took := poll("")
		require.Len(t, p.Items, 1)
		require.Zero(t, took, "there was something at once")

		next := "&after=" + *p.Next
		p, took = poll(next)
		require.Empty(t, p.Items)
		require.Equal(t, 25*time.Second, took)
		require.NotNil(t, p.Next)
		_, took = poll(next + "&timeout=3")
		require.Equal(t, 3*time.Second, took)
		_, took = poll(next + "&timeout=3600")
		require.Equal(t, 25*time.Second, took)

		go func() {
			<-time.After(4 * time.Second)
			a.settle(`1`)
		}()
		p, took = poll(next)
		require.Len(t, p.Items, 1)
		require.Equal(t, 4*time.Second, took)
		require.Nil(t, p.Next)
		p, took = poll(fmt.Sprintf("&after=%d", a.st.Seq))
		require.Empty(t, p.Items)
		require.Nil(t, p.Next)
		require.Zero(t, took)
	})
}

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
	body := make(chan string, 1)
	go func() {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
		n.feed.AnswerAs(w, r, stream.Dialect{Ref: ref("a"), Frame: s.frame, Refuse: func(http.ResponseWriter, *http.Request, error) {}})
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

// TestAStreamNeverJustEnds: where its end was read and cannot be given, it says so.
func TestAStreamNeverJustEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		a := n.claim("a")
		s := newSlow()
		body := make(chan string, 1)
		go func() {
			w := httptest.NewRecorder()
			n.feed.AnswerAs(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody), stream.Dialect{
				Ref: ref("a"), Frame: s.frame, Interrupted: func() []byte { return []byte("cut\n\n") }, Ended: []byte("over\n\n"),
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

// TestALogThatFailsFailsForAllWhoWait, once: they come back together.
func TestALogThatFailsFailsForAllWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
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
