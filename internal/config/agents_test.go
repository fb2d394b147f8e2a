package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/internal/policy"
	"weir/schemas"
)

// Every way to get an agent wrong, with the very words an operator reads.
func TestBadAgents(t *testing.T) {
	t.Parallel()
	const at = "weir.yaml:3: agents.T."
	long := strings.Repeat("a", schemas.MaxAgentTask+1)
	for _, tt := range []struct{ text, want string }{
		{"agents: {T: http://h}", "weir.yaml:1: agents.T: is a YAML string; write keys and values below it"},
		{"agents:\n  T:\n    tokn: canary", at + "tokn: unknown key; did you mean token?"},

		{"agents:\n  ECHO:\n    url: http://h", "weir.yaml:2: agents.ECHO: is served by Weir itself; give the agent another task type"},
		{
			"agents:\n  a b: {url: http://h}",
			`weir.yaml:2: agents."a b": is not a task type; write at most 122 letters, digits, dots, underscores, colons and hyphens`,
		},
		{
			"agents:\n  " + long + ": {url: http://h}",
			"weir.yaml:2: agents.\"" + long[:64] + `": is not a task type; write at most 122 letters, digits, dots, underscores, colons and hyphens`,
		},
		{"agents:\n  \"\": {url: http://h}", `weir.yaml:2: agents."": is not a task type; write at most 122 letters, digits, dots, underscores, colons and hyphens`},

		{"agents:\n  T: {}", "weir.yaml:2: agents.T.url: is missing; write where it is, such as https://host.example"},
		{"agents:\n  T:\n    url: localhost:80", at + "url: is not a URL that begins with http:// or https:// and a host"},
		{"agents:\n  T:\n    url: http://me:canary@h", at + "url: holds a user name or a password; put the credential in token"},
		{"agents:\n  T:\n    url: http://h/?canary", at + "url: has a query or a fragment; leave it out"},
		{"agents:\n  T:\n    url: http://h/agents/run/stream", at + "url: ends in a route that is added to it; leave out /agents/run/stream"},
		{"agents:\n  T:\n    url: http://h/canary/agents/run/sync/", at + "url: ends in a route that is added to it; leave out /agents/run/sync"},
		{"agents:\n  T:\n    url: http://h/agents/run/", at + "url: ends in a route that is added to it; leave out /agents/run"},
		{"agents:\n  T:\n    url: 'http://h/%zz'", at + "url: is not a URL that begins with http:// or https:// and a host, such as https://host.example"},
		{"agents:\n  T:\n    url: 'http://h:0'", at + "url: the port is not a number from 1 to 65535"},
		{"agents:\n  T:\n    url: 'http://h\u200b/'", at + "url: the url holds a character"},

		{"agents:\n  T: {url: http://h,\n    mode: poll}", at + "mode: has no such value; use auto, stream or sync"},
		{"agents:\n  T: {url: http://h,\n    timeout: 99ms}", at + "timeout: is 99ms; use 0 or 100ms to 24h"},
		{"agents:\n  T: {url: http://h,\n    concurrency: 0}", at + "concurrency: is 0; use 1 to 10000"},
		{"agents:\n  T: {url: http://h,\n    network: private}", "weir.yaml:2: agents.T.cidrs: missing; a private entry reaches the ranges it names"},
		{"agents:\n  T: {url: http://h, network: private,\n    cidrs: [10.0.0.1/8]}", at + `cidrs: "10.0.0.1/8" is not a range; write its first address and a length, such as 10.0.0.0/8`},
		{"agents:\n  T: {url: http://h,\n    token: Bearer canary}", at + "token: holds a space; write the token alone, Bearer is added to it"},
		{"agents:\n  T: {url: http://h,\n    token: \"can\\u00e9ary\"}", at + "token: the value of Authorization is not printable ASCII of at most 8192 bytes"},
		{"agents:\n  T: {url: http://h,\n    token: \"canary\\r\\nX: y\"}", at + "token: holds a space; write the token alone, Bearer is added to it"},
		{"agents:\n  T: {url: http://h,\n    token: '${canary}'}", at + "token: the value of Authorization has a placeholder that is not ${secret:NAME}"},

		{"policy:\n  allowlist:\n    - name: agent:T\n      url_prefix: http://h/", "weir.yaml:3: policy.allowlist[0].name: \"agent:\" is kept for agents"},
		{"policy:\n  allowlist:\n    - name: a\n      url_prefix: http://h/\n      agent: true", "weir.yaml:5: policy.allowlist[0].agent: unknown key"},
	} {
		told(t, tt.text, tt.want)
	}
	_, err := config.Parse("weir.yaml", []byte("agents:\n  A: {}\n  B: {url: 'http://h', mode: x, timeout: 1ms}\npolicy: {allowed_hosts: ['a b']}"), nil, nil)
	require.Len(t, problems(t, err), 4, "all are told at once")
}

