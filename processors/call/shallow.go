package call

// Shallow reports whether a text is nested no deeper than limit, were it JSON.
// Every reader of JSON has a limit of its own, and what lies inside a record must
// stay below all of them.
func Shallow(raw []byte, limit int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return false
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return true
}
