package traffic

import (
	"slices"
	"strings"
)

// index finds the rules that may match a URL: by its host, then by what its path
// begins and ends with. What is looked at grows with the rules that nearly match,
// not with those that there are.
type index struct {
	hosts map[string]*hostRules
	globs affixes[*hostRules] // the hosts with wildcards, each once
}

// hostRules are the ranks of the rules for one host, or for one glob of hosts.
type hostRules struct {
	host  glob
	paths affixes[int32] // held against the path
	tails affixes[int32] // held against path and query
}

type hostBuilder struct{ paths, tails affixBuilder[int32] }

func newIndex(rules []rule) index {
	hosts := map[string]hostBuilder{}
	for rank := range rules {
		p := &rules[rank].pattern
		host, path := newGlob("*"), newGlob("*")
		if !p.every {
			host, path = p.host, p.path
		}
		name := strings.Join(host.chunks, "*")
		b, ok := hosts[name]
		if !ok {
			b = hostBuilder{paths: affixBuilder[int32]{}, tails: affixBuilder[int32]{}}
			hosts[name] = b
		}
		into := b.paths
		if p.query {
			into = b.tails
		}
		into.add(path, int32(rank))
	}
	x := index{hosts: map[string]*hostRules{}}
	globs := affixBuilder[*hostRules]{}
	for name, b := range hosts {
		h := &hostRules{host: newGlob(name), paths: b.paths.build(), tails: b.tails.build()}
		if h.host.stars() == 0 {
			x.hosts[name] = h
		} else {
			globs.add(h.host, h)
		}
	}
	x.globs = globs.build()
	return x
}

// matching appends the ranks of the rules whose pattern and method match, in the
// order of precedence.
func (s *Set) matching(ranks []int32, method string, at *site) []int32 {
	if h := s.index.hosts[at.Host]; h != nil {
		ranks = s.fitting(ranks, h, method, at)
	}
	s.index.globs.each(at.Host, func(h *hostRules) {
		if h.host.match(at.Host) {
			ranks = s.fitting(ranks, h, method, at)
		}
	})
	slices.Sort(ranks)
	return ranks
}

// fitting appends the ranks of those that match among the rules of one host.
func (s *Set) fitting(ranks []int32, h *hostRules, method string, at *site) []int32 {
	add := func(rank int32) {
		if s.rules[rank].fits(method, at) {
			ranks = append(ranks, rank)
		}
	}
	h.paths.each(at.Path, add)
	h.tails.each(at.tail, add)
	return ranks
}
