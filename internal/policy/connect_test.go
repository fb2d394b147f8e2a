package policy_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

func connectPolicy(t *testing.T, more ...policy.Entry) *policy.Policy {
	t.Helper()
	return compile(t, policy.Config{
		Entries: append([]policy.Entry{
			{Name: "git", URLPrefix: "https://git.example/", Connect: policy.ConnectTunnel},
			{Name: "ssh", URLPrefix: "https://git.example:22/", Connect: policy.ConnectTunnel},
			{Name: "api", URLPrefix: "https://api.example/v1", Connect: policy.ConnectInspect, Headers: map[string]string{"Authorization": "Bearer ${secret:API}"}},
			{Name: "plain", URLPrefix: "https://plain.example/"},
			{Name: "lab", URLPrefix: "https://10.1.2.3:8443/", Network: policy.NetworkPrivate, CIDRs: []string{"10.0.0.0/8"}, Connect: policy.ConnectTunnel},
			{Name: "here", URLPrefix: "https://localhost:9443/", Network: policy.NetworkLoopback, Connect: policy.ConnectTunnel},
			{Name: "wrong", URLPrefix: "https://169.254.169.254/", Connect: policy.ConnectTunnel},
		}, more...),
		AllowedHosts: []string{"allowed.example", ".wide.example"},
		SelfPorts:    []uint16{8092},
	})
}

// TestConnect lists targets, the entry that permits each, or the code and the hint of the denial.
func TestConnect(t *testing.T) {
	t.Parallel()
	p := connectPolicy(t)
	for target, want := range map[string][3]string{
		"git.example:443":  {"git"},
		"GIT.example:443":  {"git"},
		"git.example:22":   {"ssh"},
		"api.example:443":  {"api"},
		"10.1.2.3:8443":    {"lab"},
		"localhost:9443":   {"here"},
		"git.example:8443": {"", "DENY_PORT", "use port 443, or an entry for port 8443"},
		"plain.example:443": {
			"", "DENY_METHOD", "set connect of entry plain to tunnel or inspect",
		},
		"allowed.example:443": {
			"", "DENY_METHOD", "add an entry with url_prefix https://allowed.example/ and connect tunnel",
		},
		"a.wide.example:8080": {"", "DENY_METHOD", "add an entry with url_prefix https://a.wide.example:8080/ and connect tunnel"},
		"other.example:443":   {"", "DENY_HOST", "add an entry with url_prefix https://other.example/ and connect tunnel"},
		"10.1.2.4:443":        {"", "DENY_HOST", "add an entry with url_prefix https://10.1.2.4/, network private with cidrs 10.1.2.4/32 and connect tunnel"},
		"localhost:8092":      {"", "DENY_PORT", "use port 9443"},
		"localhost:1":         {"", "DENY_PORT", "use port 9443, or an entry for port 1"},
		"169.254.169.254:80":  {"", "DENY_PORT", ""},
		"169.254.169.254:443": {"", "DENY_ADDRESS", ""},
		"git.example:25":      {"", "DENY_PORT", "use port 587 or 465"},
		"git.example":         {"", "DENY_URL_INVALID", "write host:port, such as example.com:443"},
		"git.example:":        {"", "DENY_URL_INVALID", "write it in digits without leading zeros, or leave out the colon too"},
		"git.example:0":       {"", "DENY_URL_INVALID", "write it in digits without leading zeros, or leave out the colon too"},
		"git.example:65536":   {"", "DENY_URL_INVALID", "write it in digits without leading zeros, or leave out the colon too"},
		"":                    {"", "DENY_URL_INVALID", "write host:port, without a scheme, a path, a query or a fragment"},
		"me@git.example:443":  {"", "DENY_USERINFO", "write host:port alone"},
		"git.example:443#x":   {"", "DENY_URL_INVALID", "write host:port, without a scheme, a path, a query or a fragment"},
		"git.example:443/":    {"", "DENY_URL_INVALID", "write host:port, without a scheme, a path, a query or a fragment"},
		"git.example:443?":    {"", "DENY_URL_INVALID", "write host:port, without a scheme, a path, a query or a fragment"},
		"https://git.example": {"", "DENY_URL_INVALID", "write host:port, without a scheme, a path, a query or a fragment"},
		"git.example.:443":    {"", "DENY_HOST", "write the host in lower case without the trailing dot: git.example"},
		"git .example:443":    {"", "DENY_URL_INVALID", ""},
		"0x7f.1:443":          {"", "DENY_HOST", "write four decimal numbers from 0 to 255 without leading zeros"},
		"[::1%25eth0]:443":    {"", "DENY_URL_INVALID", "write one without a zone"},
	} {
		d := p.Decide(policy.Request{Connect: true, Method: "CONNECT", URL: target})
		require.Equal(t, want[0], map[bool]string{true: d.Entry}[d.Allowed], "%s: %s", target, d.Reason)
		require.Equal(t, schemas.Code(want[1]), d.Code, target)
		x := p.Explain(policy.Request{Method: "connect", URL: target})
		require.Equal(t, d.Decision, x.Decision, target)
		if want[2] != "" {
			require.Equal(t, want[2], x.Remedy, target)
		}
		permit, ok := d.Permit()
		require.Equal(t, d.Allowed, ok)
		if ok {
			require.Equal(t, "CONNECT", permit.Method())
			require.NotEmpty(t, permit.Connect())
			require.Error(t, permit.CheckAddr(netip.MustParseAddr("169.254.169.254")), "the resolved address is checked too")
		}
	}
}

