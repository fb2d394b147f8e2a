package outbound_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/outbound"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// body is a stream that knows whether it was closed, and never reads on after that.
type body struct {
	io.Reader
	once   sync.Once
	closed chan struct{}
}

func newBody(r io.Reader) *body { return &body{Reader: r, closed: make(chan struct{})} }

func (b *body) Close() error {
	b.once.Do(func() {
		close(b.closed)
		if c, ok := b.Reader.(io.Closer); ok {
			_ = c.Close()
		}
	})
	return nil
}

// stuck is a stream that ends only when it is closed; begun is closed when its first
// bytes were taken.
func stuck() (b *body, begun <-chan struct{}) {
	r, w := io.Pipe()
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		_, _ = io.WriteString(w, "hello")
	}()
	return newBody(r), taken
}

func TestStreamedBody(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	for name, sent := range map[string][]byte{"some": []byte("hello"), "empty": nil, "large": large} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.New(t)
			in := newBody(bytes.NewReader(sent))
			resp, err := call(t, client(t, outbound.Config{}), s, "POST", "/", outbound.Request{Stream: in})
			require.NoError(t, err)
			assert.Equal(t, 200, resp.Status)
			<-in.closed
			s.WaitIdle()
			require.Equal(t, []int{1, 1}, []int{s.Hits(), s.Accepted()})
			got := s.Ledger()[0]
			assert.Equal(t, "chunked", got.Header("Transfer-Encoding"))
			assert.True(t, bytes.Equal(sent, got.Body))
		})
	}
}

// TestBrokenBody: what arrives of a body that breaks off is no whole request, and
// the failure says whose it was.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	errOwn := errors.New("the client is gone")
	for name, text := range map[string]string{"at once": "", "mid-way": "hello", "large": strings.Repeat("a", 1<<20)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.New(t)
			in := newBody(io.MultiReader(strings.NewReader(text), iotest.ErrReader(errOwn)))
			_, err := call(t, client(t, outbound.Config{}), s, "POST", "/", outbound.Request{Stream: in})
			failed(t, err, schemas.Canceled, true)
			require.ErrorIs(t, err, outbound.ErrBody)
			require.ErrorIs(t, err, errOwn)
			<-in.closed
			// The call may be over before the server has taken the connection up.
			poll.Until(t, func() bool { return s.Accepted() == 1 })
			s.WaitIdle()
			assert.Zero(t, s.Hits(), "half a request is none")
		})
	}
}

// TestBlockedBody: a body that does not go on keeps nobody: not whoever gives up, nor
// the loss of the connection, nor an answer that came early.
func TestBlockedBody(t *testing.T) {
	t.Parallel()
	early := upstream.Early(func(x *upstream.Exchange) {
		x.Write(upstream.Message("POST", 401, "who are you?"))
	})
	t.Run("given up", func(t *testing.T) {
		t.Parallel()
		s := upstream.New(t)
		in, begun := stuck()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-begun
			cancel()
		}()
		_, err := exchange(ctx, t, client(t, outbound.Config{}), s, "POST", "/", outbound.Request{Stream: in})
		failed(t, err, schemas.Canceled, true)
		<-in.closed
		s.WaitIdle()
		assert.Zero(t, s.Hits())
	})
	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		s := upstream.New(t, upstream.Early(func(*upstream.Exchange) {}))
		in, _ := stuck()
		_, err := call(t, client(t, outbound.Config{}), s, "POST", "/", outbound.Request{Stream: in})
		failed(t, err, schemas.UpstreamReset, true)
		<-in.closed
		s.WaitIdle()
	})
	t.Run("answered early", func(t *testing.T) {
		t.Parallel()
		s := upstream.New(t, early)
		in, _ := stuck()
		resp, err := call(t, client(t, outbound.Config{}), s, "POST", "/", outbound.Request{Stream: in})
		require.NoError(t, err)
		assert.Equal(t, 401, resp.Status)
		assert.Equal(t, "who are you?", string(resp.Body))
		<-in.closed
		s.WaitIdle()
		assert.Equal(t, 1, s.Hits())
	})
}

// deafConn is a connection whose other end takes no more after some bytes, and says
// why a while later.
type deafConn struct {
	net.Conn
	mu    sync.Mutex
	takes int
}

func (c *deafConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.takes -= len(p)
	over := c.takes < 0
	c.mu.Unlock()
	if over {
		return 0, errors.New("it takes no more")
	}
	return len(p), nil
}

// TestDeafUpstream: the answer of an upstream that has stopped to listen is read
// all the same, and the body that it did not want is not read to its end.
func TestDeafUpstream(t *testing.T) {
	t.Parallel()
	permit := public(t, "POST", api)
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		n := upstream.NewNetwork(permitAddr, map[string][][]string{"*": upstream.Answers("93.184.216.34")})
		c := outbound.New(outbound.Config{Resolver: n, Dial: func(context.Context, string, string) (net.Conn, error) {
			return &deafConn{Conn: near, takes: 100 << 10}, nil
		}})
		defer c.Close()
		go func() {
			<-time.After(time.Second)
			_, _ = io.WriteString(far, "HTTP/1.1 413 X\r\nContent-Length: 2\r\n\r\nno")
			_, _ = io.Copy(io.Discard, far)
		}()
		defer far.Close()
		endless := &counting{}
		in := newBody(endless)
		conn := open(t.Context(), t, c, permit)
		resp, err := do(t.Context(), conn, outbound.Request{Stream: in})
		require.NoError(t, err)
		assert.Equal(t, 413, resp.Status)
		<-in.closed
		synctest.Wait()
		assert.Less(t, endless.n, 1<<20)
	})
}

// counting is a stream without an end.
type counting struct{ n int }

func (c *counting) Read(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}
