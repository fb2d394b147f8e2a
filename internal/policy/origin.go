package policy

import "strings"

// Origin is scheme://host[:port] of the enforced entry of a name that has one exact host, for a
// caller who may use the entries only; empty: all. ok is false if there is no such entry.
func (p *Policy) Origin(name string, only []string) (origin string, ok bool) {
	if p == nil {
		return "", false
	}
	e := p.enforced.byName[name]
	if e == nil || !(&Request{Only: only}).usable(e) || !e.exact() {
		return "", false
	}
	t := target{Parts: Parts{Scheme: e.Scheme, Host: e.Host, Port: e.Port}, addr: e.addr}
	return t.Scheme + "://" + t.Authority(), true
}

// WithOrigin are the names of the entries that Origin knows for such a caller, in their order.
func (p *Policy) WithOrigin(only []string) (names []string) {
	if p == nil {
		return nil
	}
	r := Request{Only: only}
	for _, e := range p.enforced.entries {
		if !e.item && r.usable(e) && e.exact() {
			names = append(names, e.Name)
		}
	}
	return names
}

// exact reports whether an entry is of one scheme and one host.
func (e *entry) exact() bool { return e.Scheme != "" && !e.Any && !strings.HasPrefix(e.Host, ".") }
