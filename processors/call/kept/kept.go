// Package kept turns what came back into what may be kept of it: without the
// secrets that were sent, and as JSON wherever it is JSON.
package kept

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"weir/internal/redact"
	"weir/processors/call"
)

// snippetLength is how many code points of a body are kept in the open.
const snippetLength = 512

// Document is a body as JSON without secrets: itself where it is JSON, a string
// where it is anything else, null where there is none. clean is raw, scrubbed.
func Document(raw, clean []byte, scrub *redact.Scrubber) (doc json.RawMessage, isJSON bool) {
	if len(raw) == 0 {
		return json.RawMessage("null"), false
	}
	if call.Shallow(raw, maxDepth) && utf8.Valid(raw) && json.Valid(raw) {
		if !bytes.Equal(raw, clean) {
			raw = scrub.JSON(raw)
		}
		if json.Valid(raw) {
			return bytes.TrimSpace(raw), true
		}
	}
	doc, err := json.Marshal(valid(clean, "\uFFFD", scrub))
	if err != nil { // a string always marshals
		return json.RawMessage("null"), false
	}
	return doc, false
}

// valid is a scrubbed text with invalid bytes replaced. The joined text around them may now form a
// secret, so it is scrubbed again.
func valid(clean []byte, other string, scrub *redact.Scrubber) string {
	if utf8.Valid(clean) {
		return string(clean)
	}
	return scrub.String(strings.ToValidUTF8(string(clean), other))
}

// maxDepth is how deep an answer's JSON may be nested and still be kept as JSON.
// It lies inside records that lie inside answers, and every reader on the way has
// a limit of its own.
const maxDepth = 512

// Snippet is the first code points of a scrubbed body, invalid bytes dropped.
func Snippet(clean []byte, scrub *redact.Scrubber) string {
	text := valid(clean, "", scrub)
	n := 0
	for i := range text {
		if n == snippetLength {
			return text[:i]
		}
		n++
	}
	return text
}
