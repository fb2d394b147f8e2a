package outbound_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/schemas"
)

// reader is a TCP server that gives each request's head, line by line, as the
// bytes came, and answers.
func reader(tb testing.TB) (addr string, heads <-chan []string) {
	tb.Helper()
	var cfg net.ListenConfig
	l, err := cfg.Listen(tb.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(tb, err)
	out := make(chan []string, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			out <- readHead(conn)
		}
	}()
	tb.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String(), out
}

func readHead(conn net.Conn) (lines []string) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil || line == "\r\n" {
			break
		}
		lines = append(lines, line)
	}
	_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	return lines
}

// FuzzField: a header field is refused, and then nothing arrives, or it arrives
// as exactly one line that holds exactly it. Whoever gives it, caller or entry.
// What policy lets pass is never refused here.
func FuzzField(f *testing.F) {
	for _, seed := range [][2]string{
		{"X-A", "1"},
		{"x_a", "\xff\xe9"},
		{"X-A", "a\r\nHost: evil"},
		{"X-A\r\nHost", "evil"},
		{"X-A: 1\r\nX-B", "2"},
		{"Host", "evil"},
		{"Transfer-Encoding", "chunked"},
		{"X-A", " \t padded \t"},
		{"X-A", ""},
		{"User-Agent", ""},
		{"User-Agent", "a"},
		{"Content-Type", "a/b"},
		{"content-length", "0"},
		{"X-A", "a\x00b"},
		{"X-A", "a\x0bb"},
		{"!#$%&'*+-.^_`|~", "x"},
		{"Idempotency-Key", "k"},
		{"Accept", "a, b;q=0.5"},
		{"X-A", "\x85\u2028"},
		{"accept-encoding", "br"},
		{"Range", "bytes=0-1"},
		{"Expect", "100-continue"},
		{"Connection", "x-a"},
		{"X A", "1"},
		{"X-A ", "1"},
		{":method", "GET"},
	} {
		f.Add(seed[0], seed[1])
	}
	addr, heads := reader(f)
	compiled, err := policy.Compile(policy.Config{Entries: []policy.Entry{{Name: "x", URLPrefix: "http://93.184.216.34", Methods: everyMethod}}})
	require.NoError(f, err)
	ask := policy.Request{Key: "x", Method: "GET", URL: "http://93.184.216.34/"}
	permit, ok := compiled.Decide(ask).Permit()
	require.True(f, ok)
	c := client(f, outbound.Config{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp4", addr)
	}})
	f.Fuzz(func(t *testing.T, name, value string) {
		h := schemas.Header{Name: name, Value: value}
		asked := ask
		asked.Headers = []schemas.Header{h}
		_, passes := compiled.Decide(asked).Permit()
		for _, r := range []outbound.Request{{Headers: []schemas.Header{h}}, {Injected: []schemas.Header{h}}} {
			conn := open(t.Context(), t, c, permit)
			_, err = conn.Do(t.Context(), r)
			conn.Close()
			head := <-heads
			if err != nil {
				var failed *fault.Call
				if !errors.As(err, &failed) || failed.Code != schemas.DenyHeader || failed.Sent || len(head) != 0 || passes {
					t.Fatalf("%q: %q, policy lets it pass: %v: %v, on the wire %q", name, value, passes, err, head)
				}
				continue
			}
			exactlyOnce(t, h, head)
		}
	})
}

// exactlyOnce: the request line, Host, what every request has, and the field.
func exactlyOnce(t *testing.T, h schemas.Header, head []string) {
	t.Helper()
	own := map[string]bool{"Host": true, "User-Agent": true, "Connection": true, "Accept-Encoding": true}
	found := 0
	for i, line := range head {
		text, ok := strings.CutSuffix(line, "\r\n")
		if !ok || strings.ContainsAny(text, "\r\n\x00") {
			t.Fatalf("line %q", line)
		}
		if i == 0 {
			if text != "GET / HTTP/1.1" {
				t.Fatalf("request line %q", text)
			}
			continue
		}
		name, value, ok := strings.Cut(text, ": ")
		switch {
		case ok && strings.EqualFold(name, h.Name):
			found++
			if value != textproto.TrimString(h.Value) {
				t.Fatalf("%q became %q", h.Value, value)
			}
		case !ok || !own[name]:
			t.Fatalf("%q beside %+v", text, h)
		}
		delete(own, name)
	}
	want := 1
	if strings.EqualFold(h.Name, "User-Agent") && h.Value == "" {
		want = 0 // net/http's way to say: none
	}
	if found != want {
		t.Fatalf("%+v is there %d times: %q", h, found, head)
	}
}
