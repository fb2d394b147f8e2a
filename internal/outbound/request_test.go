package outbound_test

import (
	"cmp"
	"net/url"
	"strings"
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
	always := func(more ...string) []schemas.Header {
		return h(append([]string{"User-Agent", "weir", "Connection", "close"}, more...)...)
	}
	for name, c := range map[string]struct {
		method, target string // default GET and /v1/x
		request        outbound.Request
		want           []schemas.Header // default: what each request has
	}{
		"GET":                        {},
		"a target as it was matched": {target: "/v1/a%20b;c=d,e/!$&'()*+@:~-._?q=%2f%2F&&=x&a=1&a=+?/"},
		"HEAD":                       {method: "HEAD", want: always("Accept-Encoding", "identity")},
		"part of a body": {
			request: outbound.Request{Headers: h("range", "bytes=0-1")}, want: always("Accept-Encoding", "identity", "Range", "bytes=0-1"),
		},
		"POST": {
			method: "POST", request: outbound.Request{Body: []byte(`{"a":1}`), ContentType: "application/json", IdempotencyKey: "k-1"},
			want: always("Content-Length", "7", "Accept-Encoding", "gzip", "Content-Type", "application/json", "Idempotency-Key", "k-1"),
		},
		"the caller's own": {
			method: "POST", request: outbound.Request{
				Headers: h("user-agent", "mine", "CONTENT-TYPE", "text/plain", "x-multi", "1", "X-Multi", "2", "Idempotency-Key", "own", "X-Empty", "", "X-Latin", "caf\xe9"),
				Body:    []byte("x"), ContentType: "application/json", IdempotencyKey: "k",
			},
			want: h("User-Agent", "mine", "Connection", "close", "Content-Length", "1", "Accept-Encoding", "gzip", "Content-Type", "text/plain", "Idempotency-Key", "own", "X-Empty", "", "X-Latin", "caf\xe9", "X-Multi", "1", "X-Multi", "2"),
		},
		"the entry's replace the caller's": {
			request: outbound.Request{
				Headers:  h("Authorization", "mine", "authorization", "mine too", "X-Other", "stays"),
				Injected: h("AUTHORIZATION", "Bearer s", "X-Two", "1", "x-two", "2"),
			},
			want: always("Accept-Encoding", "gzip", "Authorization", "Bearer s", "X-Other", "stays", "X-Two", "1", "X-Two", "2"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.New(t)
			_, cfg := names(s, map[string][][]string{"api.example.com": upstream.Answers("93.184.216.34")})
			method, target := cmp.Or(c.method, "GET"), cmp.Or(c.target, "/v1/x")
			conn := open(t.Context(), t, client(t, cfg), public(t, method, "http://api.example.com"+target))
			defer conn.Close()
			_, err := do(t.Context(), conn, c.request)
			require.NoError(t, err)
			if c.want == nil {
				c.want = always("Accept-Encoding", "gzip")
			}
			got := s.Ledger()[0]
			assert.Equal(t, []string{method, target, "HTTP/1.1"}, []string{got.Method, got.Target, got.Proto})
			assert.Equal(t, append(h("Host", "api.example.com"), c.want...), got.Headers)
			assert.Equal(t, string(c.request.Body), string(got.Body))
		})
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
	in := newBody(strings.NewReader("hello"))
	_, err := call(t, c, s, "POST", "/", outbound.Request{Stream: in, Headers: []schemas.Header{{Name: "Connection", Value: "x"}}})
	failed(t, err, schemas.DenyHeader, false)
	<-in.closed // nobody reads on
	s.WaitIdle()
	assert.Zero(t, s.Hits())
}

// TestQueryOfTheEntry: its parameters follow the caller's query, of which no byte
// is changed.
func TestQueryOfTheEntry(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, c := range []struct {
		target string
		query  []schemas.Header
		want   string
	}{
		{"/v1/x", nil, "/v1/x"},
		{"/v1/x", []schemas.Header{{Name: "k", Value: "v"}}, "/v1/x?k=v"},
		{"/v1/x?", []schemas.Header{{Name: "k", Value: "v"}}, "/v1/x?k=v"},
		{"/v1/x?a=1", []schemas.Header{{Name: "k", Value: "v"}, {Name: "l", Value: ""}}, "/v1/x?a=1&k=v&l="},
		{"/v1/x?a=1&", []schemas.Header{{Name: "k", Value: "v"}}, "/v1/x?a=1&k=v"},
		{"/v1/x?a=?", []schemas.Header{{Name: "k", Value: "v"}}, "/v1/x?a=?&k=v"},
		{"/v1/x?a=%2f%2F&&=+", []schemas.Header{{Name: "k", Value: "v"}}, "/v1/x?a=%2f%2F&&=+&k=v"},
		{"/v1/x", []schemas.Header{{Name: "a b[]", Value: "p@ss &=+#?/%;é\n"}}, "/v1/x?a%20b%5B%5D=p%40ss%20%26%3D%2B%23%3F%2F%25%3B%C3%A9%0A"},
		{"/v1/x?a=1", []schemas.Header{{Name: "k", Value: string(all)}}, "/v1/x?a=1&k=" + strings.ReplaceAll(url.QueryEscape(string(all)), "+", "%20")},
	} {
		s := upstream.New(t)
		_, cfg := names(s, map[string][][]string{"api.example.com": upstream.Answers("93.184.216.34")})
		conn := open(t.Context(), t, client(t, cfg), public(t, "GET", "http://api.example.com"+c.target))
		_, err := do(t.Context(), conn, outbound.Request{Query: c.query})
		require.NoError(t, err)
		got := s.Ledger()
		require.Len(t, got, 1)
		assert.Equal(t, c.want, got[0].Target)
		_, raw, _ := strings.Cut(got[0].Target, "?")
		values, err := url.ParseQuery(strings.ReplaceAll(raw, ";", "%3B"))
		require.NoError(t, err)
		for _, q := range c.query {
			assert.Equal(t, []string{q.Value}, values[q.Name], "read back by net/url")
		}
	}
}
