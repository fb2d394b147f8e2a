package stream_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sse "github.com/tmaxmax/go-sse"

	"weir/egress/stream"
)

// serve runs the events route on a real socket. cut may end a response early.
func (n *node) serve(t *testing.T, cfg stream.HTTP, cut func(http.ResponseWriter) http.ResponseWriter) *httptest.Server {
	t.Helper()
	events := stream.NewEvents(n.feed, cfg)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut != nil {
			w = cut(w)
		}
		events.Serve(w, r, "acme", strings.TrimPrefix(r.URL.Path, "/"))
	}))
	t.Cleanup(func() {
		n.feed.Close()
		srv.Close()
	})
	return srv
}

// answer is a response whose body the test's end closes.
type answer struct {
	StatusCode int
	Header     http.Header
	Body       io.ReadCloser
}

func get(t *testing.T, url string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return answer{res.StatusCode, res.Header, res.Body}
}

// watch follows an action with a real client until the server says that it is
// over, resuming after every cut.
func watch(ctx context.Context, url string) ([]sse.Event, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := &sse.Client{
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		Backoff:    sse.Backoff{InitialInterval: time.Microsecond, Multiplier: 1, Jitter: -1},
	}
	var got []sse.Event
	conn := client.NewConnection(req)
	conn.Buffer(nil, 1<<20)
	conn.SubscribeToAll(func(ev sse.Event) { got = append(got, ev) })
	err = conn.Connect()
	if err != nil && strings.Contains(err.Error(), "received 204") {
		err = nil
	}
	return got, err
}

func ids(events []sse.Event) []string {
	out := make([]string, len(events))
	for i, ev := range events {
		out[i] = ev.LastEventID
	}
	return out
}

func (a *action) ids() []string {
	seqs := a.seqs()
	out := make([]string, len(seqs))
	for i, s := range seqs {
		out[i] = strconv.FormatUint(s, 10)
	}
	return out
}

// scissors ends a response after so many bytes, as a broken connection does.
type scissors struct {
	http.ResponseWriter
	left int
}

func (s *scissors) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *scissors) Write(p []byte) (int, error) {
	if len(p) < s.left {
		s.left -= len(p)
		return s.ResponseWriter.Write(p)
	}
	_, _ = s.ResponseWriter.Write(p[:s.left])
	_ = http.NewResponseController(s.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}
