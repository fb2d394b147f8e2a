package policy

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Compile checks a Config and makes it a Policy, all or nothing. Its error
// names every entry and key that is wrong.
func Compile(c Config) (*Policy, error) {
	p := &Policy{ranges: newRanges(), maxBody: cmp.Or(c.MaxBody, defaultMaxBody)}
	p.maxUpload = cmp.Or(c.MaxUpload, p.maxBody)
	named, err := compileEntries(c.Entries)
	hosts, hostErr := p.compileHosts(c.AllowedHosts)
	if err = errors.Join(err, hostErr, p.setSelf(c)); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	named, p.agents = splitAgents(named)
	p.all = slices.Concat(named, hosts)
	p.enforced = newTable(p.all, func(e *entry) bool { return !e.Shadow })
	if shadows := newTable(named, func(e *entry) bool { return e.Shadow }); len(shadows.entries) > 0 {
		rehearsal := newTable(p.all, func(e *entry) bool { return e.Shadow || shadows.byName[e.Name] == nil })
		p.rehearsal = &rehearsal
	}
	p.version = version(slices.Concat(p.all, p.agents.entries))
	return p, nil
}

// splitAgents separates the agents' entries from the others. A call names its agent's entry, so their
// order means nothing.
func splitAgents(named []*entry) (others []*entry, agents table) {
	agents = newTable(named, func(e *entry) bool { return e.Agent })
	slices.SortFunc(agents.entries, func(a, b *entry) int { return strings.Compare(a.Name, b.Name) })
	return slices.DeleteFunc(named, func(e *entry) bool { return e.Agent }), agents
}

// compileEntries returns the named entries in order. A replaced entry is removed; its replacement
// has the place where it is written.
func compileEntries(list []Entry) ([]*entry, error) {
	var (
		out  []*entry
		errs []error
	)
	for i, in := range list {
		label := fmt.Sprintf("entry %q", in.Name)
		if err := checkName(in.Name, in.Agent); err != nil {
			label = fmt.Sprintf("entry %d", i+1)
			errs = append(errs, fmt.Errorf("%s: %w", label, err))
		}
		e, err := compileEntry(in)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				errs = append(errs, fmt.Errorf("%s: %s", label, line))
			}
			continue
		}
		out = append(slices.DeleteFunc(out, func(old *entry) bool { return old.Name == e.Name && old.Shadow == e.Shadow }), e)
	}
	return out, errors.Join(errs...)
}

// compileHosts returns the entries of the allowed hosts, and keeps the items in canonical form.
func (p *Policy) compileHosts(items []string) ([]*entry, error) {
	p.hosts = []string{}
	var (
		out  []*entry
		errs []error
	)
	for _, s := range items {
		e, item, err := p.ranges.parseItem(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("allowed host %w", err))
			continue
		}
		if !slices.Contains(p.hosts, item) {
			p.hosts = append(p.hosts, item)
			out = append(out, e)
		}
	}
	return out, errors.Join(errs...)
}

func (p *Policy) setSelf(c Config) error {
	p.self = self{
		ports: map[uint16]bool{}, names: map[string]bool{},
		addrs: map[netip.Addr]bool{}, local: map[netip.Addr]bool{},
	}
	for _, port := range c.SelfPorts {
		p.self.ports[port] = true
	}
	for _, a := range c.SelfAddrs {
		p.self.local[a.Unmap().WithZone("")] = true
	}
	var errs []error
	for _, s := range c.SelfHosts {
		host := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
		if a, err := netip.ParseAddr(host); err == nil {
			if a = a.Unmap().WithZone(""); !a.IsUnspecified() && !a.IsLoopback() {
				p.self.addrs[a] = true
			}
			continue
		}
		name, _, _, bad := parseHost(host)
		if bad != nil {
			errs = append(errs, fmt.Errorf("self host %q is neither a name nor an address", s))
			continue
		}
		if !loopbackName(name) {
			p.self.names[name] = true
		}
	}
	return errors.Join(errs...)
}
