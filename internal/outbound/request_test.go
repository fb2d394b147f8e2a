package outbound_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/outbound"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// TestWire: what goes out is the permit's parts and the given fields, no more.
func TestWire(t *testing.T) {
	t.Parallel()
	h := func(pairs ...string) (list []schemas.Header) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, schemas.Header{Name: pairs[i], Value: pairs[i+1]})
		}
		return list
	}
	for name, c := range map[string]struct {
		method, target string
		request        outbound.Request
		want           []schemas.Header
	}{
		"GET": {
			method: "GET", target: "/v1/x",
			want: h("User-Agent", "weir", "Connection", "close", "Accept-Encoding", "gzip"),
		},
		"a target as it was matched": {
			method: "GET", target: "/v1/a%20b;c=d,e/!$&'()*+@:~-._?q=%2f%2F&&=x&a=1&a=+?/",
			want: h("User-Agent", "weir", "Connection", "close", "Accept-Encoding", "gzip"),
		},
		"a query of nothing": {
			method: "GET", target: "/v1/x?",
			want: h("User-Agent", "weir", "Connection", "close", "Accept-Encoding", "gzip"),
		},
		"HEAD": {
			method: "HEAD", target: "/v1/x",
			want: h("User-Agent", "weir", "Connection", "close", "Accept-Encoding", "identity"),
		},
		"part of a body": {
			method: "GET", target: "/v1/x", request: outbound.Request{Headers: h("range", "bytes=0-1")},
			want: h("User-Agent", "weir", "Connection", "close", "Accept-Encoding", "identity", "Range", "bytes=0-1"),
		},
		"POST": {
			method: "POST", target: "/v1/x", request: outbound.Request{Body: []byte(`{"a":1}`), ContentType: "application/json", IdempotencyKey: "k-1"},
			want: h("User-Agent", "weir", "Connection", "close", "Content-Length", "7", "Accept-Encoding", "gzip", "Content-Type", "application/json", "Idempotency-Key", "k-1"),
		},
		"POST without a body": {
			method: "POST", target: "/v1/x",
			want: h("User-Agent", "weir", "Connection", "close", "Content-Length", "0", "Accept-Encoding", "gzip"),
		},
		"DELETE with a body": {
			method: "DELETE", target: "/v1/x", request: outbound.Request{Body: []byte("x")},
			want: h("User-Agent", "weir", "Connection", "close", "Content-Length", "1", "Accept-Encoding", "gzip"),
		},
		"the caller's own": {
			method: "POST", target: "/v1/x", request: outbound.Request{
				Headers: h("user-agent", "mine", "CONTENT-TYPE", "text/plain", "x-multi", "1", "X-Multi", "2", "Idempotency-Key", "own", "X-Empty", "", "X-Latin", "caf\xe9"),
				Body:    []byte("x"), ContentType: "application/json", IdempotencyKey: "k",
			},
			want: h("User-Agent", "mine", "Connection", "close", "Content-Length", "1", "Accept-Encoding", "gzip", "Content-Type", "text/plain", "Idempotency-Key", "own", "X-Empty", "", "X-Latin", "caf\xe9", "X-Multi", "1", "X-Multi", "2"),
		},
		"the entry's replace the caller's": {
			method: "GET", target: "/v1/x", request: outbound.Request{
				Headers:  h("Authorization", "mine", "authorization", "mine too", "X-Other", "stays"),
				Injected: h("AUTHORIZATION", "Bearer s", "X-Two", "1", "x-two", "2"),
			},
			want: h("User-Agent", "weir", "Connection", "close", "Accept-Encoding", "gzip", "Authorization", "Bearer s", "X-Other", "stays", "X-Two", "1", "X-Two", "2"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.New(t)
			_, cfg := names(s, map[string][][]string{"api.example.com": upstream.Answers("93.184.216.34")})
			conn, err := client(t, cfg).Open(t.Context(), public(t, c.method, "http://api.example.com"+c.target))
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.Do(t.Context(), c.request)
			require.NoError(t, err)
			got := s.Ledger()[0]
			assert.Equal(t, []string{c.method, c.target, "HTTP/1.1"}, []string{got.Method, got.Target, got.Proto})
			assert.Equal(t, append(h("Host", "api.example.com"), c.want...), got.Headers)
			assert.Equal(t, string(c.request.Body), string(got.Body))
		})
	}
}

