// Package outbound is the one way out: it resolves a permitted host once,
// dials an address that policy checked, and makes exactly one request. It never retries,
// follows no redirect and reads no proxy from the environment, so that one call of
// Stream is at most one request on the wire, and a failure before the first byte is known as
// such.
//
// It speaks HTTP/1.1 only. A connection that has carried a whole exchange is kept for the tenant's
// next call of the same entry that may be repeated: a target may close an idle one just as a request
// leaves, and then it is not known what it has read.
package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Resolver finds a host's addresses. It receives absolute names, with their dot at the end, so that
// no search list can change them.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// These bound what an upstream can do to Weir before and beside its answer.
const (
	dnsTimeout      = 5 * time.Second // the one lookup
	connectTimeout  = 3 * time.Second // all addresses together
	tlsTimeout      = 5 * time.Second // the handshake
	maxAddresses    = 32              // in the answer of a lookup
	maxHeaderFields = 256             // in a response
)

// Config bounds what an upstream can do to Weir. The zero value of each limit
// is its default.
type Config struct {
	// Resolver is called once a connection; nil is the host's own.
	Resolver Resolver
	// Dial connects to a checked address, given as IP and port; nil is the
	// network. Replacing it is for tests: only the default checks the address
	// a last time when the socket is made.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// RootCAs are trusted to sign upstreams' certificates; nil is the host's set.
	RootCAs *x509.CertPool

	HeaderTimeout  time.Duration // from the start of sending to the end of the response's headers; default 10 s
	BodyTimeout    time.Duration // from there to the end of the body; default 30 s
	MaxHeaderBytes int64         // of a response, interim ones included; default 64 KiB
	MaxBodyBytes   int64         // of a response, decoded; default 8 MiB

	// Quota limits the size of a tenant's answers; nil: the limits above apply. See Open.
	Quota func(tenant string) Quota
}

// Quota bounds one tenant's answers beside the limits of a client.
type Quota struct {
	// Bytes is the most that one answer's body may have, decoded.
	Bytes int64
	// Reserve is called once for an answer of more than 256 KiB before more of it is read, with the
	// most that it may have. It waits until there is memory for that or ctx has ended, and returns what
	// the answer may have then, at most n.
	Reserve func(ctx context.Context, n int64) (granted int64, release func(), err error)
}

func (c Config) withDefaults() Config {
	if c.Resolver == nil {
		c.Resolver = newSystem()
	}
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, 10*time.Second)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, 30*time.Second)
	c.MaxHeaderBytes = cmp.Or(c.MaxHeaderBytes, 64<<10)
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, 8<<20)
	return c
}

// Client opens guarded connections. It is safe for concurrent use.
type Client struct {
	cfg  Config
	tls  *tls.Config
	pool *pool
	// writers are buffers of requests, *bufio.Writer.
	writers sync.Pool
}

// New returns a client with cfg's limits.
func New(cfg Config) *Client {
	cfg = cfg.withDefaults()
	c := &Client{
		cfg: cfg,
		tls: &tls.Config{
			RootCAs:    cfg.RootCAs,
			MinVersion: tls.VersionTLS12,
			NextProtos: []string{"http/1.1"},

			ClientSessionCache: tls.NewLRUClientSessionCache(0),
		},
	}
	c.pool = newPool(c.dial)
	return c
}

// Close closes the idle connections, and keeps no others from now on. Connections in use belong to
// their callers.
func (c *Client) Close() { c.pool.clear(true) }

// Forget closes the idle connections, and keeps none of those in use: no later call uses a
// connection that an earlier policy permitted.
func (c *Client) Forget() { c.pool.clear(false) }

// Operator returns a client for an address that the operator has named for the node's own
// sake, such as a collector of traces: no call of an action's goes by it, and no policy. It
// uses no proxy and follows no redirect, so that what it sends goes where the configuration
// says and nowhere else. It is the caller's to close its idle connections.
func Operator() *http.Client {
	return &http.Client{
		Timeout:       10 * time.Second,
		Transport:     &http.Transport{ForceAttemptHTTP2: true, MaxIdleConns: 2, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// networkError is the cause of a network failure. The wrapped error is for errors.Is only: net's errors
// name addresses, crypto/tls's quote certificates, and net/http's quote the upstream.
type networkError struct{ cause error }

func (networkError) Error() string   { return "the network failed" }
func (e networkError) Unwrap() error { return e.cause }
