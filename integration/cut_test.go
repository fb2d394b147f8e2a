//go:build e2e

package integration_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// errCut is what a reader gets whose connection was cut.
var errCut = errors.New("cut")

// cutConn ends its connection, without a farewell, once left bytes were read.
type cutConn struct {
	net.Conn
	left int
}

func (c *cutConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return 0, errors.Join(errCut, c.Close())
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// cutAfter is a client whose one connection ends after so many bytes of answer,
// headers and framing included; below zero it does not.
func cutAfter(bytes int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil || bytes < 0 {
				return conn, err
			}
			return &cutConn{Conn: conn, left: bytes}, nil
		},
	}}
}

// proxy passes connections on to a server and cuts them when it is told to.
type proxy struct {
	URL string

	to       string
	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]bool
}

func newProxy(tb testing.TB, to string) *proxy {
	tb.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(tb, err)
	p := &proxy{URL: "http://" + listener.Addr().String(), to: to, listener: listener, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	tb.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(server, client) })
		p.wg.Go(func() { p.pass(client, server) })
	}
}

// pass copies until either side ends, and then ends both.
func (p *proxy) pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// cut ends every connection there is, without a farewell. New ones may come.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}
