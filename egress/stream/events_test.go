package stream_test

import (
	"bufio"
	"bytes"
	"encoding/json"
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

// recorder is a response whose writes a test sees as they are flushed.
type recorder struct {
	header http.Header
	out    chan string
	buf    bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(int)             {}
func (r *recorder) Write(p []byte) (int, error) { return r.buf.Write(p) }
func (r *recorder) Flush() {
	r.out <- r.buf.String()
	r.buf.Reset()
}

func TestKeepAliveOnASilentStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		defer n.feed.Close()
		a := n.claim("a")
		w := &recorder{header: http.Header{}, out: make(chan string)}
		events := stream.NewEvents(n.feed, stream.HTTP{})
		begin := time.Now()
		go func() {
			defer close(w.out)
			events.Serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a", http.NoBody), "acme", "a")
		}()
		require.Equal(t, ":\n\n", <-w.out)
		require.Contains(t, <-w.out, "event: accepted\n")
		for i := range 3 {
			require.Equal(t, ":\n\n", <-w.out)
			require.Equal(t, time.Duration(i+1)*15*time.Second, time.Since(begin))
		}
		a.settle(`1`)
		require.Contains(t, <-w.out, "event: settled\n")
		_, more := <-w.out
		require.False(t, more, "the stream ends after the terminal event")
	})
}

// plain hides everything but the three methods of a ResponseWriter.
type plain struct{ http.ResponseWriter }

func TestAWriterThatCannotFlushGetsTheHistory(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	n.claim("a").start()
	w := httptest.NewRecorder()
	stream.NewEvents(n.feed, stream.HTTP{}).Serve(plain{w}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a", http.NoBody), "acme", "a")
	require.Equal(t, 2, strings.Count(w.Body.String(), "event: "))
}

func TestHTTP10GetsAStream(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	srv := n.serve(t, stream.HTTP{}, nil)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /a HTTP/1.0\r\n\r\n")
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	for line := ""; line != "event: accepted\n"; {
		line, err = r.ReadString('\n')
		require.NoError(t, err)
	}
	a.settle(`1`)
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Contains(t, string(rest), "event: settled\n")
}

func TestCloseEndsStreams(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	n.claim("a")
	res := get(t, n.serve(t, stream.HTTP{}, nil).URL+"/a")
	n.feed.Close()
	_, err := io.ReadAll(res.Body)
	require.NoError(t, err)
}

func TestHeadOpensNoStream(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	n.claim("a")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, n.serve(t, stream.HTTP{}, nil).URL+"/a", http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
}
