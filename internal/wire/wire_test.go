package wire_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/wire"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs an ordinary server behind a Listener.
func serve(t *testing.T, cfg wire.Config, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := &http.Server{Handler: h, ConnContext: wire.Context, MaxHeaderBytes: 8 << 10, ReadHeaderTimeout: 5 * time.Second}
	var conns sync.WaitGroup
	srv.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			conns.Add(1)
		case http.StateClosed:
			conns.Done()
		case http.StateActive, http.StateIdle, http.StateHijacked:
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(wire.Wrap(l, cfg)) }()
	t.Cleanup(func() { _ = srv.Close(); <-done; conns.Wait() })
	return l.Addr().String()
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	tcp, ok := c.(*net.TCPConn)
	require.True(t, ok)
	return tcp
}

// closed reports whether the other side ends the connection without a byte.
func closed(c net.Conn) bool {
	n, err := c.Read(make([]byte, 1))
	return n == 0 && err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestCaps(t *testing.T) {
	t.Parallel()
	refused := make(chan wire.Reason, 10)
	addr := serve(t, wire.Config{Connections: 3, PerPeer: 2, Refused: func(r wire.Reason) { refused <- r }},
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	from := func(ip string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}, Timeout: 5 * time.Second}
		c, err := d.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		return c
	}
	served := func(c net.Conn) bool {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		return err == nil && resp.StatusCode == http.StatusNoContent && resp.Body.Close() == nil
	}
	first, second := from("127.0.0.1"), from("127.0.0.1")
	require.True(t, served(first))
	require.True(t, served(second))
	require.True(t, closed(from("127.0.0.1")), "the third of one peer")
	require.Equal(t, wire.ReasonPeer, <-refused)
	require.True(t, served(from("127.0.0.2")), "another peer is served")
	require.True(t, closed(from("127.0.0.3")), "the fourth of all")
	require.Equal(t, wire.ReasonTotal, <-refused)
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return served(from("127.0.0.1")) }, 10*time.Second, 10*time.Millisecond, "a place is free again")
}

func TestPeersOfIPv6AreNetworks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"::ffff:192.0.2.1", "192.0.2.1", true},
		{"2001:db8::1", "2001:db8::ffff:1", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
	} {
		got := wire.Peer(tc.a) == wire.Peer(tc.b)
		require.Equal(t, tc.same, got, "%s and %s", tc.a, tc.b)
	}
}

func TestWhatNetHTTPRefusesIsWorded(t *testing.T) {
	t.Parallel()
	answer := func(c schemas.Code) []byte {
		return []byte("HTTP/1.1 499 X\r\nConnection: close\r\nContent-Length: " + "0\r\nCode: " + string(c) + "\r\n\r\n")
	}
	addr := serve(t, wire.Config{Answer: answer}, func(http.ResponseWriter, *http.Request) {})
	for name, tc := range map[string]struct {
		raw  string
		code schemas.Code
	}{
		"two hosts":        {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", schemas.InvalidRequest},
		"no host":          {"GET / HTTP/1.1\r\n\r\n", schemas.InvalidRequest},
		"bad host":         {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", schemas.InvalidRequest},
		"garbage":          {"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", schemas.InvalidRequest},
		"unknown coding":   {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", schemas.InvalidRequest},
		"unknown version":  {"GET / HTTP/3.7\r\nHost: a\r\n\r\n", schemas.InvalidRequest},
		"an expectation":   {"GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", schemas.InvalidRequest},
		"NUL in a value":   {"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", schemas.InvalidRequest},
		"too long a field": {"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", schemas.HeadersTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, addr)
			go func() { _, _ = io.WriteString(c, tc.raw) }()
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, string(tc.code), resp.Header.Get("Code"))
		})
	}
}

// TestAnswersOfHandlersStay: a handler's own 400 in plain text is not replaced.
func TestAnswersOfHandlersStay(t *testing.T) {
	t.Parallel()
	addr := serve(t, wire.Config{Answer: func(schemas.Code) []byte { return []byte("HTTP/1.1 499 X\r\nContent-Length: 0\r\n\r\n") }},
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "400 Bad Request")
		})
	c := dial(t, addr)
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
}

func TestBadFramingIsSeenByTheHandler(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 4)
	addr := serve(t, wire.Config{}, func(w http.ResponseWriter, r *http.Request) {
		seen <- wire.Bad(r.Context())
		w.Header().Set("Connection", "close")
	})
	_, err := io.WriteString(dial(t, addr), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	require.NoError(t, err)
	require.Contains(t, <-seen, "both a length and a transfer coding")
	_, err = io.WriteString(dial(t, addr), "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	require.NoError(t, err)
	require.Empty(t, <-seen)
	require.Empty(t, wire.Bad(t.Context()), "a request that came another way")
}

// TestAReaderThatTakesNothingIsReset: the handler is not held by it.
func TestAReaderThatTakesNothingIsReset(t *testing.T) {
	t.Parallel()
	wrote := make(chan error, 1)
	addr := serve(t, wire.Config{Stall: 200 * time.Millisecond}, func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 32<<20))
		wrote <- err
	})
	c := dial(t, addr)
	require.NoError(t, c.SetReadBuffer(4<<10))
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	require.Error(t, <-wrote)
	_, err = io.Copy(io.Discard, c)
	require.Error(t, err, "reset, not ended")
}

// TestAReaderThatTakesSlowlyIsServed: what counts is that it goes on.
func TestAReaderThatTakesSlowlyIsServed(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	addr := serve(t, wire.Config{Stall: 5 * time.Second}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, size))
	})
	c := dial(t, addr)
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	n, err := io.Copy(io.Discard, c)
	require.NoError(t, err)
	require.Greater(t, n, int64(size))
}

// TestAnEarlierDeadlineHolds: one that the server sets beside the listener's.
func TestAnEarlierDeadlineHolds(t *testing.T) {
	t.Parallel()
	wrote := make(chan error, 1)
	addr := serve(t, wire.Config{Stall: time.Hour}, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, err := w.Write(make([]byte, 32<<20))
		wrote <- err
	})
	c := dial(t, addr)
	require.NoError(t, c.SetReadBuffer(4<<10))
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	require.Error(t, <-wrote)
}

func TestContextOfAnotherConnection(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	ctx := context.Background()
	require.Equal(t, ctx, wire.Context(ctx, a))
}