func TestHostField(t *testing.T) {
	t.Parallel()
	s := upstream.New(t)
	authority := upstream.NewAuthority(t)
	secure := upstream.NewTLS(t, authority.Config("api.example.com"))
	for target, want := range map[string]string{
		"http://api.example.com/":       "api.example.com",
		"http://api.example.com:80/":    "api.example.com",
		"http://API.Example.com/":       "api.example.com",
		"http://api.example.com:443/":   "api.example.com:443",
		"http://api.example.com:8080/":  "api.example.com:8080",
		"https://api.example.com/":      "api.example.com",
		"https://api.example.com:443/":  "api.example.com",
		"https://api.example.com:80/":   "api.example.com:80",
		"https://api.example.com:8443/": "api.example.com:8443",
	} {
		server := s
		if target[4] == 's' {
			server = secure
		}
		_, cfg := names(server, map[string][][]string{"api.example.com": upstream.Answers("93.184.216.34")})
		cfg.RootCAs = authority.Pool()
		conn, err := client(t, cfg).Open(t.Context(), public(t, "GET", target))
		require.NoError(t, err, target)
		_, err = conn.Do(t.Context(), outbound.Request{})
		require.NoError(t, err, target)
		assert.Equal(t, want, server.Ledger()[server.Hits()-1].Header("Host"), target)
	}
}

// TestFieldsThatFrame: nobody but outbound sets what frames or routes, and no
// value ends its line. Nothing is sent.
func TestFieldsThatFrame(t *testing.T) {
	t.Parallel()
	s := upstream.New(t)
	c := client(t, outbound.Config{})
	for _, bad := range []schemas.Header{
		{Name: "Host", Value: "evil.example"},
		{Name: "host", Value: "evil.example"},
		{Name: "Content-Length", Value: "0"},
		{Name: "Transfer-Encoding", Value: "chunked"},
		{Name: "Connection", Value: "keep-alive"},
		{Name: "Keep-Alive", Value: "1"},
		{Name: "TE", Value: "trailers"},
		{Name: "Trailer", Value: "X"},
		{Name: "Upgrade", Value: "h2c"},
		{Name: "Expect", Value: "100-continue"},
		{Name: "Accept-Encoding", Value: "br"},
		{Name: "Proxy-Authorization", Value: "x"},
		{Name: "Proxy-Connection", Value: "x"},
		{Name: "HTTP2-Settings", Value: "x"},
		{Name: "", Value: "x"},
		{Name: "X Y", Value: "x"},
		{Name: "X:", Value: "x"},
		{Name: "X\r\nHost", Value: "x"},
		{Name: "É", Value: "x"},
		{Name: "X-A", Value: "a\r\nHost: evil"},
		{Name: "X-A", Value: "a\nb"},
		{Name: "X-A", Value: "a\rb"},
		{Name: "X-A", Value: "a\x00b"},
		{Name: "X-A", Value: "\x7f"},
	} {
		for _, r := range []outbound.Request{{Headers: []schemas.Header{bad}}, {Injected: []schemas.Header{bad}}} {
			_, err := call(t, c, s, "POST", "/", r)
			got := failure(t, err, schemas.DenyHeader, false)
			assert.NotContains(t, got.Cause.Error(), "evil")
		}
	}
	for _, r := range []outbound.Request{{ContentType: "a\r\nb"}, {IdempotencyKey: "a\nb"}} {
		_, err := call(t, c, s, "POST", "/", r)
		failed(t, err, schemas.DenyHeader, false)
	}
	s.WaitIdle()
	assert.Zero(t, s.Hits())
}

// TestTheRequestIsNotChanged: what the caller gave may be sent again by him.
func TestTheRequestIsNotChanged(t *testing.T) {
	t.Parallel()
	s := upstream.New(t)
	r := outbound.Request{
		Headers: []schemas.Header{{Name: "b", Value: "1"}, {Name: "a", Value: "2"}}, Injected: []schemas.Header{{Name: "B", Value: "3"}},
		Body: []byte(`{}`), IdempotencyKey: "k",
	}
	var first upstream.Received
	for range 2 {
		_, err := call(t, client(t, outbound.Config{}), s, "POST", "/", r)
		require.NoError(t, err)
		last := s.Ledger()[s.Hits()-1]
		if first.Method == "" {
			first = last
		}
		assert.Equal(t, first.Headers, last.Headers)
		assert.Equal(t, first.Body, last.Body)
	}
	assert.Equal(t, "b", r.Headers[0].Name)
}
