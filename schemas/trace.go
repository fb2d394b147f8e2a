package schemas

// HeaderTraceParent is the header of W3C Trace Context in which a caller names the span
// that a request is a part of.
const HeaderTraceParent = "Traceparent"

// ValidTraceParent reports whether a text is such a header's value in version 00: what
// may be kept with an action.
func ValidTraceParent(s string) bool {
	const form = "00-################################-################-##"
	if len(s) != len(form) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; form[i] != '#' && c != form[i] || form[i] == '#' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