// What an agent is to the room that calls it, and to policy.
func TestAgents(t *testing.T) {
	t.Parallel()
	c := parse(t, full)
	require.Empty(t, c.Agents["acme.translate:v2"].Token)
	require.Equal(t, map[string]schemas.Agent{
		"SUMMARIZE": {
			TaskType: "SUMMARIZE", URL: "https://agents.example.com/summarize", Mode: schemas.AgentSync, Timeout: 20 * time.Minute, Concurrency: 4,
		},
		"acme.translate:v2": {TaskType: "acme.translate:v2", URL: "http://localhost:9001", Mode: schemas.AgentAuto, Concurrency: 32},
	}, c.RunAgents())
	p, err := c.Compile(nil)
	require.NoError(t, err)
	for task, agent := range c.RunAgents() {
		for _, route := range []string{schemas.RouteRunStream, schemas.RouteRunSync} {
			r := policy.Request{Agent: true, Key: schemas.AgentEntry(task), Method: "POST", URL: agent.URL + route, HasBody: true, Body: []byte("{}")}
			d := p.Decide(r)
			require.True(t, d.Allowed, "%s %s: %s", task, route, d.Reason)
			require.Equal(t, schemas.AgentEntry(task), d.Entry)
			permit, _ := d.Permit()
			require.Equal(t, agent.URL+route, permit.URL())
			if task == "SUMMARIZE" {
				require.Equal(t, map[string]string{"Authorization": "Bearer ${secret:AGENT_TOKEN}"}, permit.Added().Headers)
			} else {
				require.Empty(t, permit.Added().Headers)
			}
		}
	}
	require.Empty(t, defaults(t).RunAgents())
	require.Equal(t, 24*time.Hour, schemas.MaxRunTimeout, "the bounds of agents.*.timeout name it")
	p, err = defaults(t).Compile(nil)
	require.NoError(t, err)
	require.Equal(t, defaults(t).Policy.AllowedHosts, p.Hosts())
}

// Where nobody says where an agent lies, its URL does.
func TestNetworkOfAnAgent(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://localhost:1": "loopback", "http://LOCALHOST": "loopback", "http://a.localhost:1/x": "loopback",
		"http://127.0.0.2:1": "loopback", "https://[::1]:1": "loopback",
		"http://agent.example": "public", "https://10.1.2.3": "public", "http://localhost.example": "public",
	} {
		c := parse(t, fmt.Sprintf("agents: {T: {url: %q}}", url))
		require.Equal(t, want, c.Agents["T"].Network, url)
	}
	c := parse(t, "agents: {T: {url: 'http://localhost:1', network: public}}")
	require.Equal(t, "public", c.Agents["T"].Network, "who says so is believed")
}

// An agent on a port of this node's own is never called, and one that is given as
// many runs as there are slots leaves none to the others.
func TestAnAgentThatCannotWork(t *testing.T) {
	t.Parallel()
	const itself = ": is an address of this node, which is never a target: every run of it will be denied with DENY_ADDRESS"
	for text, want := range map[string][]string{
		"{url: 'http://127.0.0.1:8092'}":        {"agents.T.url" + itself},
		"{url: 'http://LocalHost:8092/x'}":      {"agents.T.url" + itself},
		"{url: 'http://[::1]:4222'}":            {"agents.T.url" + itself},
		"{url: 'http://127.0.0.1:8093'}":        nil,
		"{url: 'http://agent.example:8092'}":    nil,
		"{url: 'http://h', concurrency: 63}":    nil,
		"{url: 'http://h', token: canary}":      {"agents.T.url: is plain http to another machine: it exposes the credential in token; use https"},
		"{url: 'https://h', token: canary}":     nil,
		"{url: 'http://h', concurrency: 64}":    {"agents.T.concurrency: is not below workers.slots, 64: its runs may take every slot that there is for runs"},
		"{url: 'http://h', concurrency: 10000}": {"agents.T.concurrency: is not below workers.slots, 64: its runs may take every slot that there is for runs"},
	} {
		require.Equal(t, want, parse(t, "nats: {listen: '127.0.0.1:4222'}\nworkers: {slots: 64}\nagents: {T: "+text+"}").Warnings(), text)
	}
	wide := "listen: '10.1.2.3:80'\nauth: {mode: tokens}\nagents: {T: {url: 'http://10.1.2.3', network: private, cidrs: [10.0.0.0/8]}}"
	require.Equal(t, []string{"agents.T.url" + itself}, parse(t, wide).Warnings())
}

// An address in an agent's URL that its network does not reach is told before the
// first run, with what would reach it.
func TestAnAgentOutOfReach(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{url: 'http://10.1.2.3:80/x'}":                                         "public; set network of entry T to private with cidrs 10.1.2.3/32",
		"{url: 'http://10.1.2.3', network: loopback}":                           "loopback; set network of entry T to private with cidrs 10.1.2.3/32",
		"{url: 'http://10.1.2.3', network: private, cidrs: [192.168.0.0/16]}":   "private; add 10.1.2.3/32 to cidrs of entry T",
		"{url: 'http://[fd12::1]:9'}":                                           "public; set network of entry T to private with cidrs fd12::1/128",
		"{url: 'http://localhost:9', network: public}":                          "public; set network of entry T to loopback",
		"{url: 'http://127.0.0.1:9', network: private, cidrs: [10.0.0.0/8]}":    "private; set network of entry T to loopback",
		"{url: 'https://93.184.216.34', network: loopback}":                     "loopback; set network of entry T to public",
		"{url: 'http://169.254.169.254'}":                                       "public; no network reaches it",
		"{url: 'http://0.0.0.0:9'}":                                             "public; no network reaches it",
		"{url: 'http://10.1.2.3', network: private, cidrs: [10.0.0.0/8]}":       "",
		"{url: 'https://93.184.216.34'}":                                        "",
		"{url: 'https://agent.example', network: private, cidrs: [10.0.0.0/8]}": "",
	} {
		var expected []string
		if network, hint, ok := strings.Cut(want, "; "); ok {
			expected = []string{"agents.T.url: names an address that network: " + network + " does not reach: every run of it will be denied with DENY_ADDRESS; " + hint}
		}
		require.Equal(t, expected, parse(t, "agents: {T: "+text+"}").Warnings(), text)
	}
}
