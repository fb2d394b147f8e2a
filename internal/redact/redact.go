// Package redact takes out of what is shown, logged or stored what must not be
// there: by name, the headers that carry credentials; by value, secrets that
// came back from a target, in whatever encoding it echoed them.
//
// Redact before cutting: a secret that straddles a cut is no longer found.
package redact

import (
	"slices"
	"strings"

	"weir/schemas"
)

// What stands in the place of what was taken out.
const (
	Mark   = "REDACTED"
	Binary = "<binary>" // of a header's value that is not text
)

// Redactor hides header values by name. It is immutable and safe for
// concurrent use; a nil Redactor knows the names that are always hidden.
type Redactor struct {
	names []string // lower case, sorted, beside the fixed ones
}

// New returns a Redactor for the fixed names (authorization,
// proxy-authorization, cookie, set-cookie, x-api-key) and these. Names are
// compared without regard to case; empty ones are ignored.
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
	name = strings.ToLower(name)
	switch name {
	case "authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key":
		return true
	}
	if r == nil {
		return false
	}
	_, found := slices.BinarySearch(r.names, name)
	return found
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
		case !text(h.Value):
			out[i].Value = Binary
		}
	}
	return out
}

// text holds for printable ASCII, spaces and tabs: what every reader of a
// header's value reads alike.
func text(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\t') || c >= 0x7f {
			return false
		}
	}
	return true
}
