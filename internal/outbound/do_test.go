package outbound_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// TestOneRequestMeansOne: where the standard client sends again in silence,
// the ledger has one.
func TestOneRequestMeansOne(t *testing.T) {
	t.Parallel()
	key := func(name string) outbound.Request {
		return outbound.Request{Body: []byte("{}"), Headers: []schemas.Header{{Name: name, Value: "k"}}}
	}
	for name, c := range map[string]struct {
		method    string
		behaviour upstream.Behaviour
		request   outbound.Request
	}{
		"POST, key, reset":        {"POST", upstream.ResetBeforeResponse(), outbound.Request{Body: []byte("{}"), IdempotencyKey: "k"}},
		"POST, key of the caller": {"POST", upstream.CloseBeforeResponse(), key("Idempotency-Key")},
		"POST, key, the old way":  {"POST", upstream.CloseBeforeResponse(), key("X-Idempotency-Key")},
		"POST, no key":            {"POST", upstream.CloseBeforeResponse(), outbound.Request{Body: []byte("{}")}},
		"POST, no body":           {"POST", upstream.CloseBeforeResponse(), outbound.Request{IdempotencyKey: "k"}},
		"GET":                     {"GET", upstream.CloseBeforeResponse(), outbound.Request{}},
		"DELETE":                  {"DELETE", upstream.ResetBeforeResponse(), outbound.Request{}},
		"GET, 408 and closed":     {"GET", upstream.Raw("HTTP/1.1 408"), outbound.Request{}},
		"POST, streamed, closed":  {"POST", upstream.CloseBeforeResponse(), outbound.Request{Stream: newBody(strings.NewReader("hello")), IdempotencyKey: "k"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.New(t, c.behaviour)
			_, err := call(t, client(t, outbound.Config{}), s, c.method, "/", c.request)
			failed(t, err, schemas.UpstreamReset, true)
			s.WaitIdle()
			assert.Equal(t, 1, s.Hits())
			assert.Equal(t, 1, s.Accepted())
		})
	}
}

func TestSecondDoIsRefused(t *testing.T) {
	t.Parallel()
	s := upstream.New(t)
	conn := open(t.Context(), t, client(t, outbound.Config{}), loopback(t, "POST", s.URL()+"/"))
	_, err := do(t.Context(), conn, outbound.Request{})
	require.NoError(t, err)
	for range 2 {
		in := newBody(strings.NewReader("hello"))
		_, err := do(t.Context(), conn, outbound.Request{Stream: in})
		failed(t, err, schemas.Internal, false)
		require.ErrorIs(t, err, outbound.ErrSpent)
		<-in.closed
	}
	conn.Close()
	conn.Close()
	s.WaitIdle()
	assert.Equal(t, 1, s.Hits())
}

// TestGivenUpBeforeSending: whoever leaves or closes the connection first has sent nothing, and who waits for the first byte
// of a connection that was closed is let go.
func TestGivenUpBeforeSending(t *testing.T) {
	t.Parallel()
	for code, give := range map[schemas.Code]func(cancel func(), conn *outbound.Conn){
		schemas.Canceled:      func(cancel func(), _ *outbound.Conn) { cancel() },
		schemas.UpstreamReset: func(_ func(), conn *outbound.Conn) { conn.Close() },
	} {
		s := upstream.New(t)
		conn := open(t.Context(), t, client(t, outbound.Config{}), loopback(t, "POST", s.URL()+"/"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		give(cancel, conn)
		in := newBody(strings.NewReader("hello"))
		_, err := do(ctx, conn, outbound.Request{Stream: in})
		failed(t, err, code, false)
		<-in.closed
		s.WaitIdle()
		assert.Zero(t, s.Hits())
	}
}

// TestNotSentIsTheTruth: whenever a call is given up, "not sent" means that the
// upstream has nothing, then and later.
func TestNotSentIsTheTruth(t *testing.T) {
	t.Parallel()
	s := upstream.New(t)
	c := client(t, outbound.Config{})
	permit := loopback(t, "POST", s.URL()+"/")
	sent := 0
	for i := range 150 {
		conn := open(t.Context(), t, c, permit)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for range rand.N(i + 1) {
				runtime.Gosched()
			}
			cancel()
		}()
		_, err := do(ctx, conn, outbound.Request{Body: []byte("{}")})
		var call *fault.Call
		if !errors.As(err, &call) || call.Sent {
			sent++
		}
		cancel()
	}
	s.WaitIdle()
	assert.LessOrEqual(t, s.Hits(), sent)
}

// TestLostBeforeSending: the upstream went away while the attempt was being
// written down. Nothing was sent, and that is known, TLS or not.
func TestLostBeforeSending(t *testing.T) {
	t.Parallel()
	authority := upstream.NewAuthority(t)
	for name, s := range map[string]*upstream.Server{
		"plain": upstream.New(t),
		"TLS":   upstream.NewTLS(t, authority.Config("127.0.0.1")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := open(t.Context(), t, client(t, outbound.Config{RootCAs: authority.Pool()}), loopback(t, "POST", s.URL()+"/"))
			s.WaitAccepted(1)
			s.Cut()
			_, err := do(t.Context(), conn, outbound.Request{Body: []byte("{}"), IdempotencyKey: "k"})
			failed(t, err, schemas.UpstreamReset, false)
			assert.Zero(t, s.Hits())
		})
	}
}

