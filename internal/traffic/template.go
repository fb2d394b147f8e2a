package traffic

import (
	"slices"
	"strconv"
	"strings"

	"weir/internal/policy"
	"weir/schemas"
)

// template is a redirect's to_url: texts, and between them the numbers of the wildcards.
type template struct {
	texts    []string // one more than refs
	refs     []int    // from 0
	hasQuery bool
}

func badTarget(message string) error { return &Invalid{Pointer: "/action/to_url", Message: message} }

// parseTemplate reads a to_url for a pattern. Its errors are *Invalid.
func parseTemplate(s string, p *pattern) (template, error) {
	switch {
	case s == "":
		return template{}, badTarget("is missing")
	case len(s) > schemas.MaxRulePattern:
		return template{}, badTarget("is longer than " + strconv.Itoa(schemas.MaxRulePattern) + " bytes")
	case strings.Contains(s, "#"):
		return template{}, badTarget("has a fragment, which is never sent")
	}
	t := template{hasQuery: strings.Contains(s, "?")}
	text := 0
	for i := 0; i < len(s); i++ {
		if s[i] != '$' {
			continue
		}
		end := i + 1
		for end < len(s) && '0' <= s[end] && s[end] <= '9' {
			end++
		}
		if end == i+1 {
			continue // a dollar sign like any other
		}
		n, err := strconv.Atoi(s[i+1 : end])
		if err != nil || s[i+1] == '0' || n > p.stars() {
			return template{}, badTarget("names a wildcard that the pattern does not have; they are numbered from $1, and there are " + strconv.Itoa(p.stars()))
		}
		t.texts = append(t.texts, s[text:i])
		t.refs = append(t.refs, n-1)
		text, i = end, end-1
	}
	t.texts = append(t.texts, s[text:])
	if !t.absolute(p) {
		return template{}, badTarget("must begin with http:// or https://")
	}
	authority := s[strings.Index(s, "://")+3:]
	if i := strings.IndexAny(authority, "/?"); i >= 0 {
		authority = authority[:i]
	}
	if strings.Contains(authority, "@") {
		return template{}, badTarget("holds a user; the entry's headers are the place for a credential")
	}
	if !t.callable(p) {
		return template{}, badTarget("is no URL that can be called, whatever its wildcards stand for")
	}
	return t, nil
}

// callable reports whether the target can be a URL, under any policy. Digits, or nothing, can
// replace each wildcard except a scheme's.
func (t *template) callable(p *pattern) bool {
	return slices.ContainsFunc([]string{"11", ""}, func(stand string) bool {
		words := slices.Repeat([]string{stand}, p.stars())
		if !p.every && p.scheme == "" {
			words[0] = "http"
		}
		_, ok := policy.Read(t.fill(words, ""), false)
		return ok
	})
}

// TargetPrefix is the part of a redirect's to_url before its first wildcard. It is empty for a rule
// that is not a redirect, or that Compile refuses.
func TargetPrefix(r schemas.Rule) string {
	p, err := prepare(&r)
	if err != nil || r.Type != schemas.RuleRedirect {
		return ""
	}
	return p.target.texts[0]
}

// absolute: the scheme is written down, or it is the wildcard of the pattern's.
func (t *template) absolute(p *pattern) bool {
	scheme, _, ok := strings.Cut(t.texts[0], "://")
	if ok {
		return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
	}
	return t.texts[0] == "" && len(t.refs) > 0 && t.refs[0] == 0 && !p.every && p.scheme == "" && strings.HasPrefix(t.texts[1], "://")
}

// fill puts the words in their places, and the query, if there is one, behind. What
// gets longer than any URL that is called is not finished; it is still too long.
func (t *template) fill(words []string, query string) string {
	if len(t.refs) == 0 && query == "" {
		return t.texts[0]
	}
	size := len(t.texts[0]) + 1 + len(query)
	for i, n := range t.refs {
		size += len(words[n]) + len(t.texts[i+1])
	}
	var b strings.Builder
	b.Grow(min(size, 2*policy.MaxURL))
	b.WriteString(t.texts[0])
	for i, n := range t.refs {
		b.WriteString(words[n])
		b.WriteString(t.texts[i+1])
		if b.Len() > policy.MaxURL {
			break
		}
	}
	b.WriteString(query)
	return b.String()
}
