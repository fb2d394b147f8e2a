package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/policy"
)

// Compile makes the policy that the configuration describes. Extra are ports
// that the configuration does not name and that are never a target either, such
// as the one behind a listen address with port 0.
func (c Config) Compile(extra ...uint16) (*policy.Policy, error) {
	return c.CompileAt(nil, extra...)
}

// CompileAt is Compile for a node that other machines reach at these addresses:
// on its own ports they are no more a target than loopback is.
func (c Config) CompileAt(own []netip.Addr, extra ...uint16) (*policy.Policy, error) {
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

// Targets lists what may be called: what the policy names, then the URLs of the
// agents and of the models.
func (c Config) Targets() []string {
	targets := c.Policy.Targets()
	for _, e := range c.entries() {
		targets = append(targets, e.URLPrefix)
	}
	return targets
}

// Targets lists what the policy names: the url_prefix of each entry, then the
// allowed hosts, as they are written.
func (p Policy) Targets() []string {
	targets := make([]string, 0, len(p.Allowlist)+len(p.AllowedHosts))
	for _, e := range p.Allowlist {
		targets = append(targets, e.URLPrefix)
	}
	return append(targets, p.AllowedHosts...)
}

// PolicyHash is a hex SHA-256 over everything under policy, agents, models and
// budgets, in a form that does not depend on how the file is written. A reload that leaves it alone
// has changed nothing that decides.
func (c Config) PolicyHash() string {
	type rules struct { // Policy's own form hides values, and so does an agent's
		Timeout      time.Duration  `json:"timeout_ns"`
		AllowedHosts []string       `json:"allowed_hosts"`
		Allowlist    []policy.Entry `json:"allowlist"`
	}
	type manner struct {
		Mode        string        `json:"mode"`
		Timeout     time.Duration `json:"timeout_ns"`
		Concurrency int           `json:"concurrency"`
	}
	manners := make(map[string]manner, len(c.Agents))
	for taskType, a := range c.Agents {
		manners[taskType] = manner{a.Mode, a.Timeout, a.Concurrency}
	}
	data, err := json.Marshal(struct {
		rules
		Agents  map[string]manner `json:"agents,omitempty"`
		Models  any               `json:"models,omitempty"`
		Budgets any               `json:"budgets,omitempty"`
		Entries []policy.Entry    `json:"agent_entries,omitempty"`
	}{rules(c.Policy), manners, plain(c.Models), plain(c.Budgets), c.entries()})
	if err != nil {
		panic("config: a policy that is not JSON: " + err.Error()) // only if a field of another kind is added
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// plain is a section as JSON takes it, with everything that is in it.
func plain(section any) any { return unordered(tree(reflect.ValueOf(section))) }

// checkPolicy lets policy judge each entry, host, agent and model by itself, so that
// every one that is wrong is told, with its line.
func (r *reader) checkPolicy(c *Config) {
	before := len(r.problems)
	for i, e := range c.Policy.Allowlist {
		key := "policy.allowlist[" + strconv.Itoa(i) + "]"
		if _, err := policy.Compile(policy.Config{Entries: []policy.Entry{e}}); err != nil {
			r.verdict(key, err)
		}
		for name, list := range map[string][]string{"caller_headers": e.CallerHeaders, "caller_params": e.CallerParams} {
			if slices.Contains(list, "*") {
				c.warnings = append(c.warnings, join(key, name)+": is *: callers can set whatever says as whom or for whom a call with this entry's credentials is made; name what they need")
			}
		}
	}
	for i, host := range c.Policy.AllowedHosts {
		key := "policy.allowed_hosts[" + strconv.Itoa(i) + "]"
		if _, err := policy.Compile(policy.Config{AllowedHosts: []string{host}}); err != nil {
			r.verdict(key, err)
		}
	}
	r.checkAgents(c)
	r.checkModels(c)
	if len(r.problems) > before {
		return
	}
	if _, err := c.Compile(); err != nil {
		r.verdict("policy", err)
	}
}

// verdict notes what policy said of one entry or host: lines of the form
// entry "name": key: what.
func (r *reader) verdict(path string, err error) {
	for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "policy: "), "\n") {
		key, what := path, line
		if rest, ok := cutLabel(line); ok {
			if name, sentence, ok := strings.Cut(rest, ": "); ok && isKey(name) {
				key, what = join(path, name), sentence
			}
		}
		r.wrong(key, "%s", what)
	}
}

// cutLabel takes entry "name": or entry 1: off a line. The name is quoted as Go
// quotes, so it ends where the quotes do.
func cutLabel(line string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(line, "entry ")
	if !ok {
		return line, false
	}
	label, err := strconv.QuotedPrefix(rest)
	if err != nil {
		label = rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	}
	return strings.CutPrefix(rest[len(label):], ": ")
}

func isKey(name string) bool {
	for f := range reflect.TypeFor[policy.Entry]().Fields() {
		if keyOf(f) == name {
			return true
		}
	}
	return false
}
