// Package direct is the outward adapter for plain HTTP: the call as the caller
// asked for it, to the target that policy matched.
package direct

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"weir/internal/fault"
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

// PassOptions are one call whose answer is passed on as it came, and in parts where it arrives slowly
// or is large.
type PassOptions struct {
	// Part takes the next part of an answer that is given in parts, in order; the first one has the
	// status and the headers. It is called by one goroutine, of which Do waits for the end. Its errors
	// are *fault.Call and end the call.
	Part func(ctx context.Context, p schemas.AnswerPart) error
	// Body opens a body that is stored apart, and says its size.
	Body func(ctx context.Context, name string) (io.ReadCloser, int64, error)
	// Hold is how long an answer is awaited as a whole, from its headers on. Idle bounds each wait for
	// more of a body, but for event streams.
	Hold, Idle time.Duration
	// Whole and Stream are the most bytes of an answer that is read as a whole, because another attempt
	// may follow it or a schema checks it, and of any other.
	Whole, Stream int64
}

// Passing returns an adapter for one call.
func (a *Adapter) Passing(o PassOptions) call.Adapter {
	via := &Adapter{redactor: a.redactor, passing: &o, most: o.Whole}
	via.Adapter = dial.Adapter{
		Client: a.Client, Secrets: a.Secrets, Limits: outbound.StreamLimits{Bytes: o.Stream, Keep: true}, Prepare: o.stored, Read: via.pass,
	}
	return via
}

// stored opens the body of a call that has it stored apart.
func (o *PassOptions) stored(ctx context.Context, p guard.Pass, r *outbound.Request) (err error) {
	if name := p.Call().BodyBlob; name != "" {
		if r.Stream, r.Length, err = o.Body(ctx, name); err != nil {
			return &fault.Call{Code: schemas.Interrupted, Cause: err}
		}
	}
	return nil
}

// pass reads an answer as a whole if it is there soon, and otherwise in parts.
func (a *Adapter) pass(ctx context.Context, answer *dial.Answer) (*call.Reply, error) {
	p := answer.Pass
	events := dial.MediaType(answer.Headers) == "text/event-stream"
	if !events {
		answer.Patience(a.passing.Idle)
	}
	schema, _ := p.Permit().ResponseSchema() // nothing is shown of an answer before it is checked
	inspected := schema != nil && !answer.Refused()
	if p.Mocked() || inspected || policy.IsRedirect(answer.Status) || retry.Retryable(p.Class(), answer.Status, p.Contract().RetryOn(), nil) {
		return a.whole(ctx, answer)
	}
	return a.read(ctx, answer, events || answer.Declared() > schemas.InlineLimit)
}
