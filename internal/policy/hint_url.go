package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// url names the faulty place in the URL. Positions count bytes from 1.
func (m *hint) url(f denial) string {
	s := m.r.URL
	switch f {
	case deniedURLLength:
		return fmt.Sprintf("shorten the url by %d bytes, or send what is long in the body", len(s)-MaxURL)
	case deniedURLCharacter:
		return urlCharacter(s)
	case deniedEscape:
		if i := badEscape(s); i >= 0 {
			return fmt.Sprintf("write %%25 for the percent sign at byte %d, or two hex digits after it", i+1)
		}
	case deniedFragment:
		return "leave out the # and what follows it"
	case deniedNoScheme:
		return "begin the url with https:// or http://"
	case deniedQueryOwned:
		return "leave out the parameters that " + m.entry.label() + " adds: " + strings.Join(names(m.entry.Query), ", ")
	case deniedQueryCaller:
		raw, _ := foreignParam(m.entry, m.q.url.Query)
		name := strconv.Quote(string(paramName(nil, raw)))
		return "leave out the parameter " + name + ", or add " + name + " to caller_params of " + m.entry.label()
	default:
	}
	return advice(f)
}

func urlCharacter(s string) string {
	i := 0
	for i < len(s) && (s[i] == '#' || urlByte(s[i])) {
		i++
	}
	if i == len(s) {
		return advice(deniedURLCharacter)
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	where := fmt.Sprintf("at byte %d", i+1)
	switch _, rest, ok := strings.Cut(s[:i], "://"); {
	case r < ' ' || r == 0x7f:
		return "leave out the control character " + where
	case i == 0 || strings.TrimSpace(s[i:]) == "":
		return "leave out the text before or after the url, " + where
	case !ok || !strings.ContainsAny(rest, "/?"):
		if r >= utf8.RuneSelf {
			return "write the host as A-labels, which begin with xn--; it has another script " + where
		}
		return "leave out the character " + where + ", which no host has"
	case r == '\\':
		return "write / for the backslash " + where
	}
	return fmt.Sprintf("write %s for the character %s", escapeBytes(s[i:i+n]), where)
}

// escapeBytes percent-encodes every byte.
func escapeBytes(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02X", s[i])
	}
	return b.String()
}
