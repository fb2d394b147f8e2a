// Package gitwire reads and writes what git's clients and servers say to each other:
// packet lines, the commands of a push, the report on them, the requests of a fetch,
// advertisements, and packs as far as their sizes go. It does no I/O of its own and
// starts nothing. The formats are those of git's documents gitprotocol-common,
// gitprotocol-pack, gitprotocol-v2 and gitformat-pack, with object ids by SHA-1.
package gitwire

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrMalformed is what every reader here returns for bytes that are not what they
// should be; its text says what is wrong, without a byte of them. An error of the
// reader below is returned as it is.
var ErrMalformed = errors.New("malformed")

// ErrTooLarge is for what is well-formed and more than the limit.
var ErrTooLarge = errors.New("larger than the limit")

// Zero is the object id that stands for none.
const Zero = "0000000000000000000000000000000000000000"

// MaxText is the most that is kept of a text of the other side, in bytes.
const MaxText = 1024

func malformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }

func tooLarge(what string) error { return fmt.Errorf("%w: %s", ErrTooLarge, what) }

// ValidOid reports whether a text is an object id as git writes it: 40 hex digits, no
// capitals. Zero is one.
func ValidOid(s string) bool {
	if len(s) != len(Zero) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// plain reports whether a text is UTF-8 without control characters.
func plain(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, control) < 0
}

func control(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }

// clean makes a text of the other side fit to be kept and shown: one line of UTF-8,
// no control characters, up to MaxText bytes.
func clean(text string) string {
	s := strings.Map(func(r rune) rune {
		if control(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), MaxText)], ""))
	return strings.Join(strings.Fields(s), " ")
}

// ValidRef reports whether git would take a name for a ref (git-check-ref-format,
// with two parts at least). It does not look at what it begins with.
func ValidRef(name string) bool {
	if !strings.Contains(name, "/") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return false
		}
	}
	return true
}

// The media types of git's smart protocol over HTTP, by the service.

// AdvertisementType is the content type of a service's ref advertisement.
func AdvertisementType(service string) string { return "application/x-" + service + "-advertisement" }

// RequestType is that of what a client sends.
func RequestType(service string) string { return "application/x-" + service + "-request" }

// ResultType is the content type of a service's answer.
func ResultType(service string) string { return "application/x-" + service + "-result" }
