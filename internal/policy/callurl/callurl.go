// Package callurl reads the URL of a call as HTTP clients write it, and names it without its values. It
// checks nothing: policy alone parses what is sent.
package callurl

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parts are the pieces of a URL that matter here. Nothing is checked or
// normalised: policy alone parses what is sent.
type parts struct {
	scheme, authority, path, query, fragment string
	rooted                                   bool // it has "://"
}

func split(text string) parts {
	var p parts
	rest, fragment, _ := strings.Cut(text, "#")
	rest, p.query, _ = strings.Cut(rest, "?")
	p.fragment = fragment
	p.scheme, rest, p.rooted = strings.Cut(rest, "://")
	if !p.rooted {
		p.path, p.scheme = p.scheme, ""
		return p
	}
	p.scheme = strings.ToLower(p.scheme)
	end := strings.IndexByte(rest, '/')
	if end < 0 {
		end = len(rest)
	}
	p.authority, p.path = rest[:end], rest[end:]
	return p
}

func (p parts) join() string {
	text := p.path
	if p.rooted {
		text = p.scheme + "://" + p.authority + text
	}
	if p.query != "" {
		text += "?" + p.query
	}
	if p.fragment != "" {
		text += "#" + p.fragment
	}
	return text
}

// Pair is one name and value of a query.
type Pair struct{ Name, Value string }

// With is a URL with its query read, the params appended, and both
// written again as a form is: in order, repeats kept.
func With(target string, params []Pair) string {
	p := split(target)
	p.query = formEncode(append(parseQuery(p.query), params...))
	return p.join()
}

// Sendable is a URL without its fragment. A fragment right after the host is
// left for policy to refuse: readers disagree on where such a host ends.
func Sendable(target string) string {
	p := split(target)
	if p.path != "" || p.query != "" {
		p.fragment = ""
	}
	return p.join()
}

// Escaped is a URL, or a reference to one, with the characters percent-encoded that clients and targets
// write as they are behind the authority: ", <, >, ^, `, {, |, } and those beyond ASCII, and in the query
// a backslash and a % that begins no escape.
func Escaped(target string) string {
	at := 0
	if before, rest, ok := strings.Cut(target, "//"); ok && !strings.ContainsAny(before, "/?#") {
		if at = strings.IndexAny(rest, "/?#"); at < 0 {
			return target
		}
		at += len(target) - len(rest)
	}
	out, query := []byte(target[:at]), false
	for i := at; i < len(target); i++ {
		switch c := target[i]; {
		case c >= 0x80, strings.IndexByte("\"<>^`{|}", c) >= 0, query && (c == '\\' || c == '%' && !escape(target[i:])):
			out = fmt.Appendf(out, "%%%02X", c)
		default:
			query = query || c == '?'
			out = append(out, c)
		}
	}
	return string(out)
}

// escape reports whether a text that begins with a % begins with an escape.
func escape(s string) bool {
	if len(s) < len("%XX") {
		return false
	}
	_, err := strconv.ParseUint(s[1:3], 16, 8)
	return err == nil
}

// Target names a call without its values: METHOD scheme://host[:port]/path?
// and the sorted unique names of the query. The path is as it is sent; user
// information never shows.
func Target(method, target string) string {
	p := split(target)
	names := make(map[string]bool)
	for _, q := range parseQuery(p.query) {
		names[q.Name] = true
	}
	if at := strings.LastIndexByte(p.authority, '@'); at >= 0 {
		p.authority = p.authority[at+1:]
	}
	if p.path == "" {
		p.path = "/"
	}
	return method + " " + p.scheme + "://" + p.authority + p.path + "?" + strings.Join(slices.Sorted(maps.Keys(names)), ",")
}

// parseQuery reads a form-encoded query as Python's parse_qsl does with blank
// values kept.
func parseQuery(query string) []Pair {
	var pairs []Pair
	for field := range strings.SplitSeq(query, "&") {
		if field != "" {
			name, value, _ := strings.Cut(field, "=")
			pairs = append(pairs, Pair{unquote(name), unquote(value)})
		}
	}
	return pairs
}

// formEncode writes pairs as Python's urlencode does.
func formEncode(pairs []Pair) string {
	var b strings.Builder
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(p.Name) + "=" + url.QueryEscape(p.Value))
	}
	return b.String()
}

// unquote undoes form encoding. Invalid escapes stay. Of bytes that are not UTF-8, each longest piece
// that begins a character and cannot be one becomes U+FFFD, which is what Python writes. Go writes
// one for each byte.
func unquote(s string) string {
	b := unescape(strings.ReplaceAll(s, "+", " "))
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			for n < min(len(b), utf8.UTFMax) && !utf8.FullRune(b[:n+1]) { // still the beginning of a character
				n++
			}
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}

// unescape turns each %XX into its byte.
func unescape(s string) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(c))
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return out
}
