package policy

import (
	"net/netip"
	"slices"
)

// ranges are the fixed tables of addresses. They are built once a policy and
// shared by its entries.
type ranges struct {
	// metadata answers every caller with credentials. No entry grants it.
	metadata []netip.Prefix
	// never can be granted by CIDRs: loopback has a network of its own, the
	// rest names no host or carries an IPv4 address past the IPv4 rules.
	never []netip.Prefix
	// special are the special-purpose ranges of IPv4 and, inside 2000::/3, of IPv6.
	special []netip.Prefix
	// unicast is all that is public in IPv6.
	unicast   netip.Prefix
	loopback4 netip.Prefix
	loopback6 netip.Addr
}

func newRanges() ranges {
	return ranges{
		metadata: prefixes(
			"169.254.169.0/24", // AWS, Azure, GCP, OCI, DigitalOcean, OpenStack and others; AWS DNS and time
			"169.254.170.0/24", // AWS task and pod credentials
			"169.254.0.23/32",  // Tencent
			"169.254.42.42/32", // Scaleway
			"168.63.129.16/32", // Azure's wire server, in public space
			"100.100.100.200/32",
			"192.0.0.192/32",      // Oracle classic
			"fd00:ec2::/32",       // AWS
			"fd00:42::42/128",     // Scaleway
			"fd20:ce::254/128",    // GCP
			"fd00:c1::/32",        // OCI
			"fd00:a9fe:a9fe::/48", // Linode
			"fe80::a9fe:a9fe/128",
		),
		never: prefixes(
			"0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4",
			"::/96",                          // unspecified, loopback, IPv4-compatible
			"::ffff:0:0/96",                  // IPv4-mapped
			"::ffff:0:0:0/96",                // IPv4-translated
			"64:ff9b::/96", "64:ff9b:1::/48", // NAT64
			"2001::/32", // Teredo
			"2002::/16", // 6to4
			"ff00::/8",
		),
		special: prefixes(
			"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
			"192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24",
			"192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
			"224.0.0.0/4", "240.0.0.0/4",
			"2001::/23", // IETF assignments: Teredo, benchmarking, ORCHID, AMT, AS112
			"2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
		),
		unicast:   netip.MustParsePrefix("2000::/3"),
		loopback4: netip.MustParsePrefix("127.0.0.0/8"),
		loopback6: netip.IPv6Loopback(),
	}
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

func (r *ranges) isLoopback(a netip.Addr) bool { return r.loopback4.Contains(a) || a == r.loopback6 }

// isPublic holds for addresses that every entry may reach. An IPv4-mapped
// address is outside 2000::/3 and so is not one.
func (r *ranges) isPublic(a netip.Addr) bool {
	if a.Is6() && !r.unicast.Contains(a) {
		return false
	}
	return !within(r.special, a) && !within(r.metadata, a)
}

func within(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// self is what leads back to Weir.
type self struct {
	ports map[uint16]bool
	names map[string]bool
	addrs map[netip.Addr]bool // Weir's alone: every port
	local map[netip.Addr]bool // this machine's: own ports only
}

// checkAddr is the only check of addresses: for literals and for answers of DNS.
func (p *Policy) checkAddr(e *entry, a netip.Addr, port uint16) denial {
	switch {
	case !a.IsValid() || a.Zone() != "":
		return deniedAddressForm
	case within(p.ranges.metadata, a):
		return deniedAddressMetadata
	case p.self.addrs[a]:
		return deniedAddressSelf
	case p.self.ports[port] && (p.ranges.isLoopback(a) || p.self.local[a]):
		return deniedAddressSelf
	}
	switch e.Network {
	case NetworkPublic:
		if !p.ranges.isPublic(a) {
			return deniedAddressSpecial
		}
	case NetworkLoopback:
		if !p.ranges.isLoopback(a) {
			return deniedAddressNotLoopback
		}
	case NetworkPrivate:
		if within(p.ranges.never, a) || !within(e.cidrs, a) {
			return deniedAddressNotGranted
		}
	default:
		return deniedAddressForm
	}
	return nil
}

// checkTarget checks what is known of a target's address before any look-up:
// all of it for a literal, and for a name whether every answer must fail.
func (p *Policy) checkTarget(e *entry, t *target) denial {
	switch {
	case p.self.names[t.Host]:
		return deniedAddressSelf
	case t.addr.IsValid():
		return p.checkAddr(e, t.addr, t.Port)
	case e.Network == NetworkLoopback && p.self.ports[t.Port]:
		return deniedAddressSelf
	case e.Network != NetworkLoopback && loopbackName(t.Host):
		return deniedAddressSpecial
	}
	return nil
}
