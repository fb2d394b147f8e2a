package config

import (
	"net/netip"
	"net/url"

	"weir/internal/policy"
	"weir/schemas"
)

// unreached says of an agent whose URL names an address that its network does not
// reach what would; empty: nothing is known against it. The addresses of other
// names are known when they are called.
func (a Agent) unreached() string {
	if !a.refused() {
		return ""
	}
	text := "names an address that network: " + a.Network + " does not reach: every run of it will be denied with " + string(schemas.DenyAddress) + "; "
	for _, network := range []string{policy.NetworkPublic, policy.NetworkLoopback} {
		if a.Network, a.CIDRs = network, nil; !a.refused() {
			return text + "write network: " + network
		}
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		return ""
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		one := netip.PrefixFrom(addr, addr.BitLen()).String()
		if a.Network, a.CIDRs = policy.NetworkPrivate, []string{one}; !a.refused() {
			return text + "write network: private and cidrs: [" + one + "], or a wider range"
		}
	}
	return text + "no network reaches it"
}

// refused reports whether policy denies the address of the agent's URL.
func (a Agent) refused() bool {
	e := a.entry("T") // its name means nothing here
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{e}})
	if err != nil {
		return false
	}
	d := p.Decide(policy.Request{Agent: true, Key: e.Name, Method: "POST", URL: a.base() + schemas.RouteRunSync})
	return d.Check == policy.CheckAddress
}
