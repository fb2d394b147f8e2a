package traffic

import (
	"slices"
	"strconv"

	"weir/internal/policy"
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
	url := p.scheme
	if url == "" {
		url, list = list[0], list[1:]
	}
	url += "://" + p.host.fill(list)
	list = list[p.host.stars():]
	switch {
	case p.anyPort:
		url, list = url+":"+list[0], list[1:]
	case p.port != 0:
		url += ":" + strconv.Itoa(int(p.port))
	}
	return url + p.path.fill(list)
}

// specimens are URLs that a redirect could lead to. Policy may deny them for their
// form: its word about them is better than ours.
func (r *rule) specimens() []string {
	var out []string
	for _, w := range plain() {
		url := r.target.fill(r.pattern.list(w), "")
		if policy.Readable(url) && !slices.Contains(out, url) {
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
