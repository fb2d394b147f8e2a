package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// parseItem reads one allowed-host item and returns its entry and its canonical form. An item
// permits its own host, so a loopback one leads to loopback and a literal address to that address.
func (r *ranges) parseItem(s string) (*entry, string, error) {
	item := strings.TrimSpace(s)
	e := &entry{item: true, methods: methodsAll}
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
