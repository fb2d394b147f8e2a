package policy_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

// fleet is a policy with two agents, and with entries and hosts that cover the
// very same URLs.
func fleet() policy.Config {
	return policy.Config{
		Entries: []policy.Entry{
			{Name: "agent:B", Agent: true, URLPrefix: "https://agents.test/agents/run/", Methods: []string{"POST"}, Headers: map[string]string{"Authorization": "Bearer s3cret"}},
			{Name: "shop", URLPrefix: "https://agents.test/agents/run/", Methods: []string{"GET", "POST"}},
			{Name: "agent:A", Agent: true, URLPrefix: "http://localhost:9001/a/agents/run/", Methods: []string{"POST"}, Network: policy.NetworkLoopback},
			{Name: "later", URLPrefix: "https://agents.test/agents/run/", Methods: []string{"POST"}, Mode: policy.ModeShadow},
		},
		AllowedHosts: []string{"wiki.test"},
	}
}

// menagerie is a fleet with the upstreams of two models beside it.
func menagerie() policy.Config {
	c := fleet()
	c.Entries = append(c.Entries,
		policy.Entry{
			Name: "model:far", Agent: true, URLPrefix: "https://models.test/v1", Methods: []string{"GET", "POST"},
			Routes:  []string{"POST /chat/completions", "GET /models"},
			Headers: map[string]string{"Authorization": "Bearer s3cret"},
		},
		policy.Entry{Name: "model:B", Agent: true, URLPrefix: "http://localhost:9002/chat/completions", Methods: []string{"POST"}, Network: policy.NetworkLoopback})
	return c
}

// An agent's entry is for the calls that are made to it, and those have no other; nor have the completions that a
// model's upstream is asked for.
func TestAgentsHaveATableOfTheirOwn(t *testing.T) {
	t.Parallel()
	p := compile(t, menagerie())
	const (
		far = "https://models.test/v1/chat/completions"
		b   = "https://agents.test/agents/run/sync"
		a   = "http://localhost:9001/a/agents/run/stream"
	)
	for _, c := range []struct {
		what, key string
		agent     bool
		method    string
		url       string
		only      []string
		code      schemas.Code
		entry     string
	}{
		{"a call of the agent", "agent:B", true, "POST", b, nil, allowed, "agent:B"},
		{"of the other", "agent:A", true, "POST", a, nil, allowed, "agent:A"},
		{"a token that has it", "agent:B", true, "POST", b, []string{"shop", "agent:B"}, allowed, "agent:B"},
		{"a token that has another", "agent:B", true, "POST", b, []string{"shop", "agent:A"}, schemas.DenyKeyUnknown, ""},
		{"the agent of another URL", "agent:A", true, "POST", b, nil, schemas.DenyScheme, ""},
		{"another method", "agent:B", true, "GET", b, nil, schemas.DenyMethod, "agent:B"},
		{"another path", "agent:B", true, "POST", "https://agents.test/admin", nil, schemas.DenyPath, "agent:B"},
		{"an agent that is not there", "agent:C", true, "POST", b, nil, schemas.DenyKeyUnknown, ""},
		{"an entry that is no agent's", "shop", true, "POST", b, nil, schemas.DenyKeyUnknown, ""},
		{"a shadow", "later", true, "POST", b, nil, schemas.DenyKeyUnknown, ""},
		{"no key, though one fits", "", true, "POST", b, nil, schemas.DenyKeyUnknown, ""},
		{"no key, on an allowed host", "", true, "POST", "https://wiki.test/", nil, schemas.DenyKeyUnknown, ""},

		{"a call that names it", "agent:B", false, "POST", b, nil, schemas.DenyKeyUnknown, ""},
		{"a limited one", "agent:B", false, "POST", b, []string{"agent:B"}, schemas.DenyKeyUnknown, ""},
		{"a call that names none", "", false, "POST", b, nil, allowed, "shop"},
		{"a call where only an agent fits", "", false, "POST", a, nil, schemas.DenyHost, ""},
		{"a token of agents alone", "", false, "POST", b, []string{"agent:B"}, schemas.DenyHost, ""},

		{"a completion", "model:far", true, "POST", far, nil, allowed, "model:far"},
		{"a token that has it", "model:far", true, "POST", far, []string{"model:far"}, allowed, "model:far"},
		{"its models", "model:far", true, "GET", "https://models.test/v1/models", nil, allowed, "model:far"},
		{"the method of another route", "model:far", true, "GET", far, nil, schemas.DenyPath, "model:far"},
		{"another route", "model:far", true, "POST", "https://models.test/v1/files", nil, schemas.DenyPath, "model:far"},
		{"below a route", "model:far", true, "POST", far + "/x", nil, schemas.DenyPath, "model:far"},
		{"the prefix of its routes", "model:far", true, "POST", "https://models.test/v1", nil, schemas.DenyPath, "model:far"},
		{"a route elsewhere", "model:far", true, "POST", "https://models.test/v2/chat/completions", nil, schemas.DenyPath, "model:far"},
		{"a call where only a model fits", "", false, "POST", far, nil, schemas.DenyHost, ""},
	} {
		d := p.Decide(policy.Request{Agent: c.agent, Key: c.key, Method: c.method, URL: c.url, Only: c.only})
		require.Equal(t, c.code, d.Code, c.what)
		if c.entry != "" || c.code != schemas.DenyScheme {
			require.Equal(t, c.entry, d.Entry, c.what)
		}
		permit, ok := d.Permit()
		require.Equal(t, c.code == allowed, ok, c.what)
		require.Equal(t, (c.entry == "agent:B" || c.entry == "model:far") && ok, len(permit.Added().Headers) > 0, c.what)
		if c.agent {
			require.Nil(t, d.Shadow, "%s: no shadow rehearses for an agent", c.what)
		}
	}

	// Who names an agent's entry in a call is told what such entries are for, in the
	// same words whether there is such an agent or not.
	named := p.Decide(policy.Request{Key: "agent:B", Method: "POST", URL: b})
	require.Equal(t, p.Decide(policy.Request{Key: "agent:C", Method: "POST", URL: b}), named)
	require.Equal(t, "entries of agents serve runs alone; send a run of that task type, or use an entry whose name does not begin with agent:", named.Reason)
	limited := func(key string) policy.Decision {
		return p.Decide(policy.Request{Key: key, Method: "POST", URL: b, Only: []string{"shop"}})
	}
	require.Equal(t, limited("nothing"), limited("agent:B"))
	named = p.Decide(policy.Request{Key: "model:far", Method: "POST", URL: far})
	require.Equal(t, "entries of models serve completions alone; ask the model for one, or use an entry whose name does not begin with model:", named.Reason)
	require.Equal(t, named, p.Decide(policy.Request{Key: "model:none", Method: "POST", URL: far}), "whether there is such a model or not")

	text, err := json.Marshal(p.View(time.Time{}, nil, true))
	require.NoError(t, err)
	require.Contains(t, string(text), `"model:far"`)
	require.NotContains(t, string(text), "s3cret")
	require.True(t, p.Reaches("POST", "https://agents.test/agents/run/", false, true))
	require.False(t, p.Reaches("POST", far, true, true), "no run leads to a model")
	require.False(t, p.Reaches("POST", far, true, false))
}

