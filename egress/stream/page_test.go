package stream_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/stream"
	"weir/internal/problem"
)

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
