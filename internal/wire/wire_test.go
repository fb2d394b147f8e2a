package wire_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/table"
	"weir/internal/wire"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs an ordinary server behind a Listener.
func serve(t *testing.T, cfg wire.Config, h http.HandlerFunc) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wire.Begin(r.Context())
		h(w, r)
	}), ConnContext: wire.Context, MaxHeaderBytes: 8 << 10, ReadHeaderTimeout: 5 * time.Second}
	var conns sync.WaitGroup
	srv.ConnState = func(c net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			conns.Add(1)
		case http.StateClosed:
			conns.Done()
		case http.StateIdle:
			wire.End(c)
		case http.StateActive, http.StateHijacked:
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(wire.Wrap(l, cfg)) }()
	t.Cleanup(func() { _ = srv.Close(); <-done; conns.Wait() })
	return l.Addr().String()
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c := must(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	tcp, ok := c.(*net.TCPConn)
	require.True(t, ok)
	return tcp
}

// response reads the next one.
func response(t *testing.T, from *bufio.Reader) (status int, header http.Header, body string) {
	t.Helper()
	resp, err := http.ReadResponse(from, nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header, string(must(io.ReadAll(resp.Body))(t))
}

// closed reports whether the other side ends the connection without a byte, or
// has done so before there was one.
func closed(c net.Conn) bool {
	if c == nil {
		return true
	}
	n, err := c.Read(make([]byte, 1))
	return n == 0 && err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestCaps(t *testing.T) {
	t.Parallel()
	refused := make(chan string, 10)
	addr := serve(t, wire.Config{Connections: 3, PerPeer: 2, Refused: func(r string) { refused <- r }},
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	// from is nil where the reset of a refusal comes before dialing has ended.
	from := func(ip string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}, Timeout: 5 * time.Second}
		c, err := d.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if errors.Is(err, syscall.ECONNRESET) {
			return nil
		}
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		return c
	}
	served := func(c net.Conn) bool {
		if c == nil {
			return false
		}
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
	poll.Until(t, func() bool { return served(from("127.0.0.1")) }, "a place is free again")
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
		got := wire.Peer(netip.MustParseAddr(tc.a)) == wire.Peer(netip.MustParseAddr(tc.b))
		require.Equal(t, tc.same, got, "%s and %s", tc.a, tc.b)
	}
}

func TestWhatNetHTTPRefusesIsWorded(t *testing.T) {
	t.Parallel()
	answer := func(c schemas.Code) []byte {
		return []byte("HTTP/1.1 499 X\r\nConnection: close\r\nContent-Length: " + "0\r\nCode: " + string(c) + "\r\n\r\n")
	}
	addr := serve(t, wire.Config{Answer: answer}, func(http.ResponseWriter, *http.Request) {})
	type testCase struct {
		raw  string
		code schemas.Code
	}
	table.Run(t, map[string]testCase{
		"two hosts":        {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", schemas.InvalidRequest},
		"no host":          {"GET / HTTP/1.1\r\n\r\n", schemas.InvalidRequest},
		"bad host":         {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", schemas.InvalidRequest},
		"garbage":          {"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", schemas.InvalidRequest},
		"unknown coding":   {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", schemas.InvalidRequest},
		"unknown version":  {"GET / HTTP/3.7\r\nHost: a\r\n\r\n", schemas.InvalidRequest},
		"an expectation":   {"GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", schemas.InvalidRequest},
		"NUL in a value":   {"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", schemas.InvalidRequest},
		"too long a field": {"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", schemas.HeadersTooLarge},
		"too long a path":  {"GET /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", schemas.URITooLong},
	}, func(t *testing.T, tc testCase) {
		c := dial(t, addr)
		go func() { _, _ = io.WriteString(c, tc.raw) }()
		_, header, _ := response(t, bufio.NewReader(c))
		require.Equal(t, string(tc.code), header.Get("Code"))
	})
}

// TestHeadersThatDoNotEnd are answered when their time is over, and a client that has sent
// nothing is not.
func TestHeadersThatDoNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		srv := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.NotFoundHandler()}
		go func() {
			_ = srv.Serve(wire.Wrap(l, wire.Config{Answer: func(c schemas.Code) []byte { return []byte("HTTP/1.1 408 " + string(c)) }}))
		}()
		for head, want := range map[string]string{"GET / HT": "HTTP/1.1 408 REQUEST_TIMEOUT", "GET / HTTP/1.1\r\nHost: a\r\nX": "HTTP/1.1 408 REQUEST_TIMEOUT", "": ""} {
			c, s := net.Pipe()
			l.conns <- s
			must(io.WriteString(c, head))(t)
			got := must(io.ReadAll(c))(t)
			require.Equal(t, want, string(got), head)
		}
		require.NoError(t, srv.Close())
		synctest.Wait()
	})
}

// pipes is a listener of the connections that are put into it.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// TestContentThatLooksLikeARefusalStays: within an answer it is content, and
// what net/http refuses after that answer is worded still.
func TestContentThatLooksLikeARefusalStays(t *testing.T) {
	t.Parallel()
	const text = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	answer := func(schemas.Code) []byte { return []byte("HTTP/1.1 499 X\r\nContent-Length: 0\r\n\r\n") }
	addr := serve(t, wire.Config{Answer: answer}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1+len(text)))
		for _, part := range []string{"x", text} { // each a write of its own
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
	})
	c := dial(t, addr)
	must(io.WriteString(c, strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 2)+"garbage\r\n\r\n"))(t)
	answers := bufio.NewReader(c)
	for range 2 {
		_, _, got := response(t, answers)
		require.Equal(t, "x"+text, got)
	}
	status, _, _ := response(t, answers)
	require.Equal(t, 499, status)
}

