// Package proxy is the forward proxy: it reads CONNECT and requests in absolute form, finds out who
// sends them by Proxy-Authorization, and answers refusals in a way that says what would pass.
package proxy

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/passthrough"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/wire"
	"weir/schemas"
)

// Config of the proxy. Everything is required but Inspector.
type Config struct {
	// Authenticate returns the sender of a request by the token of its Proxy-Authorization header, which
	// is empty if there is none that can be read, and counts the request.
	Authenticate func(ctx context.Context, token string) (ingress.Identity, error)
	// While returns a context that ends when the token does.
	While func(ctx context.Context, token string) (_ context.Context, release func(), err error)
	// Open opens the tunnel to host:port that policy permits.
	Open func(ctx context.Context, who ingress.Identity, authority string) (Tunnel, error)
	// Hint is what would make a denied CONNECT pass; empty: nothing would.
	Hint func(who ingress.Identity, authority string) string
	// Serve stores a request to an absolute URL as an action, and answers; see passthrough.Handler.
	Serve func(c *gin.Context, who ingress.Identity, target, entry string) error
	// Inspector serves the requests in the tunnels whose entries say inspect; nil: the node has no CA.
	Inspector *Inspector
}

// Tunnel is an open tunnel. One of the functions is called.
type Tunnel struct {
	Host, Authority string
	// Carry passes bytes on until the tunnel ends. Early is what the client has sent behind CONNECT.
	Carry func(client net.Conn, early []byte)
	// Inspect has serve end TLS and answer the requests in the tunnel; nil: its entry says tunnel.
	Inspect func(client net.Conn, serve func(client net.Conn) schemas.TunnelEnd)
	// Close gives the tunnel up.
	Close func()
}

// Surface serves the requests to the address of the proxy.
func (p Config) Surface() *ingress.Surface { return surface(p.serve) }

// surface has refusals name their code in a header: a client may not show their body.
func surface(h ingress.Handler) *ingress.Surface {
	return &ingress.Surface{Name: "proxy", Fail: passthrough.Refuse, Routes: []ingress.Route{{Handle: h}}}
}

func (p Config) serve(c *gin.Context) error {
	r := c.Request
	switch {
	case r.Method == http.MethodConnect:
	case !strings.Contains(r.RequestURI, "://") || strings.HasPrefix(r.RequestURI, "/"):
		return fault.New(schemas.InvalidRequest, "this address is a forward proxy, and the request target is no URL; "+
			"send http://host/path or CONNECT host:port, or use Weir's own address")
	case !schemas.KnownMethod(r.Method):
		return unknownMethod(c)
	}
	text := Token(r.Header.Values("Proxy-Authorization"))
	who, err := p.enter(c, text)
	switch {
	case err != nil:
		return err
	case r.Method == http.MethodConnect:
		return p.connect(c, who, text)
	default:
		return p.Serve(c, who, r.RequestURI, "")
	}
}

// unknownMethod refuses a method that is never sent.
func unknownMethod(c *gin.Context) error {
	c.Writer.Header().Set("Allow", strings.Join(schemas.Methods(), ", "))
	return fault.New(schemas.MethodNotAllowed, "the method is not one that is ever sent; use one that Allow names")
}

// enter finds out who sends a request, and whether that one may call anything.
func (p Config) enter(c *gin.Context, text string) (ingress.Identity, error) {
	who, err := p.Authenticate(c.Request.Context(), text)
	if err != nil {
		return who, challenge(c, err)
	}
	ingress.SetTenant(c, who.Tenant)
	return who, fault.Scope(who.Scopes, schemas.ScopeActionsWrite)
}

// connect answers a CONNECT.
func (p Config) connect(c *gin.Context, who ingress.Identity, text string) error {
	if c.Request.ContentLength != 0 {
		return fault.New(schemas.InvalidRequest, "CONNECT has no body; send what is for the target after the answer")
	}
	ctx, release, err := p.While(c.Request.Context(), text)
	if err != nil {
		return err
	}
	defer release()
	authority := c.Request.RequestURI
	tunnel, err := p.Open(ctx, who, authority)
	if err != nil {
		return p.advise(who, authority, err)
	}
	if tunnel.Inspect != nil && p.Inspector == nil {
		tunnel.Close()
		return fault.New(schemas.Unavailable, "the entry says inspect, and this node has no CA; set proxy.ca_cert and proxy.ca_key, and restart it")
	}
	conn, buffered, err := http.NewResponseController(c.Writer).Hijack()
	if err != nil {
		tunnel.Close()
		return err
	}
	defer conn.Close()
	early := rest(buffered.Reader)
	if _, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		tunnel.Close()
		return nil // the client is gone
	}
	if own, ok := conn.(*wire.Conn); ok {
		conn = own.Conn // the kernel copies between sockets alone; the deferred Close is the outer's
	}
	if tunnel.Inspect == nil {
		tunnel.Carry(conn, early)
		return nil
	}
	tunnel.Inspect(conn, func(client net.Conn) schemas.TunnelEnd {
		//nolint:contextcheck // each request in the tunnel has its own
		return p.Inspector.serve(ctx, &begun{client, early}, tunnel, func(c *gin.Context) (ingress.Identity, error) { return p.enter(c, text) })
	})
	return nil
}

// advise adds to a denial what would make the request pass.
func (p Config) advise(who ingress.Identity, authority string, err error) error {
	if denied, ok := errors.AsType[*problem.Error](err); ok && denied.Code.Denied() {
		if hint := p.Hint(who, authority); hint != "" {
			denied.Detail += "; to permit it: " + hint
		}
	}
	return err
}

// rest is what was read and not used.
func rest(r *bufio.Reader) []byte {
	early, _ := r.Peek(r.Buffered()) // it is there
	return early
}

// challenge asks for a token in the way of proxies.
func challenge(c *gin.Context, err error) error {
	p := problem.Of(err)
	if p.Code != schemas.Unauthorized {
		return err
	}
	c.Writer.Header().Set("Proxy-Authenticate", `Basic realm="weir"`)
	p.Status, p.Title = http.StatusProxyAuthRequired, ""
	p.Detail = "the proxy needs a token that is in force; send it in Proxy-Authorization as Bearer or as the password of Basic, " +
		"such as with HTTPS_PROXY=http://weir:TOKEN@HOST:PORT"
	return &p
}

// Token is the Weir token in a Proxy-Authorization header, in any of the forms in which
// passthrough.Token reads Authorization. It is empty unless one header has one.
func Token(fields []string) string {
	if len(fields) != 1 {
		return ""
	}
	return passthrough.Token(http.Header{"Authorization": fields})
}
