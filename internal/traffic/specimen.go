package traffic

import (
	"slices"
	"strconv"

	"weir/schemas"
)

// words stand in the place of wildcards, by the part of a URL where these are.
type words struct{ scheme, host, port, path string }

// plain are the words that are tried: what a wildcard most often stands for. With
// the last of them a wildcard of a host or a path stands for nothing.
func plain() []words {
	return []words{{"https", "x", "443", "x"}, {"http", "y", "80", "1"}, {"https", "", "8080", ""}}
}

// list gives each wildcard its word, and no two of one part the same.
func (p *pattern) list(w words) []string {
	if p.every {
		if p.whole {
			return []string{"https://x/" + w.path}
		}
		return nil
	}
	var out []string
	if p.scheme == "" {
		out = append(out, w.scheme)
	}
	for i := range p.host.stars() {
		out = append(out, numbered(w.host, i))
	}
	if p.anyPort {
		out = append(out, w.port)
	}
	for i := range p.path.stars() {
		out = append(out, numbered(w.path, i))
	}
	return out
}

func numbered(word string, i int) string {
	if word == "" || i == 0 {
		return word
	}
	return word + strconv.Itoa(i+1)
}

// specimens are sites that the pattern matches. None of its wildcards stands for
// nothing there: that would often be a special case.
func (p *pattern) specimens() []site {
	var out []site
	for _, w := range plain()[:2] {
		at, ok := readSite(p.specimen(p.list(w)), false)
		if ok && !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

func (p *pattern) specimen(list []string) string {
	if p.every {
		if p.whole {
			return list[0]
		}
		return "https://x/"
	}
	s := site{}
	if s.Scheme = p.scheme; s.Scheme == "" {
		s.Scheme, list = list[0], list[1:]
	}
	s.Host, list = p.host.fill(list), list[p.host.stars():]
	s.Port = ownPort(s.Scheme)
	switch {
	case p.anyPort:
		n, _ := strconv.ParseUint(list[0], 10, 16)
		s.Port, list = uint16(n), list[1:]
	case p.port != 0:
		s.Port = p.port
	}
	s.tail = p.path.fill(list)
	return s.text(true)
}

// specimens are URLs that a redirect could lead to.
func (r *rule) specimens() []string {
	var out []string
	for _, w := range plain() {
		url := r.target.fill(r.pattern.list(w), "")
		if _, ok := readSite(url, false); ok && !slices.Contains(out, url) {
			out = append(out, url)
		}
	}
	return out
}

// Specimens are URLs that a redirect could lead to: its to_url with plain words in
// the place of its wildcards. Literal is what of to_url stands before the first of
// them. A rule that is no redirect, or that Compile refuses, has neither.
func Specimens(r schemas.Rule) (urls []string, literal string) {
	p, err := prepare(&r)
	if err != nil || r.Type != schemas.RuleRedirect {
		return nil, ""
	}
	return p.specimens(), p.target.texts[0]
}
