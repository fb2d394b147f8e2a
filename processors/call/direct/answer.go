package direct

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/internal/traffic"
	"weir/processors/call"
	"weir/processors/call/kept"
	"weir/schemas"
)

// answer is the response as stored: first secrets are redacted by value, then traffic rules change
// headers, then headers are removed by name, and then it is cut. A Location that holds a secret is
// not followed: a redirect carries no credentials.
func (e *exchange) answer(r *outbound.Response, scrub *redact.Scrubber) call.Reply {
	headers := scrubbed(r.Headers, scrub)
	if changes := e.Pass.ResponseChanges(); len(changes) > 0 {
		headers = traffic.EditHeaders(headers, changes)
	}
	reply := call.Reply{Answer: schemas.Answer{
		Status: r.Status, Headers: e.adapter.redactor.Headers(headers), RetryAfter: r.RetryAfter,
	}}
	kept.Put(&reply.Answer, r.Body, contentType(r.Headers), scrub)
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

// contentType is the Content-Type of an answer as the target sent it, "" without one.
func contentType(headers []schemas.Header) string {
	for _, h := range headers {
		if h.Name == "content-type" {
			return h.Value
		}
	}
	return ""
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
