package redact

import (
	"bytes"
	"encoding/json"
)

// JSON is Bytes for a text that is valid JSON, and the result is valid again
// wherever no secret reaches across its structure: a number or literal with a
// secret in it becomes the string Mark, and so does a string that its escapes
// would not survive.
func (s *Scrubber) JSON(doc []byte) []byte {
	out := s.Bytes(doc)
	if bytes.Equal(out, doc) || json.Valid(out) {
		return out
	}
	byToken := s.Bytes(s.tokens(doc))
	if json.Valid(byToken) {
		return byToken
	}
	return out
}

// tokens scrubs each string, number and literal of valid JSON by itself, all of
// them within the budget of one text.
func (s *Scrubber) tokens(doc []byte) []byte {
	out := make([]byte, 0, len(doc))
	search := s.search(len(doc))
	for i := 0; i < len(doc); {
		n := token(doc[i:])
		if n == 0 {
			out = append(out, doc[i])
			i++
			continue
		}
		was := doc[i : i+n]
		now := search.scrub(was)
		if !bytes.Equal(was, now) && !json.Valid(now) {
			now = []byte(`"` + Mark + `"`)
		}
		out = append(out, now...)
		i += n
	}
	return out
}

// token is the length of the string, number or literal that b begins with; 0 for
// structure and space.
func token(b []byte) int {
	if b[0] == '"' {
		for i := 1; i < len(b); i++ {
			switch b[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
		return len(b)
	}
	n := bytes.IndexAny(b, "{}[]:,\" \t\r\n")
	if n < 0 {
		return len(b)
	}
	return n
}
