package config

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/policy"
	"weir/schemas"
)

// Agent is a remote agent: a service that speaks the run contract.
type Agent struct {
	// Where its routes begin: scheme://host[:port][/path]. /agents/run/stream and /agents/run/sync
	// are added to it.
	URL string `yaml:"url" jsonschema:"required"`
	// Which of its routes is asked first: auto, that which the run's caller used, stream or sync.
	// The other one is asked where it does not serve the first. Default auto.
	Mode string `yaml:"mode" jsonschema:"enum=auto,enum=stream,enum=sync" default:"auto"`
	// Bearer token to send; it may be ${secret:NAME}. Default none.
	Token string `yaml:"token"`
	// Time for one call, 100ms to 24h. Default 0: what is left of the run's own.
	Timeout time.Duration `yaml:"timeout" bounds:"0 or 100ms to 24h"`
	// Where its addresses may lie: public, loopback or private. Default loopback where the URL
	// names this machine, else public.
	Network string `yaml:"network" jsonschema:"enum=public,enum=loopback,enum=private"`
	// What a private one may reach.
	CIDRs []string `yaml:"cidrs"`
	// Runs that one node gives it at a time, 1 to 10000; more wait. Default 32.
	Concurrency int `yaml:"concurrency" default:"32" bounds:"1 to 10000"`
	// Whether it is told the span of each call, in the header traceparent. Default false.
	Trace bool `yaml:"trace"`
	opaque
}

// base is the URL without a slash at its end.
func (a Agent) base() string { return strings.TrimSuffix(a.URL, "/") }

func (a Agent) entry(taskType string) policy.Entry {
	e := policy.Entry{
		Name: schemas.AgentEntry(taskType), Agent: true, URLPrefix: a.base() + schemas.RouteRuns, Methods: []string{"POST"},
		Network: a.Network, CIDRs: a.CIDRs, Headers: map[string]string{},
	}
	if a.Token != "" {
		e.Headers["Authorization"] = "Bearer " + a.Token
	}
	if a.Trace {
		e.Headers["Traceparent"] = policy.TracePlaceholder
	}
	return e
}

// RunAgents are the remote agents by task type, in the form that the runs use.
func (c Config) RunAgents() map[string]schemas.Agent {
	agents := make(map[string]schemas.Agent, len(c.Agents))
	for taskType, a := range c.Agents {
		agents[taskType] = schemas.Agent{TaskType: taskType, URL: a.base(), Mode: a.Mode, Timeout: a.Timeout, Concurrency: a.Concurrency}
	}
	return agents
}

// entries are the policy entries of the agents and then of the models, in the order of their names.
func (c Config) entries() []policy.Entry {
	var all []policy.Entry
	for _, taskType := range slices.Sorted(maps.Keys(c.Agents)) {
		all = append(all, c.Agents[taskType].entry(taskType))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		for _, u := range c.Models[name].upstreams(name) {
			all = append(all, u.entry())
		}
	}
	return all
}

// Compile makes the policy that the configuration describes. Own are the addresses by which other
// machines reach this node: on its own ports they are no more a target than loopback is. Extra are
// ports of its own that the configuration does not name, such as the one of a listen address with
// port 0.
func (c Config) Compile(own []netip.Addr, extra ...uint16) (*policy.Policy, error) {
	ports := slices.Clone(extra)
	for _, address := range []string{c.Listen, c.NATS.Listen} {
		if _, port, err := net.SplitHostPort(address); err == nil {
			if n, err := strconv.ParseUint(port, 10, 16); err == nil && n != 0 {
				ports = append(ports, uint16(n))
			}
		}
	}
	return policy.Compile(policy.Config{
		Entries:      slices.Concat(c.Policy.Allowlist, c.entries()),
		AllowedHosts: c.Policy.AllowedHosts, SelfPorts: ports, SelfAddrs: own,
	})
}

// Targets lists what may be called: the url_prefix of each entry and the allowed hosts, as they are
// written, then the URLs of the agents and of the models.
func (c Config) Targets() []string {
	targets := []string{}
	for _, e := range c.Policy.Allowlist {
		targets = append(targets, e.URLPrefix)
	}
	targets = append(targets, c.Policy.AllowedHosts...)
	for _, e := range c.entries() {
		targets = append(targets, e.URLPrefix)
	}
	return targets
}