// TestLostAtTheFirstByte: the connection breaks between the last look at it and
// the first write. That nothing left is still known.
func TestLostAtTheFirstByte(t *testing.T) {
	t.Parallel()
	n := upstream.NewNetwork(permitAddr, map[string][][]string{"*": upstream.Answers("93.184.216.34")})
	c := client(t, outbound.Config{Resolver: n, Dial: func(context.Context, string, string) (net.Conn, error) {
		return said{words: bytes.NewReader(nil), broken: syscall.EPIPE}, nil
	}})
	conn := open(t.Context(), t, c, public(t, "POST", api))
	_, err := do(t.Context(), conn, outbound.Request{Body: []byte("{}")})
	failed(t, err, schemas.UpstreamReset, false)
}

// TestSpokeFirst: words before the question are no answer to it.
func TestSpokeFirst(t *testing.T) {
	t.Parallel()
	said := make(chan struct{})
	s := upstream.New(t, upstream.OnAccept(func(x *upstream.Exchange) {
		x.Write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
		close(said)
	}))
	conn := open(t.Context(), t, client(t, outbound.Config{}), loopback(t, "GET", s.URL()+"/"))
	<-said
	_, err := do(t.Context(), conn, outbound.Request{})
	failed(t, err, schemas.UpstreamProtocol, false)
	s.WaitIdle()
	assert.Zero(t, s.Hits())
}

// TestAnswer: what an answer is reported as.
func TestAnswer(t *testing.T) {
	t.Parallel()
	s := upstream.New(t, upstream.Respond(http.StatusServiceUnavailable, upstream.Compress("text"),
		upstream.Header("X-B", "2"), upstream.Header("x-a", "1"), upstream.Header("X-b", "1"), upstream.Header("Content-Encoding", "gzip"),
		upstream.Header("Set-Cookie", "b=1"), upstream.Header("Set-Cookie", "a=2"), upstream.Header("Retry-After", "7"),
		upstream.Header("Alt-Svc", `h3="evil.example:443"`), upstream.Header("Location", "/next")))
	resp, err := call(t, client(t, outbound.Config{}), s, "GET", "/", outbound.Request{})
	require.NoError(t, err)
	assert.Equal(t, &outbound.Response{
		Status: 503, Body: []byte("text"), Location: "/next", RetryAfter: 7 * time.Second,
		Headers: []schemas.Header{
			{Name: "alt-svc", Value: `h3="evil.example:443"`},
			{Name: "location", Value: "/next"},
			{Name: "retry-after", Value: "7"},
			{Name: "set-cookie", Value: "b=1"},
			{Name: "set-cookie", Value: "a=2"},
			{Name: "x-a", Value: "1"},
			{Name: "x-b", Value: "2"},
			{Name: "x-b", Value: "1"},
		},
	}, resp)
	assert.Equal(t, 1, s.Accepted(), "Alt-Svc and Location are only reported")
}

func TestAmbiguousFields(t *testing.T) {
	t.Parallel()
	s := upstream.New(t, upstream.Respond(302, "", upstream.Header("Location", "/a"), upstream.Header("Location", "/b"),
		upstream.Header("Retry-After", "1"), upstream.Header("Retry-After", "2")),
		upstream.Respond(302, "", upstream.Header("Retry-After", "1e9")))
	for range 2 {
		resp, err := call(t, client(t, outbound.Config{}), s, "GET", "/", outbound.Request{})
		require.NoError(t, err)
		assert.Empty(t, resp.Location)
		assert.Zero(t, resp.RetryAfter)
		assert.Nil(t, resp.Body)
	}
}

// TestRecheck: a connection that was made under one policy carries a request
// under another only if that one lets every address pass, and the same target.
func TestRecheck(t *testing.T) {
	t.Parallel()
	entry := policy.Entry{Name: "up", URLPrefix: "http://api.example.com/"}
	private, other := entry, entry
	private.Network, private.CIDRs = policy.NetworkPrivate, []string{"10.0.0.0/8"}
	other.Name = "other"
	for name, tt := range map[string]struct {
		permit *policy.Permit
		ok     bool
	}{
		"another policy":  {decide(t, other, "GET", api), true},
		"another network": {decide(t, private, "GET", api), false},
		"another target":  {decide(t, entry, "GET", api+"/b"), false},
		"no permit":       {new(policy.Permit), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.New(t)
			_, cfg := names(s, map[string][][]string{"api.example.com": upstream.Answers("93.184.216.34", "93.184.216.35")})
			conn := open(t.Context(), t, client(t, cfg), decide(t, entry, "GET", api))
			defer conn.Close()
			err := conn.Recheck(tt.permit)
			if !tt.ok {
				failed(t, err, schemas.DenyAddress, false)
				return
			}
			require.NoError(t, err)
			begun := 0
			_, err = do(t.Context(), conn, outbound.Request{Begun: func() { begun++ }})
			require.NoError(t, err)
			assert.Equal(t, 1, begun)
			assert.Equal(t, 1, s.Hits())
		})
	}
}
