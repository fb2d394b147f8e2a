package config

import (
	"net/netip"
	"net/url"

	"weir/internal/policy"
	"weir/schemas"
)

// unreached says of an entry that Weir makes itself, and whose URL names an address
// that its network does not reach, what would; empty: nothing is known against it. The
// addresses of other names are known when they are called. Each call of it is a what.
func unreached(e policy.Entry, call, what string) string {
	if !refused(e, call) {
		return ""
	}
	text := "names an address that network: " + e.Network + " does not reach: every " + what + " of it will be denied with " + string(schemas.DenyAddress) + "; "
	for _, network := range []string{policy.NetworkPublic, policy.NetworkLoopback} {
		if e.Network, e.CIDRs = network, nil; !refused(e, call) {
			return text + "write network: " + network
		}
	}
	u, err := url.Parse(call)
	if err != nil {
		return ""
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		one := netip.PrefixFrom(addr, addr.BitLen()).String()
		if e.Network, e.CIDRs = policy.NetworkPrivate, []string{one}; !refused(e, call) {
			return text + "write network: private and cidrs: [" + one + "], or a wider range"
		}
	}
	return text + "no network reaches it"
}

// refused reports whether policy denies the address of a URL that an entry is for.
func refused(e policy.Entry, call string) bool {
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{e}})
	if err != nil {
		return false
	}
	return p.Decide(policy.Request{Agent: true, Key: e.Name, Method: "POST", URL: call}).Check == policy.CheckAddress
}