// TestBadFramingIsSeenByTheHandler has both verdicts: what net/http refuses by
// itself no handler sees, and of what it serves the handler knows the rest.
func TestBadFramingIsSeenByTheHandler(t *testing.T) {
	t.Parallel()
	const (
		refused  = "net/http refuses it"
		both     = "the body has both a length and a transfer coding"
		noLength = "the length of the body cannot be read"
		post     = "POST / HTTP/1.1\r\nHost: a\r\n"
		chunks   = "\r\n\r\n0\r\n\r\n"
	)
	answer := func(schemas.Code) []byte {
		return []byte("HTTP/1.1 499 X\r\nVerdict: " + refused + "\r\nContent-Length: 0\r\n\r\n")
	}
	addr := serve(t, wire.Config{Answer: answer}, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		w.Header().Set("Verdict", wire.Bad(r.Context()))
		w.Header().Set("Took", strconv.FormatInt(n, 10))
	})
	zeros := strings.Repeat("0", 130)
	type testCase struct{ raw, verdict, took string }
	table.Run(t, map[string]testCase{
		"a length":                    {post + "Content-Length: 5\r\n\r\nabcde", "", "5"},
		"length and coding":           {post + "Content-Length: 5\r\nTransfer-Encoding: chunked" + chunks, both, "0"},
		"two other lengths":           {post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", refused, ""},
		"a coding with a space":       {post + "Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\nabcde", refused, ""},
		"a head in a body with zeros": {post + "Content-Length: " + zeros + "5\r\n\r\nabcde" + post + "Transfer-Encoding: chunked" + chunks, noLength, "0"},
	}, func(t *testing.T, tc testCase) {
		c := dial(t, addr)
		must(io.WriteString(c, tc.raw))(t)
		require.NoError(t, c.CloseWrite())
		var verdict, took string // of the last
		for answers := bufio.NewReader(c); ; {
			resp, err := http.ReadResponse(answers, nil)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			verdict, took = resp.Header.Get("Verdict"), resp.Header.Get("Took")
		}
		require.Equal(t, tc.verdict, verdict)
		require.Equal(t, tc.took, took)
	})
	require.Empty(t, wire.Bad(t.Context()), "a request that came another way")
}

// one is a listener of one connection.
type one struct {
	net.Listener
	conn net.Conn
}

func (l one) Accept() (net.Conn, error) { return l.conn, nil }

// TestAReaderThatTakesSlowlyIsServed: what counts is that it goes on. Nothing
// lies between the two ends, so that each piece waits for the reader.
func TestAReaderThatTakesSlowlyIsServed(t *testing.T) {
	t.Parallel()
	const (
		piece = 64 << 10
		size  = 10*piece + 1
		stall = 5 * time.Second
	)
	type testCase struct {
		pause time.Duration // before each piece is taken
		takes int
		err   error
	}
	table.Run(t, map[string]testCase{
		"slowly":           {stall - time.Millisecond, size, nil},
		"slower than that": {stall + time.Millisecond, 0, os.ErrDeadlineExceeded},
	}, func(t *testing.T, tc testCase) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			c, err := wire.Wrap(one{conn: ours}, wire.Config{Stall: stall}).Accept()
			require.NoError(t, err)
			wrote := make(chan error, 1)
			go func() {
				_, err := c.Write(make([]byte, size))
				wrote <- errors.Join(err, c.Close())
			}()
			start, taken := time.Now(), 0
			for err == nil {
				<-time.After(tc.pause)
				var n int
				n, err = io.ReadFull(theirs, make([]byte, min(piece, max(1, size-taken))))
				taken += n
			}
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, tc.takes, taken)
			require.ErrorIs(t, <-wrote, tc.err)
			require.Greater(t, time.Since(start), stall)
			require.NoError(t, theirs.Close())
		})
	})
}

// accepted is the context of a request on a connection of ours.
func accepted(t *testing.T) context.Context {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	c, err := wire.Wrap(one{conn: ours}, wire.Config{}).Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return wire.Context(context.Background(), c)
}

// TestADroppedAnswer ends with its connection; the next request on it has an answer of its own.
func TestADroppedAnswer(t *testing.T) {
	t.Parallel()
	ctx := accepted(t)
	wire.Begin(ctx)
	require.False(t, wire.Dropped(ctx))
	wire.Drop(ctx)
	require.True(t, wire.Dropped(ctx))
	wire.Begin(ctx)
	require.False(t, wire.Dropped(ctx), "it was another request's")
	wire.Drop(context.Background())
	require.False(t, wire.Dropped(context.Background()), "no connection of ours")
}

// TestAReaderThatTakesNothing does not hold the handler: it is reset after the stall, and an earlier deadline that the
// server sets holds beside the listener's.
func TestAReaderThatTakesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ stall, deadline time.Duration }{"a stall": {200 * time.Millisecond, 0}, "a deadline": {time.Hour, 100 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrote := make(chan error, 1)
			addr := serve(t, wire.Config{Stall: tc.stall}, func(w http.ResponseWriter, _ *http.Request) {
				if tc.deadline > 0 {
					_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(tc.deadline))
				}
				_, err := w.Write(make([]byte, 32<<20))
				wrote <- err
			})
			c := dial(t, addr)
			require.NoError(t, c.SetReadBuffer(4<<10))
			must(io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"))(t)
			require.Error(t, <-wrote)
			if tc.deadline == 0 {
				_, err := io.Copy(io.Discard, c)
				require.Error(t, err, "reset, not ended")
			}
		})
	}
}

// must returns the result of a call that may not fail.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}
