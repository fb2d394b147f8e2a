// Package direct is the outward adapter for plain HTTP: the call as the caller
// asked for it, to the target that policy matched.
package direct

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/internal/traffic"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/schemas"
)

// Adapter makes calls through the guarded client.
type Adapter struct {
	dial.Adapter

	redactor *redact.Redactor
	passing  *PassOptions // nil: answers are read as a whole
	most     int64        // bytes of an answer that is; 0: the client's limit
}

// New returns an Adapter. The redactor decides which headers' values are hidden
// in the answers that are kept.
func New(c *outbound.Client, s dial.Secrets, r *redact.Redactor) *Adapter {
	a := &Adapter{Adapter: dial.Adapter{Client: c, Secrets: s, Limits: outbound.StreamLimits{Whole: true, Keep: true}}, redactor: r}
	a.Read = a.whole
	return a
}

// whole reads an answer as a whole, and gives it as it is stored: first secrets are redacted by value,
// then traffic rules change headers, and then headers are hidden by name. Its body is as it came if it
// is passed on.
func (a *Adapter) whole(_ context.Context, answer *dial.Answer) (*call.Reply, error) {
	if !answer.Pass.Mocked() {
		var err error
		if answer.Body, err = answer.ReadAllBy(answer, a.most); err != nil {
			return nil, err
		}
	}
	return a.reply(answer), nil
}

// reply is an answer whose body is there.
func (a *Adapter) reply(answer *dial.Answer) *call.Reply {
	reply := a.head(answer)
	if a.passing != nil {
		reply.Answer.Body, reply.Answer.Base64 = asCame(answer.Scrub.Bytes(answer.Body))
	} else {
		dial.PutBody(&reply.Answer, answer.Body, dial.ContentType(answer.Headers), answer.Scrub)
	}
	// Over the bytes as they came, secrets included, so that the upstream's own
	// log can be held against it. Who knows all the rest of a body could try
	// guesses of a secret in it: that is no way in where secrets are random.
	reply.Answer.Hash = dial.Hash(answer.Body)
	return reply
}

// head is a reply without a body. A Location that holds a secret is not followed: a redirect carries
// no credentials.
func (a *Adapter) head(answer *dial.Answer) *call.Reply {
	headers, scrub := answer.Headers, answer.Scrub
	if scrub != nil {
		headers = scrubbed(headers, scrub)
	}
	if changes := answer.Pass.Effect().Response; len(changes) > 0 {
		headers = traffic.EditHeaders(headers, changes)
	}
	shown := a.redactor.Headers(headers)
	reply := &call.Reply{Answer: schemas.Answer{Status: answer.Status, Headers: shown, RetryAfter: answer.RetryAfter}}
	if a.passing != nil {
		for i, h := range headers {
			if h != shown[i] {
				reply.Answer.Hidden = append(reply.Answer.Hidden, h.Stored())
			}
		}
	}
	if scrub.String(answer.Location) == answer.Location {
		reply.Location = answer.Location
	}
	return reply
}

// asCame is a body that every byte can be read from again.
func asCame(body []byte) (doc json.RawMessage, encoded bool) {
	switch {
	case len(body) == 0:
		return json.RawMessage("null"), false
	case utf8.Valid(body):
		doc, _ = jsontext.AppendQuote(make([]byte, 0, len(body)+len(body)/8+2), body) // valid UTF-8: cannot fail
		return doc, false
	default:
		return append(base64.StdEncoding.AppendEncode([]byte{'"'}, body), '"'), true
	}
}

// scrubbed are headers without secrets, in their names too: those came in lower
// case, and stay so.
func scrubbed(headers []schemas.Header, scrub *redact.Scrubber) []schemas.Header {
	out := make([]schemas.Header, len(headers))
	for i, h := range headers {
		out[i] = schemas.Header{Name: strings.ToLower(scrub.String(h.Name)), Value: scrub.String(h.Value)}
	}
	slices.SortStableFunc(out, func(a, b schemas.Header) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
