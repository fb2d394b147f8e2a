package outbound_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sort"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// said is a connection on which everything was said beforehand.
type said struct {
	net.Conn
	words  *bytes.Reader
	broken error // of every write, which then moves nothing
}

func (s said) Read(p []byte) (int, error) { return s.words.Read(p) }
func (s said) Write(p []byte) (int, error) {
	if s.broken != nil {
		return 0, s.broken
	}
	return len(p), nil
}

func (s said) Close() error                     { return nil }
func (s said) RemoteAddr() net.Addr             { return net.TCPAddrFromAddrPort(permitAddr) }
func (s said) LocalAddr() net.Addr              { return s.RemoteAddr() }
func (s said) SetDeadline(time.Time) error      { return nil }
func (s said) SetReadDeadline(time.Time) error  { return nil }
func (s said) SetWriteDeadline(time.Time) error { return nil }

// FuzzAnswer: whatever an upstream says, the call ends, within its limits, in
// an answer or in a failed call that admits to having sent.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		"", "\x16\x03\x01", ok200 + "\r\nbody", ok200 + "Content-Length: 2\r\n\r\nok", ok200 + "Content-Length: 9\r\n\r\nok",
		ok200 + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", ok200 + "Content-Encoding: gzip\r\n\r\n" + upstream.Compress("text"),
		"HTTP/1.1 100 Continue\r\n\r\n" + ok200 + "\r\n", "HTTP/1.1 204 No\r\n\r\n", "HTTP/1.0 302 Found\r\nLocation: /\r\nRetry-After: 1\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n", "HTTP/9.9 200 OK\r\n\r\n", "\n\n\n",
	} {
		f.Add([]byte(seed))
	}
	permit := public(f, "POST", "http://93.184.216.34/")
	const limit = 1000
	f.Fuzz(func(t *testing.T, words []byte) {
		c := outbound.New(outbound.Config{MaxBodyBytes: limit, Dial: func(context.Context, string, string) (net.Conn, error) {
			return said{words: bytes.NewReader(words)}, nil
		}})
		conn, err := c.Open(t.Context(), permit, "", outbound.Fresh)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := do(t.Context(), conn, outbound.Request{Body: []byte("{}")})
		var call *fault.Call
		switch {
		case err == nil:
			sorted := sort.SliceIsSorted(resp.Headers, func(i, j int) bool { return resp.Headers[i].Name < resp.Headers[j].Name })
			if resp.Status < 200 || resp.Status > 599 || len(resp.Body) > limit || !sorted || !bytes.HasPrefix(bytes.TrimLeft(words, "\r\n"), []byte("HTTP/1.")) {
				t.Fatalf("answer %+v", resp)
			}
		case !errors.As(err, &call) || !call.Sent || call.Code == "" || call.Code == schemas.UpstreamTimeout:
			t.Fatalf("failure %+v", err)
		}
	})
}
