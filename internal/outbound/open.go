package outbound

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"weir/internal/fault"
	"weir/internal/policy"
	"weir/schemas"
)

// Reuse says which idle connections a call may use.
type Reuse int

const (
	// Fresh is none, and its own is closed after it.
	Fresh Reuse = iota
	// Spare is one that has carried nothing, for a call that may not be repeated. Where such calls follow
	// each other within seconds, a connection is dialled ahead for the next.
	Spare
	// Kept is one that has carried other calls, for a call that may be repeated. It is kept after it.
	Kept
)

// Open returns a connection to the permit's target for one request of a tenant. An idle one is of
// the tenant, the permit's entry and its policy; its addresses were checked when it was dialled,
// and are once more. Otherwise Open resolves the permit's host once, has every address of the
// answer checked, dials them in order until one connects, and finishes TLS. No byte of the request
// has left when it returns, so every error is a *fault.Call with Sent false: DENY_ADDRESS,
// UPSTREAM_DNS, UPSTREAM_CONNECT and UPSTREAM_TLS, each also for the phase's own time limit;
// UPSTREAM_TIMEOUT when ctx's deadline passed, CANCELED when ctx was canceled. The permit must not
// change after this.
func (c *Client) Open(ctx context.Context, p *policy.Permit, tenant string, reuse Reuse) (*Conn, error) {
	if !p.Valid() || p.Method() == policy.MethodConnect {
		return nil, &fault.Call{Code: schemas.DenyAddress, Cause: ErrNoPermit}
	}
	var l *link
	if reuse != Fresh {
		k := keyOf(p, tenant, reuse == Kept)
		if reuse == Spare {
			defer c.pool.dialAhead(k, p) //nolint:contextcheck // it is for another call
		}
		l = c.pool.get(k, p)
	}
	if l == nil {
		var err error
		if l, err = c.dial(ctx, p); err != nil {
			return nil, err
		}
	}
	conn := &Conn{
		client: c, permit: p, tenant: tenant, link: l, keep: reuse == Kept,
		silent: make(chan struct{}), offered: make(chan struct{}), closeBody: func() {}, most: c.cfg.MaxHeaderBytes + readAhead,
	}
	if c.cfg.Quota != nil {
		conn.quota = c.cfg.Quota(tenant)
	}
	return conn, nil
}

// Connect resolves and dials the target of a tunnel, by the checks and with the errors of Open. It
// puts nothing on the wire. The addresses are all of the answer: a later policy must permit each of
// them.
func (c *Client) Connect(ctx context.Context, p *policy.Permit) (net.Conn, []netip.Addr, error) {
	if !p.Valid() || p.Connect() == "" || p.Method() != policy.MethodConnect {
		return nil, nil, &fault.Call{Code: schemas.DenyAddress, Cause: ErrNoPermit}
	}
	addrs, err := c.resolve(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	conn, err := c.connect(ctx, p, addrs)
	return conn, addrs, err
}

// dial resolves and connects, and puts TLS on the wire: its name is the permit's host, and no client
// certificate is ever sent.
func (c *Client) dial(ctx context.Context, p *policy.Permit) (*link, error) {
	epoch := c.pool.epoch.Load()
	addrs, err := c.resolve(ctx, p)
	if err != nil {
		return nil, err
	}
	conn, err := c.connect(ctx, p, addrs)
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: conn}
	l := &link{Conn: s, socket: s, reader: bufio.NewReaderSize(nil, readAhead), addrs: addrs, born: time.Now(), epoch: epoch}
	if p.Scheme() != "https" {
		return l, nil
	}
	cfg := c.tls.Clone()
	cfg.ServerName = p.Host()
	secure := tls.Client(s, cfg)
	limited, cancel := context.WithTimeout(ctx, tlsTimeout)
	defer cancel()
	if err := secure.HandshakeContext(limited); err != nil {
		_ = conn.Close()
		return nil, unsent(ctx, schemas.UpstreamTLS, err)
	}
	l.Conn = secure
	return l, nil
}

// resolve returns the host's addresses, every one of them checked. It resolves the absolute name once:
// no search list changes it. net.Resolver returns IPv4 addresses in IPv6 form; they are dialled, and
// so checked, in their own.
func (c *Client) resolve(ctx context.Context, p *policy.Permit) ([]netip.Addr, error) {
	addrs := []netip.Addr{p.Addr()}
	if !p.Addr().IsValid() {
		limited, cancel := context.WithTimeout(ctx, dnsTimeout)
		defer cancel()
		var err error
		addrs, err = c.cfg.Resolver.LookupNetIP(limited, "ip", p.Host()+".")
		if n := len(addrs); err == nil && (n == 0 || n > maxAddresses) {
			err = fmt.Errorf("the answer has %d addresses", n)
		}
		if err != nil {
			return nil, unsent(ctx, schemas.UpstreamDNS, err)
		}
		for i := range addrs {
			addrs[i] = addrs[i].Unmap()
		}
	}
	if err := p.CheckAddrs(addrs); err != nil {
		return nil, &fault.Call{Code: schemas.DenyAddress, Cause: err}
	}
	return addrs, nil
}

// connect dials the addresses in order. Each gets an equal share of the time
// that is left, so that one that swallows packets does not cost the others
// their turn.
func (c *Client) connect(ctx context.Context, p *policy.Permit, addrs []netip.Addr) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	dial := c.cfg.Dial
	if dial == nil {
		dial = dialer(p).DialContext
	}
	var failures []error
	for i, addr := range addrs {
		share, done := limited, context.CancelFunc(func() {})
		if end, _ := limited.Deadline(); i < len(addrs)-1 {
			share, done = context.WithTimeout(limited, time.Until(end)/time.Duration(len(addrs)-i))
		}
		conn, err := dial(share, "tcp", netip.AddrPortFrom(addr, p.Port()).String())
		done()
		if err == nil {
			return conn, nil
		}
		if refused, ok := errors.AsType[*fault.Call](err); ok {
			return nil, refused
		}
		failures = append(failures, err)
		if limited.Err() != nil {
			break
		}
	}
	return nil, unsent(ctx, schemas.UpstreamConnect, errors.Join(failures...))
}

// dialer is the network's, for one permit. It checks an address for the last time when the kernel
// has it: whatever happened in between, nothing else is connected to. The text of its error does not
// contain the address.
func dialer(p *policy.Permit) *net.Dialer {
	return &net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		cause := errOtherTarget
		if at, err := netip.ParseAddrPort(address); err == nil && at.Port() == p.Port() {
			cause = p.CheckAddr(at.Addr())
		}
		if cause != nil {
			return &fault.Call{Code: schemas.DenyAddress, Cause: cause}
		}
		return nil
	}}
}

// unsent returns the failure of a phase before sending. A cancellation or deadline of the caller
// takes precedence over the phase's code.
func unsent(ctx context.Context, code schemas.Code, cause error) *fault.Call {
	if own, over := givenUp(ctx); over {
		code = own
	}
	return &fault.Call{Code: code, Cause: networkError{cause}}
}

// givenUp distinguishes a deadline from a cancellation.
func givenUp(ctx context.Context) (schemas.Code, bool) {
	switch err := ctx.Err(); {
	case err == nil:
		return "", false
	case errors.Is(err, context.DeadlineExceeded):
		return schemas.UpstreamTimeout, true
	default:
		return schemas.Canceled, true
	}
}
