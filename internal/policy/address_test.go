package policy_test

import (
	"net/netip"
	"testing"

	"code.dny.dev/ssrf"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// permit asks for the one request that each test of addresses is about.
func permit(tb testing.TB, p *policy.Policy, key, url string) policy.Permit {
	tb.Helper()
	d := p.Decide(policy.Request{Key: key, Method: "GET", URL: url})
	got, ok := d.Permit()
	require.True(tb, ok, "%s %s", d.Code, d.Reason)
	return got
}

func TestCheckAddr(t *testing.T) {
	t.Parallel()
	p := compile(t, policy.Config{
		Entries: []policy.Entry{
			{Name: "public", URLPrefix: "http://a.test:9000/"},
			{Name: "loopback", URLPrefix: "http://a.test:9001/", Network: "loopback"},
			{Name: "selfport", URLPrefix: "http://a.test:9002/", Network: "private", CIDRs: []string{"10.0.0.0/8"}},
			{Name: "private", URLPrefix: "http://a.test:9003/", Network: "private", CIDRs: []string{"10.0.0.0/8", "fd00::/8", "169.254.0.0/16", "168.63.129.16/32", "192.0.2.0/24"}},
			{Name: "everything", URLPrefix: "http://a.test:9004/", Network: "private", CIDRs: []string{"0.0.0.0/0", "::/0"}},
		},
		SelfPorts: []uint16{9002},
		SelfHosts: []string{"203.0.114.9", "[2a00::9]"},
		SelfAddrs: []netip.Addr{addr("10.0.0.5")},
	})
	urls := map[string]string{
		"public": "http://a.test:9000/", "loopback": "http://a.test:9001/", "selfport": "http://a.test:9002/",
		"private": "http://a.test:9003/", "everything": "http://a.test:9004/",
	}
	for key, answers := range map[string]map[string]bool{
		"public": {
			"8.8.8.8": true, "::ffff:8.8.8.8": true, "2a00:1450::1": true, "100.128.0.1": true, "223.255.255.255": true,
			"203.0.114.9": false, "2a00::9": false, "127.0.0.1": false, "::1": false, "10.0.0.1": false, "::ffff:10.0.0.1": false,
			"172.20.0.1": false, "100.64.0.1": false, "169.254.9.9": false, "168.63.129.16": false, "0.0.0.0": false, "::": false,
			"255.255.255.255": false, "239.1.1.1": false, "64:ff9b::808:808": false, "2002:808:808::1": false,
			"2001::1": false, "2001:db8::1": false, "3fff:1::1": false, "fd12::1": false, "fe80::1": false, "fec0::1": false,
			"5f00::1": false, "::8.8.8.8": false, "2620:4f:8000::1": false,
		},
		"loopback": {
			"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true, // how net.Resolver says 127.0.0.1
			"8.8.8.8": false, "10.0.0.1": false, "0.0.0.0": false, "::": false, "169.254.169.254": false,
		},
		"selfport": {"10.0.0.4": true, "10.0.0.5": false},
		"private": {
			"10.0.0.5": true, "10.9.9.9": true, "fd12::1": true, "169.254.1.1": true, "192.0.2.7": true,
			"8.8.8.8": false, "192.168.0.1": false, "127.0.0.1": false, "::1": false,
			"169.254.169.254": false, "169.254.170.2": false, "168.63.129.16": false, "fd00:ec2::254": false, "fd20:ce::254": false,
		},
		"everything": {
			"8.8.8.8": true, "192.168.1.1": true, "fe80::1": true, "fc00::1": true,
			"127.0.0.1": false, "::1": false, "0.0.0.0": false, "224.0.0.1": false, "255.255.255.255": false, "ff02::1": false,
			"100.100.100.200": false, "fe80::a9fe:a9fe": false, "64:ff9b::a9fe:a9fe": false, "2002:a9fe:a9fe::": false, "2001:0:1::1": false,
			"::169.254.169.254": false, "::ffff:0:169.254.169.254": false,
		},
	} {
		pm := permit(t, p, key, urls[key])
		for a, want := range answers {
			err := pm.CheckAddr(addr(a))
			require.Equal(t, want, err == nil, "%s %s: %v", key, a, err)
			if err != nil {
				var denied *policy.DeniedError
				require.ErrorAs(t, err, &denied)
				require.Equal(t, schemas.DenyAddress, denied.Code)
				require.NotContains(t, err.Error(), a)
			}
		}
		require.Error(t, pm.CheckAddr(netip.Addr{}))
		require.Error(t, pm.CheckAddr(addr("fe80::1%eth0")))
	}
}

func TestEveryAddressOfAnAnswerMustPass(t *testing.T) {
	t.Parallel()
	pm := permit(t, shop(t), "shop", "https://shop.test/api/")
	require.NoError(t, pm.CheckAddrs([]netip.Addr{addr("8.8.8.8"), addr("2a00::1")}))
	require.Error(t, pm.CheckAddrs([]netip.Addr{addr("8.8.8.8"), addr("10.0.0.1")}))
	require.Error(t, pm.CheckAddrs([]netip.Addr{addr("::1"), addr("8.8.8.8")}))
	require.Error(t, pm.CheckAddrs(nil))
}

// The tables are held against a list that is generated from IANA's registries:
// whatever it refuses, a public entry refuses at both ends of the range.
func TestPublicRefusesTheRegistries(t *testing.T) {
	t.Parallel()
	pm := permit(t, shop(t), "shop", "https://shop.test/api/")
	for _, prefix := range append(append([]netip.Prefix{ssrf.IPv6NAT64Prefix}, ssrf.IPv4DeniedPrefixes...), ssrf.IPv6DeniedPrefixes...) {
		require.Error(t, pm.CheckAddr(prefix.Addr()), prefix)
		require.Error(t, pm.CheckAddr(last(prefix)), prefix)
		if before := prefix.Addr().Prev(); before.IsValid() && before.Is4() && outside(before) {
			require.NoError(t, pm.CheckAddr(before), "below %s", prefix)
		}
	}
	require.Error(t, pm.CheckAddr(ssrf.IPv6GlobalUnicast.Addr().Prev()))
	require.Error(t, pm.CheckAddr(last(ssrf.IPv6GlobalUnicast).Next()))
}

func outside(a netip.Addr) bool {
	for _, p := range ssrf.IPv4DeniedPrefixes {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// last is the highest address of a range.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
