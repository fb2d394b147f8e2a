package direct

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/processors/call"
	"weir/schemas"
)

// snippetLength is how many code points of a body are kept in the open.
const snippetLength = 512

// answer is the response as it is kept: secrets taken out by value, headers by
// name, and only then cut. A Location that holds a secret is none for following:
// a redirect carries no credentials, whoever wrote them into it.
func (e *exchange) answer(r *outbound.Response, secret []string) call.Reply {
	var scrub *redact.Scrubber
	if len(secret) > 0 {
		scrub = redact.Values(secret)
	}
	clean := scrub.Bytes(r.Body)
	body, isJSON := document(r.Body, clean, scrub)
	reply := call.Reply{Answer: schemas.Answer{
		Status: r.Status, Headers: e.adapter.redactor.Headers(scrubbed(r.Headers, scrub)),
		Body: body, JSON: isJSON, Snippet: snippet(clean, scrub), RetryAfter: r.RetryAfter,
	}}
	if scrub.String(r.Location) == r.Location {
		reply.Location = r.Location
	}
	if len(r.Body) > 0 {
		// Over the bytes as they came, secrets included, so that the upstream's own
		// log can be held against it. Who knows all the rest of a body could try
		// guesses of a secret in it: that is no way in where secrets are random.
		sum := sha256.Sum256(r.Body)
		reply.Answer.Hash = hex.EncodeToString(sum[:])
	}
	return reply
}

// scrubbed are headers without secrets, in their names too: those came in lower
// case, and stay so.
func scrubbed(headers []schemas.Header, scrub *redact.Scrubber) []schemas.Header {
	if scrub == nil {
		return headers
	}
	out := make([]schemas.Header, len(headers))
	for i, h := range headers {
		out[i] = schemas.Header{Name: strings.ToLower(scrub.String(h.Name)), Value: scrub.String(h.Value)}
	}
	slices.SortStableFunc(out, func(a, b schemas.Header) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// document is a body as JSON without secrets: itself where it is JSON, a string
// where it is anything else, null where there is none. clean is raw, scrubbed.
func document(raw, clean []byte, scrub *redact.Scrubber) (doc json.RawMessage, isJSON bool) {
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

// valid is a scrubbed text with other bytes in place of invalid ones. What stood
// on both sides of them may be a secret now.
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

// snippet is the first code points of a scrubbed body, invalid bytes dropped.
func snippet(clean []byte, scrub *redact.Scrubber) string {
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
