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
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/githttp"
	"weir/internal/gitwire"
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
	return githttp.NewBody(httptest.NewRecorder(), r, githttp.Limits{Bytes: limit, Idle: time.Minute, Total: time.Minute})
}

func TestBody(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	for name, tc := range map[string]struct {
		raw, coding, want string
		limit             int64
		err               error
	}{
		"plain":                {"abc", "", "abc", 3, nil},
		"identity":             {"abc", "Identity", "abc", 3, nil},
		"empty":                {"", "", "", 3, nil},
		"too long":             {"abcd", "", "abc", 3, gitwire.ErrTooLarge},
		"gzip":                 {zipped(t, "abc"), "gzip", "abc", 99, nil},
		"x-gzip":               {zipped(t, "abc"), "X-GZIP", "abc", 99, nil},
		"gzip, empty":          {"", "gzip", "", 99, nil},
		"gzip, two of them":    {zipped(t, "abc") + zipped(t, "def"), "gzip", "abcdef", 99, nil},
		"gzip, a bomb":         {zipped(t, long), "gzip", long[:50_000], 50_000, gitwire.ErrTooLarge},
		"gzip, to the limit":   {zipped(t, long), "gzip", long, 100_000, nil},
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

func TestOtherCodings(t *testing.T) {
	t.Parallel()
	for _, coding := range [][]string{{"br"}, {"gzip", "gzip"}, {"gzip, gzip"}, {""}, {"deflate"}} {
		_, err := bodyOf(t, "abc", 3, coding...)
		require.Equal(t, schemas.UnsupportedEncoding, code(t, err), "%q", coding)
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

func FuzzBody(f *testing.F) {
	f.Add([]byte("abc"), false, 3)
	f.Add([]byte("\x1f\x8b\b\x00\x00\x00\x00\x00\x00\xffJLJ\x06\x04\x00\x00\xff\xff\xc2A$5\x03\x00\x00\x00"), true, 100)
	f.Fuzz(func(t *testing.T, raw []byte, coded bool, limit int) {
		limit = max(0, min(limit, 1<<16))
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(raw))
		if coded {
			r.Header.Set("Content-Encoding", "gzip")
		}
		body, err := githttp.NewBody(httptest.NewRecorder(), r, githttp.Limits{Bytes: int64(limit), Idle: time.Minute, Total: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(body)
		if len(got) > limit {
			t.Fatalf("%d bytes of %d", len(got), limit)
		}
		if !coded && err == nil && !bytes.Equal(got, raw) {
			t.Fatal("another body")
		}
	})
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

const sent = "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 5\r\n\r\n"

// reading answers with how long a body took, and how it ended.
func reading(limits githttp.Limits) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		// What every request with a body is given first, see the engine.
		_ = http.NewResponseController(w).SetReadDeadline(start.Add(20 * time.Second))
		body, _ := githttp.NewBody(w, r, limits)
		got, err := io.ReadAll(body)
		took := time.Since(start)
		select {
		case <-time.After(time.Hour): // the deadline of the body ends no wait
		case <-r.Context().Done():
			took = 0
		}
		_, _ = fmt.Fprintf(w, "%s %s %t", got, took, errors.Is(err, os.ErrDeadlineExceeded))
	}
}

func TestABodyThatGoesOnMayTakeLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got, _ := exchange(t, reading(githttp.Limits{Bytes: 9, Idle: 30 * time.Second, Total: 10 * time.Minute}), func(client net.Conn) {
			_, _ = io.WriteString(client, sent)
			for _, c := range "abcde" {
				time.Sleep(29 * time.Second)
				_, _ = io.WriteString(client, string(c))
			}
		})
		require.Equal(t, "abcde 2m25s false", got)
	})
}

func TestABodyThatPausesEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limits githttp.Limits
		want   string
	}{
		"a pause":    {githttp.Limits{Bytes: 9, Idle: 28 * time.Second, Total: 10 * time.Minute}, " 28s true"},
		"altogether": {githttp.Limits{Bytes: 9, Idle: 30 * time.Second, Total: time.Minute}, "ab 1m0s true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got, _ := exchange(t, func(w http.ResponseWriter, r *http.Request) {
					start := time.Now()
					body, _ := githttp.NewBody(w, r, tc.limits)
					got, err := io.ReadAll(body)
					w.Header().Set("Connection", "close")
					_, _ = fmt.Fprintf(w, "%s %s %t", got, time.Since(start), code(t, githttp.Refusal(err, "it")) == schemas.RequestTimeout)
				}, func(client net.Conn) {
					_, _ = io.WriteString(client, sent)
					for _, c := range "abcde" {
						time.Sleep(29 * time.Second)
						if _, err := io.WriteString(client, string(c)); err != nil {
							return
						}
					}
				})
				require.Equal(t, tc.want, got)
			})
		})
	}
}
