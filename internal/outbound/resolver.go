package outbound

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
)

// system is the host's own name resolution without its search list: the hosts
// file first, then DNS with the absolute name. Go reads the hosts file for names
// that are not absolute only, and would then go on to the search list; so that
// question goes to a resolver that cannot reach any DNS server.
type system struct {
	files *net.Resolver
	dns   *net.Resolver
}

var errNoDNS = errors.New("the hosts file alone was asked")

func newSystem() *system {
	refuse := func(context.Context, string, string) (net.Conn, error) { return nil, errNoDNS }
	return &system{
		files: &net.Resolver{PreferGo: true, Dial: refuse},
		dns:   &net.Resolver{PreferGo: true},
	}
}

// LookupNetIP takes an absolute name. localhost is this host whatever the files
// and DNS say (RFC 6761), so that it never leaves it.
func (s *system) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	name := strings.TrimSuffix(host, ".")
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	if addrs, err := s.files.LookupNetIP(ctx, network, name); err == nil && len(addrs) > 0 {
		return addrs, nil
	}
	return s.dns.LookupNetIP(ctx, network, name+".")
}
