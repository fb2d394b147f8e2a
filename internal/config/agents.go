package config

import (
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/internal/policy"
	"weir/schemas"
)

// Agent is a remote agent: a service that speaks the run contract.
type Agent struct {
	// Where its routes begin: scheme://host[:port][/path]. /agents/run/stream and
	// /agents/run/sync are added to it.
	URL string `yaml:"url" jsonschema:"required"`
	// Which of its routes is asked first: auto, that which the run's caller used, stream or
	// sync. The other one is asked where it does not serve the first. Default auto.
	Mode string `yaml:"mode" jsonschema:"enum=auto,enum=stream,enum=sync"`
	// Bearer token to send; it may be ${secret:NAME}. Default none.
	Token string `yaml:"token"`
	// Time for one call, 100ms to 24h. Default 0: what is left of the run's own.
	Timeout time.Duration `yaml:"timeout"`
	// Where its addresses may lie: public, loopback or private. Default loopback
	// where the URL names this machine, else public.
	Network string `yaml:"network" jsonschema:"enum=public,enum=loopback,enum=private"`
	// What a private one may reach.
	CIDRs []string `yaml:"cidrs"`
	// Runs that one node gives it at a time, 1 to 10000; more wait. Default 32.
	Concurrency int `yaml:"concurrency"`
	// Whether it is told the span of each call, in the header traceparent. Default false.
	Trace bool `yaml:"trace"`
}

const agentConcurrency = 32

// newAgent is what an agent is before the file says anything of it.
func newAgent() Agent { return Agent{Mode: schemas.AgentAuto, Concurrency: agentConcurrency} }

// base is the URL as routes are added to it.
func (a Agent) base() string { return strings.TrimSuffix(a.URL, "/") }

// RunAgents are the remote agents by task type, as those who call them see them.
func (c Config) RunAgents() map[string]schemas.Agent {
	agents := make(map[string]schemas.Agent, len(c.Agents))
	for taskType, a := range c.Agents {
		agents[taskType] = schemas.Agent{TaskType: taskType, URL: a.base(), Mode: a.Mode, Timeout: a.Timeout, Concurrency: a.Concurrency}
	}
	return agents
}

// entries are the policy entries of the agents, in the order of their names, and then
// those of the models.
func (c Config) entries() []policy.Entry {
	entries := make([]policy.Entry, 0, len(c.Agents))
	for _, taskType := range slices.Sorted(maps.Keys(c.Agents)) {
		entries = append(entries, c.Agents[taskType].entry(taskType))
	}
	return append(entries, c.modelEntries()...)
}

func (a Agent) entry(taskType string) policy.Entry {
	e := policy.Entry{
		Name: schemas.AgentEntry(taskType), Agent: true, URLPrefix: a.base() + schemas.RouteRuns, Methods: []string{"POST"},
		Network: a.Network, CIDRs: a.CIDRs,
	}
	if a.Token != "" {
		e.Headers = map[string]string{"Authorization": "Bearer " + a.Token}
	}
	if a.Trace {
		if e.Headers == nil {
			e.Headers = map[string]string{}
		}
		e.Headers["Traceparent"] = policy.TracePlaceholder
	}
	return e
}

// deriveAgents says where an agent lies whose URL tells it.
func deriveAgents(c *Config) {
	for taskType, a := range c.Agents {
		a.Network = networkOf(a.URL, a.Network)
		c.Agents[taskType] = a
	}
}

// local reports whether a URL names this machine.
func local(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && addr.IsLoopback()
}
