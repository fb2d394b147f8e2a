package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/internal/fault"
	"weir/internal/wire"
	"weir/schemas"
)

// handshakeWithin bounds the TLS handshake of a client.
const handshakeWithin = 10 * time.Second

// Inspector ends TLS in tunnels and hands the connections to an HTTP server, whose listener it is.
// Each request is an action. It is safe for concurrent use.
type Inspector struct {
	ca    *CA
	conns chan net.Conn
	done  chan struct{}
	close sync.Once
}

// NewInspector returns an Inspector that signs with a CA.
func NewInspector(ca *CA) *Inspector {
	return &Inspector{ca: ca, conns: make(chan net.Conn), done: make(chan struct{})}
}

// Accept implements net.Listener.
func (i *Inspector) Accept() (net.Conn, error) {
	select {
	case c := <-i.conns:
		return c, nil
	case <-i.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (i *Inspector) Close() error {
	i.close.Do(func() { close(i.done) })
	return nil
}

// Addr implements net.Listener. The connections come from the tunnels of the proxy.
func (i *Inspector) Addr() net.Addr { return &net.TCPAddr{} }

// inspected is a connection in a tunnel whose TLS has ended here.
type inspected struct {
	*tls.Conn

	authority string // host:port that policy permitted
	host      string
	enter     func(c *gin.Context) (ingress.Identity, error)
	closed    chan struct{}
	once      sync.Once
}

// Close implements net.Conn.
func (x *inspected) Close() error {
	defer x.once.Do(func() { close(x.closed) })
	return x.Conn.Close()
}

type inspectedKey struct{}

// Context has the requests of a connection know their tunnel. It is the ConnContext of the server.
func (i *Inspector) Context(ctx context.Context, c net.Conn) context.Context {
	if outer, ok := c.(*wire.Conn); ok {
		ctx, c = wire.Context(ctx, outer), outer.Conn
	}
	return context.WithValue(ctx, inspectedKey{}, c)
}

var errName = errors.New("TLS asks for another host than the tunnel's")

// serve ends TLS on a connection of a client and returns when the server is done with it.
func (i *Inspector) serve(ctx context.Context, client net.Conn, t Tunnel, enter func(c *gin.Context) (ingress.Identity, error)) schemas.TunnelEnd {
	secure := tls.Server(client, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if hello.ServerName != "" && !strings.EqualFold(hello.ServerName, t.Host) {
				return nil, errName
			}
			return i.ca.leaf(t.Host, time.Now())
		},
	})
	limited, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	switch err := secure.HandshakeContext(limited); {
	case errors.Is(err, errName):
		return schemas.TunnelName
	case err != nil:
		return schemas.TunnelFailed
	}
	x := &inspected{Conn: secure, authority: t.Authority, host: t.Host, enter: enter, closed: make(chan struct{})}
	select {
	case i.conns <- x:
	case <-i.done:
		return schemas.TunnelStopped
	}
	<-x.closed
	return schemas.TunnelClosed
}

// Surface serves the requests in inspected tunnels by serve; see Config.
func (i *Inspector) Surface(serve func(c *gin.Context, who ingress.Identity, target, entry string) error) *ingress.Surface {
	return surface(func(c *gin.Context) error {
		r := c.Request
		x, ok := r.Context().Value(inspectedKey{}).(*inspected)
		switch {
		case !ok:
			return errors.New("the request came in no tunnel")
		case r.Method == http.MethodConnect, !strings.HasPrefix(r.RequestURI, "/"):
			return fault.New(schemas.InvalidRequest, "the request target in a tunnel must be a path")
		case !schemas.KnownMethod(r.Method):
			return unknownMethod(c)
		case !x.is(r.Host):
			return fault.New(schemas.Misdirected, "the Host header names another host than the tunnel; send CONNECT for that host")
		}
		who, err := x.enter(c)
		if err != nil {
			return err
		}
		return serve(c, who, "https://"+strings.TrimSuffix(x.authority, ":443")+r.RequestURI, "")
	})
}

// is reports whether a Host header names the host of the tunnel.
func (x *inspected) is(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.EqualFold(strings.Trim(host, "[]"), x.host)
}

// begun is a connection of which something was read before.
type begun struct {
	net.Conn
	early []byte
}

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.early) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.early)
	b.early = b.early[n:]
	return n, nil
}
