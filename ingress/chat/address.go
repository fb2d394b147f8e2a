package chat

import (
	"strings"
	"unicode"
)

// address reports whether a text is one, or a list of them, rather than a sentence
// that has one in it. What no reader sees, and signs before its first letter, do not
// count.
func address(text string) bool {
	if !strings.ContainsAny(text, `:/\`) {
		return false
	}
	text = strings.TrimLeftFunc(strings.Map(visible, text), func(r rune) bool {
		return r != '/' && r != '\\' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if relative(text) {
		return true
	}
	scheme, rest, ok := strings.Cut(text, ":")
	if ok && len(scheme) > 1 && isScheme(scheme) && strings.HasPrefix(rest, "/") { // one letter is a drive
		return true
	}
	return strings.Contains(text, "://") && !strings.ContainsAny(text, " \t\r\n")
}

// relative reports whether a browser would take a text for an address: it takes one
// slash for two, either kind for the other, none at all behind its own schemes, and
// minds no line break.
func relative(text string) bool {
	text = strings.Map(func(r rune) rune {
		switch r {
		case '\t', '\r', '\n':
			return -1
		case '\\':
			return '/'
		default:
			return r
		}
	}, text)
	rest, ok := strings.CutPrefix(text, "//")
	if !ok {
		var scheme string
		if scheme, rest, ok = strings.Cut(text, ":"); ok {
			switch strings.ToLower(scheme) {
			case "http", "https", "ws", "wss", "ftp":
			default:
				ok = false
			}
		}
	}
	return ok && rest != "" && rest[0] != ' '
}

// visible drops what a reader does not see. Spaces stay: they part words.
func visible(r rune) rune {
	switch {
	case r == '\t', r == '\r', r == '\n':
		return r
	case r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0', unicode.In(r, unicode.Cc, unicode.Cf, unicode.Mn):
		return -1
	default:
		return r
	}
}

func isScheme(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return s != ""
}