// TestConnectToAnyHost: an entry for any host grants names on two ports, and no address. None grants a port of Weir's own.
func TestConnectToAnyHost(t *testing.T) {
	t.Parallel()
	p := compile(t, policy.Config{SelfPorts: []uint16{8092}, Entries: []policy.Entry{
		{Name: "any", URLPrefix: "*", Connect: policy.ConnectTunnel},
		{Name: "own", URLPrefix: "https://localhost:8092/", Network: policy.NetworkLoopback, Connect: policy.ConnectTunnel},
	}})
	for target, code := range map[string]schemas.Code{
		"a.example:443": "", "a.example:80": "", "a.example:8080": schemas.DenyPort, "localhost:8092": schemas.DenyAddress,
		"93.184.216.34:443": schemas.DenyHost, "[2606:4700::1]:443": schemas.DenyHost, "10.0.0.1:443": schemas.DenyHost,
	} {
		require.Equal(t, code, p.Decide(policy.Request{Connect: true, URL: target}).Code, target)
	}
}

// TestConnectIsAskedForAlone: the method in a request of another kind opens no tunnel, and a token sees its entries only.
func TestConnectIsAskedForAlone(t *testing.T) {
	t.Parallel()
	p := connectPolicy(t, policy.Entry{Name: "soon", URLPrefix: "https://soon.example/", Connect: policy.ConnectTunnel, Mode: policy.ModeShadow})
	for _, url := range []string{"git.example:443", "https://git.example:443/", "https://git.example/"} {
		require.False(t, p.Decide(policy.Request{Method: "CONNECT", URL: url}).Allowed, url)
	}
	require.True(t, p.Decide(policy.Request{Connect: true, URL: "git.example:22", Only: []string{"ssh"}}).Allowed)
	require.Equal(t, schemas.DenyHost, p.Decide(policy.Request{Connect: true, URL: "git.example:22", Only: []string{"api"}}).Code)
	x := p.Explain(policy.Request{Method: "CONNECT", URL: "git.example:22", Only: []string{"api"}})
	require.Equal(t, "use a token whose entries cover this host", x.Remedy)
	shadow := p.Decide(policy.Request{Connect: true, URL: "soon.example:443"})
	require.False(t, shadow.Allowed)
	require.NotNil(t, shadow.Shadow)
	require.True(t, shadow.Shadow.Allowed)
	require.False(t, (*policy.Policy)(nil).Decide(policy.Request{Connect: true, URL: "git.example:443"}).Allowed)
}

func TestConnectOfAnEntry(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]policy.Entry{
		`connect: it is neither tunnel nor inspect`:                     {URLPrefix: "https://h/", Connect: "yes"},
		`connect: inspect ends TLS; begin url_prefix with https://`:     {URLPrefix: "http://h/", Connect: "inspect"},
		`connect: port 25 relays mail, and no entry grants`:             {URLPrefix: "https://h:25/", Connect: "tunnel"},
		`connect: a tunnel hides the path`:                              {URLPrefix: "https://h/v1", Connect: "tunnel"},
		`connect: nothing can be added to a tunnel; remove headers`:     {URLPrefix: "https://h/", Connect: "tunnel", Headers: map[string]string{"X-Key": "k"}},
		`nothing can be added to a tunnel; remove headers, query and b`: {URLPrefix: "https://h/", Connect: "tunnel", Query: map[string]string{"key": "k"}},
	} {
		e.Name = "e"
		_, err := policy.Compile(policy.Config{Entries: []policy.Entry{e}})
		require.ErrorContains(t, err, want)
	}
	_, err := policy.Compile(policy.Config{Entries: []policy.Entry{{Name: "agent:T", URLPrefix: "https://h/", Connect: "tunnel", Agent: true}}})
	require.ErrorContains(t, err, "connect: an agent's entry has none")
}

// TestSameGrant: only a change of the entry itself makes another grant of it.
func TestSameGrant(t *testing.T) {
	t.Parallel()
	ask := policy.Request{Connect: true, URL: "git.example:443"}
	first, _ := connectPolicy(t).Decide(ask).Permit()
	for name, tc := range map[string]struct {
		more policy.Entry
		same bool
	}{
		"another entry": {policy.Entry{Name: "more", URLPrefix: "https://more.example/"}, true},
		"other methods": {policy.Entry{Name: "git", URLPrefix: "https://git.example/", Connect: policy.ConnectTunnel, Methods: []string{"POST"}}, false},
		"inspected":     {policy.Entry{Name: "git", URLPrefix: "https://git.example/", Connect: policy.ConnectInspect}, false},
	} {
		p := connectPolicy(t, tc.more)
		next, ok := p.Renew(first, ask).Permit()
		require.True(t, ok, name)
		require.Equal(t, tc.same, (&first).SameGrant(next), name)
	}
	gone, _ := connectPolicy(t, policy.Entry{Name: "git", URLPrefix: "https://git.example/"}).Renew(first, ask).Permit()
	require.False(t, first.SameGrant(gone))
	require.False(t, new(policy.Permit).SameGrant(policy.Permit{}))
}
