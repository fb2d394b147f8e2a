package app

import (
	"context"
	"crypto/x509"
	"net"

	"weir/internal/outbound"
)

// Network stands in for DNS and the wire, so that tests can be every upstream
// there is without leaving the machine. What is left out is the real one. A
// dialler of one's own skips the last look at the address, which is taken when
// the socket is made; the look at what was resolved stays.
type Network struct {
	Resolver outbound.Resolver
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
	RootCAs  *x509.CertPool
}

// over puts the stand-ins into a configuration.
func (n Network) over(c outbound.Config) outbound.Config {
	c.Resolver, c.Dial, c.RootCAs = n.Resolver, n.Dial, n.RootCAs
	return c
}
