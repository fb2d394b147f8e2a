package traffic

import (
	"slices"
	"strings"
)

// index finds the rules that may match a URL: by its host, then by what its path
// begins and ends with. The time for a look-up grows with the rules that nearly match,
// not with all rules.
type index struct {
	hosts map[string]*hostRules
	globs globs[*hostRules] // the hosts with wildcards, each once
}

// hostRules are the ranks of the rules for one host, or for one glob of hosts.
type hostRules struct {
	host  glob
	paths globs[int32] // held against the path
	tails globs[int32] // held against path and query
}

func newIndex(rules []rule) index {
	x := index{hosts: map[string]*hostRules{}}
	for rank := range rules {
		p := &rules[rank].pattern
		host, path := newGlob("*"), newGlob("*")
		if !p.every {
			host, path = p.host, p.path
		}
		name := strings.Join(host.chunks, "*")
		h := x.hosts[name]
		if h == nil {
			h = &hostRules{host: host}
			x.hosts[name] = h // no URL's host has a wildcard
			if host.stars() > 0 {
				x.globs.add(host, h)
			}
		}
		into := &h.paths
		if p.query {
			into = &h.tails
		}
		into.add(path, int32(rank))
	}
	return x
}

// near calls fn with the ranks of the rules that may match a URL, as each does.
func (s *Set) near(at *site, looks *int, fn func(rank int32) bool) {
	if h := s.index.hosts[at.host]; h != nil {
		h.near(at, looks, fn)
	}
	s.index.globs.each(at.host, looks, func(h *hostRules) bool {
		if h.host.match(at.host) {
			h.near(at, looks, fn)
		}
		return true
	})
}

func (h *hostRules) near(at *site, looks *int, fn func(rank int32) bool) {
	h.paths.each(at.normalPath, looks, fn)
	h.tails.each(at.normalTail, looks, fn)
}

// matching appends the ranks of the rules whose pattern and method match, in the
// order of precedence.
func (s *Set) matching(ranks []int32, method string, at *site) []int32 {
	looks := 0
	s.near(at, &looks, func(rank int32) bool {
		if s.rules[rank].fits(method, at) {
			ranks = append(ranks, rank)
		}
		return true
	})
	slices.Sort(ranks)
	return ranks
}