// What explains an ordinary call knows of no agent, in verdicts and in hints.
func TestAgentsAreNotExplained(t *testing.T) {
	t.Parallel()
	p := compile(t, fleet())
	verdicts := func(x schemas.Explanation) (all []string) {
		for _, e := range x.Entries {
			all = append(all, e.Entry)
		}
		return all
	}
	x := p.Explain(policy.Request{Method: "POST", URL: "https://agents.test/agents/run/sync"})
	require.True(t, x.Allowed)
	require.Equal(t, []string{"shop", "later", "host:wiki.test"}, verdicts(x))
	for _, key := range []string{"", "agent:A", "AGENT:A"} {
		x = p.Explain(policy.Request{Key: key, Method: "POST", URL: "http://localhost:9001/a/agents/run/sync"})
		require.False(t, x.Allowed)
		require.NotContains(t, verdicts(x), "agent:A")
		require.NotContains(t, x.Remedy, "agent:", "%q", key)
	}

	r := policy.Request{Key: "agent:B", Method: "POST", URL: "https://agents.test/agents/run/sync"}
	ordinary := p.Explain(r)
	require.Equal(t, schemas.DenyKeyUnknown, ordinary.Code)
	r.Agent = true
	require.Equal(t, ordinary, p.Explain(r), "it says no more to who calls himself an agent's caller")
}

// An agent is held to what every target is: addresses, Weir's own ports, headers.
func TestAgentsAreCheckedLikeEveryTarget(t *testing.T) {
	t.Parallel()
	c := fleet()
	c.SelfPorts = []uint16{9001}
	p := compile(t, c)
	ask := func(key, url string, headers ...schemas.Header) policy.Decision {
		return p.Decide(policy.Request{Agent: true, Key: key, Method: "POST", URL: url, Headers: headers})
	}
	require.Equal(t, schemas.DenyAddress, ask("agent:A", "http://localhost:9001/a/agents/run/sync").Code, "Weir is no agent of its own")
	permit, ok := ask("agent:B", "https://agents.test/agents/run/sync").Permit()
	require.True(t, ok)
	require.NoError(t, permit.CheckAddr(addr("93.184.216.34")))
	require.Error(t, permit.CheckAddr(addr("127.0.0.1")))
	require.Error(t, permit.CheckAddr(addr("169.254.169.254")))
	require.Equal(t, schemas.DenyHeader, ask("agent:B", "https://agents.test/agents/run/sync", schemas.Header{Name: "Authorization", Value: "x"}).Code)
	require.Equal(t, schemas.DenyPath, ask("agent:B", "https://agents.test/agents/run/%2e%2e/x").Code)
	require.Equal(t, schemas.DenyRedirect, permit.Redirect("/agents/run/stream", 307, 1).Code)
}
