package policy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/schemas"
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

// parseItem reads one allowed-host item and returns its entry and its canonical form. An item
// permits its own host, so a loopback one leads to loopback and a literal address to that address.
func (r *ranges) parseItem(s string) (*entry, string, error) {
	item := strings.TrimSpace(s)
	e := &entry{item: true, methods: slices.Sorted(slices.Values(schemas.Methods()))}
	var err error
	switch {
	case item == "":
		return nil, "", errors.New("an item is empty")
	case strings.Contains(item, "://"):
		item, err = e.setItemPrefix(item)
	case item[0] == '.':
		item, err = e.setItemSuffix(item)
	default:
		item, err = e.setItemHost(item)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%q: %w", s, err)
	}
	if err := r.setItemNetwork(e); err != nil {
		return nil, "", fmt.Errorf("%q: %w", s, err)
	}
	e.Name = hostEntryPrefix + item
	return e, item, nil
}

func (e *entry) setItemPrefix(s string) (string, error) {
	u, err := parsePrefix(s)
	if err != nil {
		return "", err
	}
	e.Scheme, e.Host, e.Port, e.Path = u.Scheme, u.Host, u.Port, u.Path
	return u.String(), nil
}

func (e *entry) setItemSuffix(s string) (string, error) {
	host, addr, odd, bad := parseHost(s[1:])
	if bad != nil || odd != nil || addr.IsValid() {
		return "", errors.New("what follows the dot is not a domain name")
	}
	e.Host = "." + host
	return e.Host, nil
}

// setItemHost reads host, host:port and an IPv6 address with or without brackets.
func (e *entry) setItemHost(s string) (string, error) {
	if addr, ok := parseIPv6(s); ok {
		e.Host = addr.String()
		return e.Host, nil
	}
	var u parts
	if strings.ContainsAny(s, "@/?#") {
		return "", errors.New("write host, host:port, .example.com or scheme://host/path")
	}
	if f := u.setAuthority(s); f != nil || u.hostForm != nil {
		if f == nil {
			f = u.hostForm
		}
		return "", errors.New(f.Reason)
	}
	e.Host, e.Port = u.Host, u.Port
	if e.Port == 0 {
		return e.Host, nil
	}
	return u.Authority(), nil
}

func (r *ranges) setItemNetwork(e *entry) error {
	e.Network = NetworkPublic
	if loopbackName(strings.TrimPrefix(e.Host, ".")) {
		e.Network = NetworkLoopback
		return nil
	}
	addr, err := netip.ParseAddr(e.Host)
	if err != nil {
		return nil //nolint:nilerr // a name: its addresses are checked when it is resolved
	}
	switch {
	case r.isPublic(addr):
	case r.isLoopback(addr):
		e.Network = NetworkLoopback
	case within(r.metadata, addr) || within(r.never, addr):
		return errors.New("this address cannot be granted")
	default:
		e.Network, e.cidrs = NetworkPrivate, []netip.Prefix{netip.PrefixFrom(addr, addr.BitLen())}
	}
	return nil
}

// generation names the rules of this package. A change of what a policy means
// changes it, and with it the version of every policy.
const generation = "weir-policy-3"

// canonical is an entry with its defaults filled in, as the version hashes it.
type canonical struct {
	Name   string `json:"name"`
	Any    bool   `json:"any,omitempty"`    // every host on 80 and 443
	Scheme string `json:"scheme,omitempty"` // empty: either
	Host   string `json:"host,omitempty"`   // exact, or a suffix with its leading dot
	Port   uint16 `json:"port,omitempty"`   // 0: every port
	Path   string `json:"path,omitempty"`   // the prefix, as it was written
	// Methods, CIDRs and Caller are sorted; version sets them from the compiled ones.
	Methods        []string          `json:"methods"`
	Network        string            `json:"network"`
	CIDRs          []string          `json:"cidrs,omitempty"`
	Redirects      int               `json:"redirects,omitempty"`
	EncodedSlashes bool              `json:"encoded_slashes,omitempty"`
	TTL            time.Duration     `json:"ttl_ns,omitempty"`     // 0: the target does not honour keys
	KeyHeader      string            `json:"key_header,omitempty"` // empty: Idempotency-Key
	Derive         bool              `json:"derive,omitempty"`     // Weir derives keys
	Headers        map[string]string `json:"headers,omitempty"`
	Query          map[string]string `json:"query,omitempty"`
	Body           map[string]string `json:"body,omitempty"`
	Caller         [2][]string       `json:"caller"`
	Shadow         bool              `json:"shadow,omitempty"`  // rehearsed, and permits nothing
	Agent          bool              `json:"agent,omitempty"`   // of a remote agent or a model, in a table of their own
	Extra          []string          `json:"members,omitempty"` // Pass of a model's Entry, sorted
	Routes         []string          `json:"routes,omitempty"`  // sorted
	Connect        string            `json:"connect,omitempty"` // tunnel or inspect
	Limits         Limits            `json:"limits,omitzero"`
	Contract
}

// version hashes the entries in order: two ways to write one policy have one
// version.
func version(entries []*entry) string {
	var b bytes.Buffer
	b.WriteString(generation)
	b.WriteByte('\n')
	enc := json.NewEncoder(&b)
	for _, e := range entries {
		c := e.canonical
		c.Methods, c.Caller = e.methods, [2][]string{e.callerHeaders, e.callerParams}
		for _, p := range e.cidrs {
			c.CIDRs = append(c.CIDRs, p.String())
		}
		slices.Sort(c.CIDRs)
		if err := enc.Encode(c); err != nil {
			return "" // strings and numbers always encode
		}
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])
}
