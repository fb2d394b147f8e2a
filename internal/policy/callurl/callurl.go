// Package callurl reads the URL of a call as HTTP clients write it, and names it without its values. It
// judges nothing: policy alone parses what is sent.
package callurl

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// parts are the pieces of a URL that matter here. Nothing is judged or
// normalised: policy alone parses what is sent.
type parts struct {
	scheme, authority, path, query, fragment string
	rooted                                   bool // it has "://"
}

func split(url string) parts {
	var p parts
	rest, fragment, _ := strings.Cut(url, "#")
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
	var b strings.Builder
	if p.rooted {
		b.WriteString(p.scheme)
		b.WriteString("://")
		b.WriteString(p.authority)
	}
	b.WriteString(p.path)
	if p.query != "" {
		b.WriteByte('?')
		b.WriteString(p.query)
	}
	if p.fragment != "" {
		b.WriteByte('#')
		b.WriteString(p.fragment)
	}
	return b.String()
}

// Pair is one name and value of a query.
type Pair struct{ Name, Value string }

// With is a URL with its query read, the params appended, and both
// written again as a form is: in order, repeats kept.
func With(url string, params []Pair) string {
	p := split(url)
	p.query = formEncode(append(parseQuery(p.query), params...))
	return p.join()
}

// Sendable is a URL without its fragment. A fragment right after the host is
// left for policy to refuse: readers disagree on where such a host ends.
func Sendable(url string) string {
	p := split(url)
	if p.path != "" || p.query != "" {
		p.fragment = ""
	}
	return p.join()
}

// Target names a call without its values: METHOD scheme://host[:port]/path?
// and the sorted unique names of the query. The path is as it is sent; user
// information never shows.
func Target(method, url string) string {
	p := split(url)
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
		if field == "" {
			continue
		}
		name, value, _ := strings.Cut(field, "=")
		pairs = append(pairs, Pair{unquote(name), unquote(value)})
	}
	return pairs
}

// unquote undoes form encoding. Invalid escapes stay; escaped bytes that are not UTF-8 become
// U+FFFD, each run of ASCII by itself.
func unquote(s string) string {
	s = strings.ReplaceAll(s, "+", " ")
	if !strings.Contains(s, "%") {
		return s
	}
	var out strings.Builder
	for s != "" {
		end := strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
		if end < 0 {
			end = len(s)
		}
		out.WriteString(decodeUTF8(unescape(s[:end])))
		s = s[end:]
		ascii := strings.IndexFunc(s, func(r rune) bool { return r < utf8.RuneSelf })
		if ascii < 0 {
			ascii = len(s)
		}
		out.WriteString(s[:ascii])
		s = s[ascii:]
	}
	return out.String()
}

// unescape turns each %XX into its byte.
func unescape(s string) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := hexDigit(s[i+1]), hexDigit(s[i+2])
			if hi >= 0 && lo >= 0 {
				out = append(out, byte(hi<<4|lo)) //nolint:gosec // both are below 16
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return out
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}

// decodeUTF8 reads bytes as UTF-8 with one U+FFFD for each longest piece that
// begins a character and cannot be one, which is what Python writes. Go writes
// one for each byte.
func decodeUTF8(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = broken(b)
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}

// broken is the length of the ill-formed piece that b begins with: as much of it
// as the beginning of some character could be.
func broken(b []byte) int {
	n := 1
	for n < len(b) && n < utf8.UTFMax && !utf8.FullRune(b[:n]) {
		if !utf8.FullRune(b[:n+1]) {
			n++ // still the beginning of a character
			continue
		}
		break
	}
	return n
}

const upperHex = "0123456789ABCDEF"

// formEncode writes pairs as Python's urlencode does: letters, digits and _.-~
// as they are, a space as +, every other byte as %XX.
func formEncode(pairs []Pair) string {
	var b strings.Builder
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte('&')
		}
		quotePlus(&b, p.Name)
		b.WriteByte('=')
		quotePlus(&b, p.Value)
	}
	return b.String()
}

func quotePlus(b *strings.Builder, s string) {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("_.-~", c) >= 0:
			b.WriteByte(c)
		case c == ' ':
			b.WriteByte('+')
		default:
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
}
