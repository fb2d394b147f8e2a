package githttp_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func bodyOf(t *testing.T, raw string, limit int64, coding ...string) (*githttp.Body, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(raw))
	r.Header["Content-Encoding"] = coding
	return githttp.NewBody(httptest.NewRecorder(), r, limit, time.Minute)
}

func TestBody(t *testing.T) {
	t.Parallel()
	for _, coding := range [][]string{{"br"}, {"gzip", "gzip"}, {"gzip, gzip"}, {""}, {"deflate"}} {
		_, err := bodyOf(t, "abc", 3, coding...)
		require.Equal(t, schemas.UnsupportedEncoding, code(t, err), "%q", coding)
	}
	long := strings.Repeat("x", 100_000)
	for name, tc := range map[string]struct {
		raw, coding, want string
		limit             int64
		err               error
	}{
		"plain":                {"abc", "", "abc", 3, nil},
		"identity":             {"abc", "Identity", "abc", 3, nil},
		"too long":             {"abcd", "", "abc", 3, gitwire.ErrTooLarge},
		"gzip":                 {zipped(t, "abc"), "gzip", "abc", 99, nil},
		"x-gzip":               {zipped(t, "abc"), "X-GZIP", "abc", 99, nil},
		"gzip, two of them":    {zipped(t, "abc") + zipped(t, "def"), "gzip", "abcdef", 99, nil},
		"gzip, a bomb":         {zipped(t, long), "gzip", long[:50_000], 50_000, gitwire.ErrTooLarge},
		"gzip, too much of it": {zipped(t, "abc"), "gzip", "", 9, gitwire.ErrTooLarge},
		"gzip, is none":        {"abcdefghijklmnopqrstuvwxyz", "gzip", "", 99, gitwire.ErrMalformed},
		"gzip, more behind":    {zipped(t, "abc") + "abcdefghijklmnopqrstuvwxyz", "gzip", "abc", 99, gitwire.ErrMalformed},
		"gzip, broken":         {zipped(t, "abc")[:10] + "\xff\xff\xff\xff\xff\xff\xff\xff\xff", "gzip", "", 99, gitwire.ErrMalformed},
		"gzip, cut":            {zipped(t, "abc")[:20], "gzip", "abc", 99, io.ErrUnexpectedEOF},
	} {
		var coding []string
		if tc.coding != "" {
			coding = []string{tc.coding}
		}
		body, err := bodyOf(t, tc.raw, tc.limit, coding...)
		require.NoError(t, err, name)
		got, err := io.ReadAll(body)
		require.ErrorIs(t, err, tc.err, name)
		require.Equal(t, tc.want, string(got), name)
		_, again := body.Read(make([]byte, 1))
		if tc.err == nil {
			require.ErrorIs(t, again, io.EOF, name)
			require.True(t, body.Whole(), name)
		} else {
			require.ErrorIs(t, again, tc.err, name)
			require.Equal(t, schemas.PayloadTooLarge == code(t, githttp.Refusal(err, "it")), errors.Is(err, gitwire.ErrTooLarge), name)
		}
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	body, err := bodyOf(t, zipped(t, "abc")+strings.Repeat("x", 1000), 50, "gzip")
	require.NoError(t, err)
	_, err = io.ReadAll(body)
	require.Error(t, err)
	require.False(t, body.Whole())
	body.Drain(10)
	require.False(t, body.Whole(), "to a limit")
	body.Drain(5000)
	require.True(t, body.Whole(), "as it comes, past what it is read to otherwise")
}

// pipes is a listener of connections without a socket, which a bubble can wait for.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// exchange sends what send sends to a handler, and returns the body of the answer, and
// whether the connection is good for no more.
func exchange(t *testing.T, handler http.HandlerFunc, send func(client net.Conn)) (body string, closes bool) {
	t.Helper()
	l := make(pipes)
	srv := &http.Server{Handler: handler}
	go func() { _ = srv.Serve(l) }()
	client, server := net.Pipe()
	l <- server
	done := make(chan struct{})
	go func() { defer close(done); send(client) }()
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	require.NoError(t, err)
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, client.Close())
	<-done
	close(l)
	require.NoError(t, srv.Close())
	return string(data), resp.Close
}

// sending sends a body of so many bytes in pieces, each after a pause.
func sending(size, piece int, pause time.Duration) func(net.Conn) {
	return func(client net.Conn) {
		_, _ = fmt.Fprintf(client, "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n\r\n", size)
		for ; size > 0; size -= piece {
			time.Sleep(pause)
			if _, err := io.WriteString(client, strings.Repeat("x", min(piece, size))); err != nil {
				return // it is read no more
			}
		}
	}
}

func TestABodyThatGoesOnMayTakeLong(t *testing.T) {
	t.Parallel()
	type testCase struct {
		send func(net.Conn)
		rest time.Duration // between what is read of it
		want string
	}
	table.Bubble(t, map[string]testCase{
		"a client at the least rate": {sending(150<<10, 30<<10, 29*time.Second), 0, "153600 2m25s false"},
		"a slow reader":              {sending(8, 1, 0), time.Minute, "8 8m0s false"},
	}, func(t *testing.T, tc testCase) {
		got, _ := exchange(t, func(w http.ResponseWriter, r *http.Request) {
			start := time.Now()
			// What every request with a body is given first, see the engine.
			_ = http.NewResponseController(w).SetReadDeadline(start.Add(20 * time.Second))
			body, _ := githttp.NewBody(w, r, 1<<20, 10*time.Minute)
			size, err := io.CopyBuffer(struct{ io.Writer }{resting(tc.rest)}, struct{ io.Reader }{body}, make([]byte, 1<<10))
			took := time.Since(start)
			select {
			case <-time.After(time.Hour): // the deadline of the body ends no wait
			case <-r.Context().Done():
				took = 0
			}
			_, _ = fmt.Fprintf(w, "%d %s %t", size, took, err != nil)
		}, tc.send)
		require.Equal(t, tc.want, got)
	})
}

// resting takes its time for each write.
type resting time.Duration

func (r resting) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(r))
	return len(p), nil
}

func TestABodyThatIsTooSlowEnds(t *testing.T) {
	t.Parallel()
	type testCase struct {
		send  func(net.Conn)
		total time.Duration
		want  string
	}
	table.Bubble(t, map[string]testCase{
		"a pause":           {sending(90<<10, 60<<10, 31*time.Second), 10 * time.Minute, "0 30s true"},
		"drop by drop":      {sending(90<<10, 1000, 1100*time.Millisecond), 10 * time.Minute, "27000 30s true"},
		"all of it":         {sending(90<<10, 30<<10, 25*time.Second), time.Minute, "61440 1m0s true"},
		"one that is small": {sending(9, 1, 7*time.Second), 10 * time.Minute, "4 30s true"},
	}, func(t *testing.T, tc testCase) {
		got, _ := exchange(t, func(w http.ResponseWriter, r *http.Request) {
			start := time.Now()
			body, _ := githttp.NewBody(w, r, 1<<20, tc.total)
			size, err := io.Copy(io.Discard, body)
			w.Header().Set("Connection", "close")
			if err != nil {
				assert.Equal(t, schemas.RequestTimeout, code(t, githttp.Refusal(err, "it")))
			}
			_, _ = fmt.Fprintf(w, "%d %s %t", size, time.Since(start), errors.Is(err, os.ErrDeadlineExceeded))
		}, tc.send)
		require.Equal(t, tc.want, got)
	})
}
