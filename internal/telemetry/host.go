package telemetry

import (
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

// maxHosts bounds the host label over the life of the process: series of a
// host that policy no longer names stay in the registry.
const maxHosts = 100

// hostSet says which hosts have series of their own.
type hostSet struct {
	mu    sync.Mutex
	named atomic.Pointer[map[string]struct{}] // never changed once stored
	seen  map[string]struct{}                 // every host that ever was in named
}

// SetHosts says which hosts policy names; each gets series of its own in
// executor_http_*, all others share "other". An item is a host, host:port or a
// URL. A pattern (".example.com", "*") names no host. Over the life of the
// process at most 100 hosts are taken, in the order given; it may be called
// again when policy is loaded anew. Before the first call every host is "other".
func (m *Metrics) SetHosts(items []string) { m.hosts.set(items) }

func (s *hostSet) set(items []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = make(map[string]struct{})
	}
	named := make(map[string]struct{}, len(items))
	for _, item := range items {
		host := hostOf(item)
		if host == "" {
			continue
		}
		if _, ok := s.seen[host]; !ok {
			if len(s.seen) >= maxHosts {
				continue
			}
			s.seen[host] = struct{}{}
		}
		named[host] = struct{}{}
	}
	s.named.Store(&named)
}

// label is on the path of every call and does not allocate for a lower-case host.
func (s *hostSet) label(host string) string {
	named := s.named.Load()
	if named == nil {
		return other
	}
	if host = strings.ToLower(host); host != "" {
		if _, ok := (*named)[host]; ok {
			return host
		}
	}
	return other
}

// hostOf is the host of an allowlist item in lower case, IPv6 without brackets;
// empty for a pattern and for what cannot be read.
func hostOf(item string) string {
	item = strings.ToLower(strings.TrimSpace(item))
	switch {
	case strings.Contains(item, "://"):
		u, err := url.Parse(item)
		if err != nil {
			return ""
		}
		item = u.Hostname()
	case net.ParseIP(item) != nil:
		return item
	default:
		if host, _, err := net.SplitHostPort(item); err == nil {
			item = host
		}
		item = strings.TrimSuffix(strings.TrimPrefix(item, "["), "]")
	}
	if strings.HasPrefix(item, ".") || strings.ContainsAny(item, "*/@ ") {
		return ""
	}
	return item
}
