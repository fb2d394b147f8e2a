package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Compile checks a Config and makes it a Policy, all or nothing. Its error
// names every entry and key that is wrong.
func Compile(c Config) (*Policy, error) {
	p := &Policy{byName: map[string]*entry{}, ranges: newRanges()}
	err := errors.Join(p.setEntries(c.Entries), p.setHosts(c.AllowedHosts), p.setSelf(c))
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	p.version = version(p.entries)
	return p, nil
}

func (p *Policy) setEntries(list []Entry) error {
	var errs []error
	for i, in := range list {
		label := fmt.Sprintf("entry %q", in.Name)
		if err := checkName(in.Name); err != nil {
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
		if old := p.byName[in.Name]; old != nil {
			p.entries = slices.DeleteFunc(p.entries, func(e *entry) bool { return e == old })
		}
		p.byName[in.Name] = e
		p.entries = append(p.entries, e)
	}
	return errors.Join(errs...)
}

func (p *Policy) setHosts(items []string) error {
	p.hosts = []string{}
	var errs []error
	for _, s := range items {
		e, item, err := p.ranges.parseItem(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("allowed host %w", err))
			continue
		}
		if !slices.Contains(p.hosts, item) {
			p.hosts = append(p.hosts, item)
			p.entries = append(p.entries, e)
		}
	}
	return errors.Join(errs...)
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
		if bad != flawNone {
			errs = append(errs, fmt.Errorf("self host %q is neither a name nor an address", s))
			continue
		}
		if !loopbackName(name) {
			p.self.names[name] = true
		}
	}
	return errors.Join(errs...)
}
