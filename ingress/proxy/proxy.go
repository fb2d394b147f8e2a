// Package proxy is the forward proxy: it reads CONNECT and requests in absolute form, finds out who
// sends them by Proxy-Authorization, and answers refusals in a way that says what would pass.
package proxy

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/internal/wire"
	"weir/schemas"
)

// Config of the proxy. Everything is required.
type Config struct {
	// Authenticate returns the sender of a request by the token of its Proxy-Authorization header, which
	// is empty if there is none that can be read, and counts the request.
	Authenticate func(ctx context.Context, token string) (ingress.Identity, error)
	// While returns a context that ends when the token does.
	While func(ctx context.Context, token string) (_ context.Context, release func(), err error)
	// Open opens the tunnel to host:port that policy permits.
	Open func(ctx context.Context, who ingress.Identity, authority string) (Tunnel, error)
	// Remedy is what would make a denied CONNECT pass; empty: nothing would.
	Remedy func(who ingress.Identity, authority string) string
}

// Tunnel is an open tunnel. One of the two is called.
type Tunnel struct {
	// Carry passes bytes on until the tunnel ends. Early is what the client has sent behind CONNECT.
	Carry func(client net.Conn, early []byte)
	// Close gives the tunnel up.
	Close func()
}

// New returns the handler of the proxy's requests.
func New(cfg Config) ingress.Handler { return cfg.serve }

func (p Config) serve(c *gin.Context) error {
	token := Token(c.Request.Header.Values("Proxy-Authorization"))
	who, err := p.Authenticate(c.Request.Context(), token)
	if err != nil {
		return challenge(c, err)
	}
	ingress.SetTenant(c, who.Tenant)
	if err := fault.Scope(who.Scopes, schemas.ScopeActionsWrite); err != nil {
		return err
	}
	if c.Request.Method != http.MethodConnect {
		return fault.New(schemas.InvalidRequest, "the proxy serves CONNECT alone; use an https URL")
	}
	return refused(c, p.connect(c, who, token))
}

// connect answers a CONNECT.
func (p Config) connect(c *gin.Context, who ingress.Identity, token string) error {
	if c.Request.ContentLength != 0 {
		return fault.New(schemas.InvalidRequest, "CONNECT has no body; send what is for the target after the answer")
	}
	ctx, release, err := p.While(c.Request.Context(), token)
	if err != nil {
		return err
	}
	defer release()
	authority := c.Request.RequestURI
	tunnel, err := p.Open(ctx, who, authority)
	if err != nil {
		if remedy := p.remedy(who, authority, err); remedy != "" {
			denied, _ := errors.AsType[*problem.Error](err)
			denied.Detail += "; to permit it: " + remedy
		}
		return err
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
		return nil //nolint:nilerr // the client is gone
	}
	if own, ok := conn.(*wire.Conn); ok {
		conn = own.Conn // the kernel copies between sockets alone; the deferred Close is the outer's
	}
	tunnel.Carry(conn, early)
	return nil
}

// remedy is what would make a request pass that policy denied.
func (p Config) remedy(who ingress.Identity, authority string, err error) string {
	if denied, ok := errors.AsType[*problem.Error](err); ok && denied.Code.Denied() {
		return p.Remedy(who, authority)
	}
	return ""
}

// rest is what was read and not used.
func rest(r *bufio.Reader) []byte {
	early, _ := r.Peek(r.Buffered()) // it is there
	return early
}

// refused names the code of a refusal in a header: its client may not show the body.
func refused(c *gin.Context, err error) error {
	if err == nil {
		return nil
	}
	if code := problem.Of(err).Code; code.Denied() || strings.HasPrefix(string(code), "UPSTREAM_") {
		c.Writer.Header().Set("Weir-Refused", string(code))
	}
	return err
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

// maxCredential bounds the header that is read.
const maxCredential = 2048

// Token is the token in a Proxy-Authorization header: of Bearer, or in either half of Basic. It is
// empty unless one header has one.
func Token(fields []string) string {
	if len(fields) != 1 || len(fields[0]) > maxCredential {
		return ""
	}
	scheme, given, _ := strings.Cut(fields[0], " ")
	given = strings.TrimLeft(given, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return given
	case strings.EqualFold(scheme, "Basic"):
		pair, err := base64.StdEncoding.DecodeString(given)
		if err != nil {
			return ""
		}
		user, password, _ := strings.Cut(string(pair), ":")
		if password == "" || task.Is(user) || strings.HasPrefix(user, "weir1_") {
			return user
		}
		return password
	default:
		return ""
	}
}
