package redact

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
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
	dec := jsontext.NewDecoder(bytes.NewReader(doc), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	done := 0
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return append(out, doc[done:]...)
		}
		end := int(dec.InputOffset())
		was := bytes.TrimLeft(doc[done:end], " \t\r\n,:")
		out = append(out, doc[done:end-len(was)]...)
		done = end
		now := was
		if !strings.ContainsRune("{}[]", rune(token.Kind())) {
			now = search.scrub(was)
		}
		if !bytes.Equal(was, now) && !json.Valid(now) {
			now = []byte(`"` + Mark + `"`)
		}
		out = append(out, now...)
	}
}
