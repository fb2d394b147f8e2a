package stream_test

import (
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
	"weir/internal/problem"
	"weir/schemas"
)

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
	for cut := int64(1); cut < int64(len(whole)); cut += 5 {
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
		events := stream.NewEvents(n.feed, stream.HTTP{LongPoll: 25 * time.Second})
		poll := func(query string) (page, time.Duration) {
			begin, w := time.Now(), httptest.NewRecorder()
			events.Serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a?live=long-poll"+query, http.NoBody), "acme", "a")
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
