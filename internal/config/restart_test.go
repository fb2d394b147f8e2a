package config_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/internal/policy"
)

func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	parse := func(text string) config.Config {
		c, err := config.Parse("weir.yaml", []byte(text), nil, nil)
		require.NoError(t, err)
		return c
	}
	old := parse("listen: 127.0.0.1:1\n")
	for text, want := range map[string][]string{
		"listen: 127.0.0.1:1\n":                       nil,
		"listen: 127.0.0.1:1\nlog: {partitions: 1}\n": nil, // its default
		"listen: 127.0.0.1:1\npolicy: {allowed_hosts: [a.example], allowlist: [{name: a, url_prefix: 'https://a.example/'}]}\n": nil,
		"listen: 127.0.0.1:1\nagents: {T: {url: 'https://a.example', token: x}}\n":                                              nil,
		"listen: 127.0.0.1:1\ndeadline: {run: 1m}\nlimits: {stream: 1MiB}\n":                                                    {"limits.stream", "deadline.run"},
		"listen: 127.0.0.1:1\nmodels: {m: {url: 'https://a.example', headers: {Authorization: x}}}\n":                           nil,
		"listen: 127.0.0.1:1\nbudgets: {b: {requests: 1}}\n":                                                                    nil,
		"listen: 127.0.0.1:1\ndeadline: {chat: 1m}\nlimits: {chat: 1MiB}\n":                                                     {"limits.chat", "deadline.chat"},
		"listen: 127.0.0.1:1\nrules: {agent_api: false, limit: 1}\n":                                                            {"rules.agent_api", "rules.limit"},
		"listen: 127.0.0.1:2\n": {"listen"},
		"listen: 127.0.0.1:1\nredact_headers: [x]\npolicy: {timeout: 3s}\nworkers: {slots: 7}\n": {"workers.slots", "policy.timeout", "redact_headers"},
	} {
		assert.Equal(t, want, old.NeedsRestart(parse(text)), text)
	}
}

// TestCompileAt: a node that other machines reach is no target by the addresses
// of its machine, on its own ports.
func TestCompileAt(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("weir.yaml", []byte("policy: {allowlist: [{name: a, url_prefix: 'http://a.example:9999/', network: private, cidrs: [10.0.0.0/8]}]}\n"), nil, nil)
	require.NoError(t, err)
	own, other := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("10.1.2.4")
	for port, reachable := range map[uint16]bool{9999: false, 9998: true} {
		p, err := c.CompileAt([]netip.Addr{own}, port)
		require.NoError(t, err)
		permit, ok := p.Decide(policy.Request{Method: "GET", URL: "http://a.example:9999/"}).Permit()
		require.True(t, ok)
		assert.Equal(t, reachable, permit.CheckAddr(own) == nil, "own port %d", port)
		assert.NoError(t, permit.CheckAddr(other))
	}
}
