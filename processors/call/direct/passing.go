package direct

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"mime"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/redact"
	"weir/internal/retry"
	"weir/internal/traffic"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/processors/guard"
	"weir/schemas"
)

// PassOptions are one call whose answer is passed on as it came, and in parts where it arrives slowly
// or is large.
type PassOptions struct {
	// Part takes the next part of an answer that is given in parts, in order; the first one has the
	// status and the headers. It is called by one goroutine, of which Do waits for the end. Its errors
	// are *fault.Call and end the call.
	Part func(ctx context.Context, p schemas.AnswerPart) error
	// Hold is how long an answer is awaited as a whole, from its headers on. Idle bounds each wait for
	// more of a body, but for event streams.
	Hold, Idle time.Duration
	// Whole and Stream are the most bytes of an answer that is read as a whole, because another attempt
	// may follow it or a schema judges it, and of any other.
	Whole, Stream int64
}

// Passing returns an adapter for one call.
func (a *Adapter) Passing(o PassOptions) call.Adapter { return passing{a, o} }

type passing struct {
	*Adapter
	options PassOptions
}

// Open dials the target of the pass.
func (a passing) Open(ctx context.Context, p guard.Pass) (call.Exchange, error) {
	line, err := dial.Take(ctx, a.client, p)
	if err != nil {
		return nil, err
	}
	return &passage{exchange{line, a.Adapter}, a.options}, nil
}

// passage is the exchange of such a call.
type passage struct {
	exchange
	options PassOptions
}

// Do sends, and reads the answer as a whole if it is there soon, and otherwise in parts.
func (e *passage) Do(ctx context.Context) (call.Reply, error) {
	if e.Pass.Mocked() {
		return e.reply(e.Mock(), nil), nil
	}
	req, scrub, err := e.request(ctx)
	if err != nil {
		return call.Reply{}, err
	}
	s, err := e.Conn.Stream(ctx, req, outbound.StreamLimits{Bytes: e.options.Stream, Keep: true})
	if err != nil {
		return call.Reply{}, err
	}
	defer s.Close()
	r := &outbound.Response{Status: s.Status, Headers: s.Headers, Location: s.Location, RetryAfter: s.RetryAfter}
	events := eventStream(s.Headers)
	if !events {
		s.Patience(e.options.Idle)
	}
	if e.repeated(s.Status) || e.inspected(s.Status) {
		if r.Body, err = s.ReadAll(e.options.Whole); err != nil {
			return call.Reply{}, err
		}
		return e.reply(r, scrub), nil
	}
	parts := newParts(ctx, e, r, scrub, s)
	if events || s.Declared() > schemas.InlineLimit {
		parts.begin()
	}
	return parts.read()
}

// repeated reports whether another request may follow an answer with this status.
func (e *passage) repeated(status int) bool {
	return policy.IsRedirect(status) || retry.Retryable(e.Pass.Class(), status, e.Pass.Contract().RetryOn(), nil)
}

// inspected reports whether a schema judges an answer with this status. Nothing of it is shown before.
func (e *passage) inspected(status int) bool {
	schema, _ := e.Pass.Permit().ResponseSchema()
	return schema != nil && status >= 200 && status <= 299
}

// reply is an answer that is there as a whole, its body as it came.
func (e *passage) reply(r *outbound.Response, scrub *redact.Scrubber) call.Reply {
	reply := e.head(r, scrub)
	reply.Answer.Body, reply.Answer.Base64 = asCame(scrub.Bytes(r.Body))
	if len(r.Body) > 0 {
		sum := sha256.Sum256(r.Body)
		reply.Answer.Hash = hex.EncodeToString(sum[:])
	}
	return reply
}

// head is a reply without a body.
func (e *passage) head(r *outbound.Response, scrub *redact.Scrubber) call.Reply {
	headers := scrubbed(r.Headers, scrub)
	if changes := e.Pass.ResponseChanges(); len(changes) > 0 {
		headers = traffic.EditHeaders(headers, changes)
	}
	shown := e.adapter.redactor.Headers(headers)
	reply := call.Reply{Answer: schemas.Answer{Status: r.Status, Headers: shown, RetryAfter: r.RetryAfter}}
	for i, h := range headers {
		if h != shown[i] && utf8.ValidString(h.Value) {
			reply.Answer.Hidden = append(reply.Answer.Hidden, h)
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

// eventStream reports whether an answer is a stream of server-sent events.
func eventStream(headers []schemas.Header) bool {
	for _, h := range headers {
		if h.Name == "content-type" {
			media, _, _ := mime.ParseMediaType(h.Value) // what cannot be read is none
			return media == "text/event-stream"
		}
	}
	return false
}
