// Package redact takes out of what is shown, logged or stored what must not be
// there: by name, the headers that carry credentials; by value, secrets that
// came back from a target, in whatever encoding it echoed them.
//
// Redact before cutting, for a secret that straddles a cut is no longer found,
// and again after whatever joins what was apart.
package redact

import (
	"slices"
	"strings"

	"weir/schemas"
)

// The replacements of hidden values.
const (
	Mark   = "REDACTED"
	Binary = "<binary>" // of a header's value that is not text
)

// Redactor hides header values by name. It is immutable and safe for
// concurrent use; a nil Redactor knows the names that are always hidden.
type Redactor struct {
	names []string // lower case, sorted, beside the fixed ones
}

// New returns a Redactor for these names, beside the ones that are always
// hidden. Names are compared without regard to case; empty ones are ignored.
func New(names []string) *Redactor {
	r := &Redactor{}
	for _, name := range names {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
			r.names = append(r.names, name)
		}
	}
	slices.Sort(r.names)
	r.names = slices.Compact(r.names)
	return r
}

// Sensitive reports whether the values of a header are hidden.
func (r *Redactor) Sensitive(name string) bool {
	if Credential(name) {
		return true
	}
	if r == nil {
		return false
	}
	_, found := slices.BinarySearch(r.names, strings.ToLower(name))
	return found
}

// Credential reports whether a name, of a header, a parameter or a member, says
// that its value gives access: the headers that HTTP has for it, and whatever is
// called a token, secret, password, signature, API key or credential. Letter
// case and what stands between words do not matter.
func Credential(name string) bool {
	folded := fold(name)
	switch folded {
	case "cookie", "setcookie", "cookie2", "setcookie2":
		return true
	}
	if strings.Contains(folded, "ratelimit") { // how many tokens are left, in the sense that models have of them
		return false
	}
	if strings.HasPrefix(folded, "proxy") && strings.Contains(folded, "auth") {
		return true
	}
	for _, word := range [...]string{"authorization", "token", "secret", "password", "passwd", "signature", "apikey", "credential"} {
		if strings.Contains(folded, word) {
			return true
		}
	}
	return false
}

// fold leaves the letters and digits of a name, in lower case: some programs treat X-Api_Key and
// xapikey as the same name.
func fold(name string) string {
	b := make([]byte, 0, len(name))
	for i := range len(name) {
		if c := lower(name[i]); 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			b = append(b, c)
		}
	}
	return string(b)
}

// Headers returns a copy that may be shown: order, names and repeats are kept.
func (r *Redactor) Headers(headers []schemas.Header) []schemas.Header {
	if headers == nil {
		return nil
	}
	out := make([]schemas.Header, len(headers))
	for i, h := range headers {
		out[i] = h
		switch {
		case r.Sensitive(h.Name):
			out[i].Value = Mark
		case !Printable(h.Value):
			out[i].Value = Binary
		}
	}
	return out
}

// Printable holds for printable ASCII, spaces and tabs: what every reader of a
// header's value reads alike.
func Printable(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\t') || c >= 0x7f {
			return false
		}
	}
	return true
}
