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

	"weir/internal/fault"
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

	secrets  dial.Secrets
	redactor *redact.Redactor
	passing  *PassOptions // nil: answers are read as a whole
}

// New returns an Adapter. The redactor decides which headers' values are hidden
// in the answers that are kept.
func New(c *outbound.Client, s dial.Secrets, r *redact.Redactor) *Adapter {
	return (&Adapter{secrets: s, redactor: r}).over(c)
}

func (a *Adapter) over(c *outbound.Client) *Adapter {
	a.Adapter = dial.Adapter{Client: c, Do: func(ctx context.Context, l *dial.Base) (*call.Reply, error) {
		return (&exchange{l, a}).make(ctx)
	}}
	return a
}

type exchange struct {
	*dial.Base
	adapter *Adapter
}

// make reads the entry's secrets, which is as late as it can be, and sends. Where a
// traffic rule answers, neither is done.
func (e *exchange) make(ctx context.Context) (*call.Reply, error) {
	if e.Pass.Mocked() {
		return e.reply(e.Mock(), nil), nil
	}
	c := e.Pass.Call()
	body, err := c.Sent()
	if err != nil {
		return nil, &fault.Call{Code: schemas.DenyBody, Cause: err}
	}
	req, scrub, err := e.Request(ctx, e.adapter.secrets, body)
	if err != nil {
		return nil, err
	}
	if body != nil || c.BodyBlob != "" {
		req.ContentType = cmp.Or(c.ContentType, "application/json")
	}
	if e.adapter.passing != nil {
		reply, err := e.pass(ctx, req, scrub)
		return reply, unread(ctx, err)
	}
	resp, err := e.Conn.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	return e.reply(resp, scrub), nil
}

// reply is an answer that is there as a whole. Its body is as it came if it is passed on.
func (e *exchange) reply(r *outbound.Response, scrub *redact.Scrubber) *call.Reply {
	reply := e.head(r, scrub)
	if e.adapter.passing != nil {
		reply.Answer.Body, reply.Answer.Base64 = asCame(scrub.Bytes(r.Body))
	} else {
		dial.PutBody(&reply.Answer, r.Body, dial.ContentType(r.Headers), scrub)
	}
	// Over the bytes as they came, secrets included, so that the upstream's own
	// log can be held against it. Who knows all the rest of a body could try
	// guesses of a secret in it: that is no way in where secrets are random.
	reply.Answer.Hash = dial.Hash(r.Body)
	return reply
}

// head is a reply without a body, as stored: first secrets are redacted by value, then traffic rules
// change headers, and then headers are hidden by name. A Location that holds a secret is
// not followed: a redirect carries no credentials.
func (e *exchange) head(r *outbound.Response, scrub *redact.Scrubber) *call.Reply {
	headers := r.Headers
	if scrub != nil {
		headers = scrubbed(headers, scrub)
	}
	if changes := e.Pass.Effect().Response; len(changes) > 0 {
		headers = traffic.EditHeaders(headers, changes)
	}
	shown := e.adapter.redactor.Headers(headers)
	reply := &call.Reply{Answer: schemas.Answer{Status: r.Status, Headers: shown, RetryAfter: r.RetryAfter}}
	if e.adapter.passing != nil {
		for i, h := range headers {
			if h != shown[i] {
				reply.Answer.Hidden = append(reply.Answer.Hidden, h.Stored())
			}
		}
	}
	if scrub.String(r.Location) == r.Location {
		reply.Location = r.Location
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
