package outbound_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// again makes a request that may be repeated.
func again(t *testing.T, c *outbound.Client, p *policy.Permit, r outbound.Request) (*outbound.Response, error) {
	t.Helper()
	conn, err := c.Open(t.Context(), p, "t", outbound.Kept)
	require.NoError(t, err)
	defer conn.Close()
	return do(t.Context(), conn, r)
}

const whole = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"ok\":true}"

// kept answers with a text and keeps the connection.
func kept(text string) upstream.Behaviour {
	return upstream.Answer(func(x *upstream.Exchange) {
		x.Write(text)
		x.KeepAlive()
	})
}

func tcp(conn net.Conn) *net.TCPConn {
	c, _ := conn.(*net.TCPConn)
	return c
}

// TestReuse: a connection that has carried a whole exchange carries the next one, and any
// other does not. No request is made twice, and no answer is another's.
func TestReuse(t *testing.T) {
	t.Parallel()
	early := upstream.Early(func(x *upstream.Exchange) {
		x.Write(whole)
		<-x.Stopped() // the rest is never read: else the request may be whole in time
	})
	for name, tt := range map[string]struct {
		behaviour   upstream.Behaviour
		method      string
		request     outbound.Request
		connections int // for three requests
	}{
		"kept":                          {behaviour: upstream.OK(), connections: 1},
		"compressed":                    {behaviour: upstream.EchoGzip(200), connections: 1},
		"HEAD":                          {behaviour: upstream.OK(), method: "HEAD", connections: 1},
		"before the request is whole":   {behaviour: early, method: "PUT", request: outbound.Request{Body: make([]byte, 16<<20)}, connections: 3},
		"closed without a word":         {behaviour: upstream.Raw(whole), connections: 3},
		"Connection: close":             {behaviour: kept(strings.Replace(whole, "\r\n", "\r\nConnection: close\r\n", 1)), connections: 3},
		"no length":                     {behaviour: upstream.Raw("HTTP/1.1 200 OK\r\n\r\n{}"), connections: 3},
		"a second answer at once":       {behaviour: upstream.RawOpen(whole + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"), connections: 3},
		"a little more than its length": {behaviour: upstream.RawOpen(whole + "x"), connections: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.New(t, tt.behaviour)
			c := client(t, outbound.Config{})
			method := tt.method
			if method == "" {
				method = "GET"
			}
			for n := 1; n <= 3; n++ {
				resp, err := again(t, c, loopback(t, method, s.URL()+"/"), tt.request)
				require.NoError(t, err)
				assert.NotContains(t, string(resp.Body), "forged")
				assert.Equal(t, n, s.Hits())
				if name == "closed without a word" || name == "no length" {
					s.WaitIdle() // a connection that is being closed may still look whole
				}
			}
			assert.Equal(t, tt.connections, s.Accepted())
		})
	}
}

// TestNoReuse: what a target says, or leaves out, when it was not asked spoils no later call.
func TestNoReuse(t *testing.T) {
	t.Parallel()
	const forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
	for name, tt := range map[string]struct {
		behaviour upstream.Behaviour
		idle      func(x *upstream.Exchange) // what it does after a whole answer
		code      schemas.Code
	}{
		"a second answer later": {idle: func(x *upstream.Exchange) { x.Write(forged) }},
		"half closed":           {idle: func(x *upstream.Exchange) { _ = tcp(x.Bare()).CloseWrite() }},
		"closed":                {idle: (*upstream.Exchange).Close},
		"reset":                 {idle: (*upstream.Exchange).Reset},
		"no end of the body":    {behaviour: upstream.InfiniteChunked(), code: schemas.UpstreamTooLarge},
		"no last chunk":         {behaviour: upstream.ChunkedNoTerminator(), code: schemas.UpstreamTruncated},
		"another protocol":      {behaviour: kept("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), code: schemas.UpstreamProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			idle, done := make(chan struct{}), make(chan struct{})
			if tt.idle != nil {
				tt.behaviour = upstream.Answer(func(x *upstream.Exchange) {
					x.Write(whole)
					<-idle
					tt.idle(x)
					close(done)
					x.Await()
				})
			}
			s := upstream.New(t, tt.behaviour, kept(whole))
			c, p := client(t, outbound.Config{MaxBodyBytes: 1 << 10}), loopback(t, "GET", s.URL()+"/")
			_, err := again(t, c, p, outbound.Request{})
			close(idle)
			if tt.idle != nil {
				require.NoError(t, err)
				<-done
			} else {
				failed(t, err, tt.code, true)
			}
			poll.Until(t, func() bool { // what the target did may not have come yet
				resp, err := again(t, c, p, outbound.Request{})
				return err == nil && assert.JSONEq(t, `{"ok":true}`, string(resp.Body))
			})
			assert.Equal(t, 2, s.Accepted())
		})
	}
}

// TestAKeptConnectionThatCloses as the request leaves has that fail, as possibly read; nothing is sent again.
func TestAKeptConnectionThatCloses(t *testing.T) {
	t.Parallel()
	s := upstream.New(t, upstream.CloseReused())
	c, p := client(t, outbound.Config{}), loopback(t, "PUT", s.URL()+"/")
	_, err := again(t, c, p, outbound.Request{Body: []byte("{}")})
	require.NoError(t, err)
	_, err = again(t, c, p, outbound.Request{Body: []byte("{}")})
	failed(t, err, schemas.UpstreamReset, true)
	assert.Equal(t, 2, s.Hits())
	_, err = again(t, c, p, outbound.Request{Body: []byte("{}")})
	require.NoError(t, err)
	assert.Equal(t, []int{3, 2}, []int{s.Hits(), s.Accepted()})
}

// TestWhoMayReuse: a call that may not be repeated gets a connection of its own, and so does one of
// another tenant, entry or policy, or after the client was told to forget.
func TestWhoMayReuse(t *testing.T) {
	t.Parallel()
	entry := policy.Entry{Name: "local", Methods: everyMethod, Network: policy.NetworkLoopback}
	other, narrower := entry, entry
	other.Name, narrower.Methods = "other", []string{"GET"}
	for name, next := range map[string]struct {
		entry  policy.Entry
		tenant string
		reuse  outbound.Reuse
		before func(c *outbound.Client)
		during func(c *outbound.Client)
	}{
		"one that is not repeated":           {entry, "t", outbound.Spare, nil, nil},
		"another entry":                      {other, "t", outbound.Kept, nil, nil},
		"another policy":                     {narrower, "t", outbound.Kept, nil, nil},
		"another tenant":                     {entry, "other", outbound.Kept, nil, nil},
		"told to forget":                     {entry, "t", outbound.Kept, (*outbound.Client).Forget, nil},
		"told to forget while one is in use": {entry, "t", outbound.Kept, nil, (*outbound.Client).Forget},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.New(t)
			c, url := client(t, outbound.Config{}), s.URL()+"/"
			_, err := again(t, c, loopback(t, "GET", url), outbound.Request{})
			require.NoError(t, err)
			if next.before != nil {
				next.before(c)
			}
			next.entry.URLPrefix = s.URL()
			conn, err := c.Open(t.Context(), decide(t, next.entry, "GET", url), next.tenant, next.reuse)
			require.NoError(t, err)
			require.Equal(t, next.during != nil, conn.Used())
			if next.during != nil {
				next.during(c)
			}
			_, err = do(t.Context(), conn, outbound.Request{})
			require.NoError(t, err)
			if next.during != nil {
				_, err = again(t, c, loopback(t, "GET", url), outbound.Request{})
				require.NoError(t, err)
			}
			assert.Equal(t, 2, s.Accepted())
		})
	}
}

// TestSpares: where calls that are not repeated follow each other, each has a connection that has
// carried nothing and was dialled ahead.
func TestSpares(t *testing.T) {
	t.Parallel()
	authority := upstream.NewAuthority(t)
	s := upstream.NewTLS(t, authority.Config("api.example.com"))
	n, cfg := names(s, map[string][][]string{"api.example.com": upstream.Answers("93.184.216.34")})
	cfg.RootCAs = authority.Pool()
	c := client(t, cfg)
	p := public(t, http.MethodPost, "https://api.example.com/")
	for range 4 {
		conn, err := c.Open(t.Context(), p, "t", outbound.Spare)
		require.NoError(t, err)
		assert.False(t, conn.Used())
		_, err = do(t.Context(), conn, outbound.Request{Body: []byte("{}")})
		require.NoError(t, err)
		conn.Close()
		s.WaitAccepted(s.Hits())
	}
	seen := map[int]bool{}
	for _, got := range s.Ledger() {
		assert.Equal(t, "close", got.Header("Connection"))
		seen[got.Conn] = true
	}
	assert.Len(t, seen, 4)
	assert.GreaterOrEqual(t, len(n.Dialed()), 5)
	c.Forget()
	s.WaitIdle()
}
