package config

import (
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"weir/internal/policy"
	"weir/schemas"
)

// The values of auth.mode.
const (
	AuthOpen   = "open"
	AuthTokens = "tokens"
)

const (
	// leastTask is the least that the history makes of the default of deadline.task.
	leastTask = 30 * time.Minute
	// leastMargin is the least time between the longest deadline and the history.
	leastMargin = 10 * time.Minute
	// drainMargin is what a node that stops waits beyond the longest attempt.
	drainMargin = 10 * time.Second
)

// derive sets the defaults that depend on another key, where none was given.
func (r *reader) derive(c *Config) {
	if !c.Embedded() {
		preset(r, "log.partitions", &c.Log.Partitions, 8)
		preset(r, "log.replicas", &c.Log.Replicas, 3) // one server may be lost
		durability := schemas.DurabilityReplicated
		if c.Log.Replicas <= 1 {
			durability = schemas.DurabilityProcess
		}
		preset(r, "log.durability", &c.Log.Durability, durability)
	}
	// A history that was enough before there were tasks still is.
	preset(r, "deadline.task", &c.Deadline.Task, max(min(c.Deadline.Task, c.LongestAction()), leastTask))
	if Loopback(c.Listen) { // other machines do not reach the port
		preset(r, "auth.mode", &c.Auth.Mode, AuthOpen)
	}
	if c.Open() && len(c.Policy.Allowlist) == 0 { // a first try needs no policy, and only this machine reaches the node
		preset(r, "policy.allowed_hosts", &c.Policy.AllowedHosts, []string{"localhost", "127.0.0.1", "::1"})
	}
	for taskType, a := range c.Agents {
		a.Network = networkOf(a.URL, a.Network)
		c.Agents[taskType] = a
	}
	for name, m := range c.Models {
		m.Network = networkOf(m.URL, m.Network)
		for i, u := range m.Upstreams {
			m.Upstreams[i].Network = networkOf(u.URL, u.Network)
		}
		c.Models[name] = m
	}
	for name, b := range c.Budgets {
		if len(b.Per) == 0 {
			b.Per = []string{schemas.PerTenant}
			c.Budgets[name] = b
		}
	}
}

func preset[T any](r *reader, key string, value *T, to T) {
	if !r.has(key) {
		*value = to
	}
}

// networkOf is the network that was given, or else the one that a URL implies.
func networkOf(url, given string) string {
	switch {
	case given != "" || url == "":
		return given
	case local(url):
		return policy.NetworkLoopback
	default:
		return policy.NetworkPublic
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

// Warnings are things that look like mistakes and stop nothing, such as an environment variable that
// begins with WEIR_ and is not a setting.
func (c Config) Warnings() []string {
	var all []string
	for _, d := range c.doubts {
		all = append(all, (&Problem{Key: d.Key, What: d.What}).Error())
	}
	return all
}

// Doubts are the warnings with their places.
func (c Config) Doubts() []*Problem { return c.doubts }

// Source is the file that was read; empty when there was none.
func (c Config) Source() string { return c.source }

// Files are the JSON files that it names. A Config that comes with an error has those that were read before it.
func (c Config) Files() []string { return c.files }

// Blank reports whether there was no file, or nothing in it. A file with {} asks for the defaults.
func (c Config) Blank() bool { return c.blank }

// Embedded reports whether the broker runs inside this program.
func (c Config) Embedded() bool { return c.NATS.URL == "" }

// Open reports whether requests need no token.
func (c Config) Open() bool { return c.Auth.Mode == AuthOpen }

// IndexPath is the file of the index; empty: a temporary one.
func (c Config) IndexPath() string { return c.inData(c.Index.Path, "index/actions.db") }

// AdminTokenFile is where the first admin token is written; empty: this node makes none.
func (c Config) AdminTokenFile() string { return c.inData(c.Auth.AdminTokenFile, "admin.token") }

// GitDir is where repositories lie. Empty: none can live on this node.
func (c Config) GitDir() string { return c.inData(c.Git.Dir, "git") }

// inData is the path that was given, or else one in the data directory, which a node of a cluster
// does not have.
func (c Config) inData(given, name string) string {
	if given == "" && c.Embedded() {
		return filepath.Join(c.Data, name)
	}
	return given
}

// DrainTimeout is how long a node that must stop waits for actions in progress.
func (c Config) DrainTimeout() time.Duration {
	if c.Workers.Drain > 0 {
		return c.Workers.Drain
	}
	return c.Policy.Timeout + drainMargin
}

// TenantShare is limits.tenant_share, and 100 in open mode, which has one tenant.
func (c Config) TenantShare() int {
	if c.Open() {
		return 100
	}
	return c.Limits.TenantShare
}

// LongestAction is how long an action may take at most. When the deadline has come, its worker must
// still find its beginning on the log to settle it, even if the worker was down for a while.
func (c Config) LongestAction() time.Duration {
	return c.Log.History - max(c.Log.History/8, leastMargin)
}

// BaseURL is where others reach this node, without a slash at its end: public_url, or the address
// that it listens on. For an unspecified address it is this machine's own.
func (c Config) BaseURL(listening string) string {
	if c.PublicURL != "" {
		return strings.TrimSuffix(c.PublicURL, "/")
	}
	host, port, err := net.SplitHostPort(listening)
	if err != nil {
		return "http://" + listening
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Loopback reports whether an address, host:port, can be reached from this machine alone.
func Loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// NeedsRestart lists the keys, in the order of the file, whose values differ in next and that a
// running node does not take over: all but the agents, the models, their budgets and the policy's
// entries and allowed hosts.
func (c Config) NeedsRestart(next Config) (all []string) {
	after := settings(&next)
	for i, f := range settings(&c) {
		if f.path != "policy.allowed_hosts" && !reflect.DeepEqual(f.value.Interface(), after[i].value.Interface()) {
			all = append(all, f.path)
		}
	}
	return all
}
