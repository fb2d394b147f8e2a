package redact

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Members returns a JSON document that may be shown: the values of members whose names
// are Sensitive are Mark, at any depth. The values of the top-level members that open names
// are kept as they are. Order and numbers are kept. A text that is not JSON becomes the
// string Mark.
func (r *Redactor) Members(doc []byte, open ...string) []byte {
	var out bytes.Buffer
	dec := jsontext.NewDecoder(bytes.NewReader(doc), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	enc := jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := dec.ReadToken()
		if err == nil {
			token = token.Clone()
			err = enc.WriteToken(token)
		}
		if err == nil && isName(dec, token) && dec.PeekKind() != 'n' {
			name := token.String()
			var value jsontext.Value
			switch {
			case dec.StackDepth() == 1 && slices.Contains(open, name):
				if value, err = dec.ReadValue(); err == nil {
					err = enc.WriteValue(value)
				}
			case r.Sensitive(name):
				if err = dec.SkipValue(); err == nil {
					err = enc.WriteToken(jsontext.String(Mark))
				}
			}
		}
		if err != nil {
			return []byte(`"` + Mark + `"`)
		}
		if dec.StackDepth() == 0 {
			return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
		}
	}
}

// isName reports whether a token that was just read is the name of a member.
func isName(dec *jsontext.Decoder, token jsontext.Token) bool {
	kind, n := dec.StackIndex(dec.StackDepth())
	return token.Kind() == '"' && kind == '{' && n%2 == 1
}
