package direct

import (
	"context"
	"errors"
	"io"
	"time"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/redact"
	"weir/internal/retry"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/schemas"
)

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
	return (&Adapter{secrets: a.secrets, redactor: a.redactor, passing: &o}).over(a.Client)
}

// pass sends, and reads the answer as a whole if it is there soon, and otherwise in parts.
func (e *exchange) pass(ctx context.Context, req outbound.Request, scrub *redact.Scrubber) (*call.Reply, error) {
	o := e.adapter.passing
	if name := e.Pass.Call().BodyBlob; name != "" {
		var err error
		if req.Stream, req.Length, err = o.Body(ctx, name); err != nil {
			return nil, &fault.Call{Code: schemas.Interrupted, Cause: err}
		}
	}
	s, err := e.Conn.Stream(ctx, req, outbound.StreamLimits{Bytes: o.Stream, Keep: true})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r := &outbound.Response{Status: s.Status, Headers: s.Headers, Location: s.Location, RetryAfter: s.RetryAfter}
	events := dial.MediaType(s.Headers) == "text/event-stream"
	if !events {
		s.Patience(o.Idle)
	}
	schema, _ := e.Pass.Permit().ResponseSchema() // nothing is shown of an answer before it is checked
	inspected := schema != nil && s.Status >= 200 && s.Status <= 299
	if inspected || policy.IsRedirect(s.Status) || retry.Retryable(e.Pass.Class(), s.Status, e.Pass.Contract().RetryOn(), nil) {
		if r.Body, err = s.ReadAllBy(s, o.Whole); err != nil { //nolint:contextcheck // the stream has it
			return nil, err
		}
		return e.reply(r, scrub), nil
	}
	return e.read(ctx, r, scrub, s, events || s.Declared() > schemas.InlineLimit)
}

// unread is the error of a call whose stored body could not be read to its end. The target has got less
// than it was announced.
func unread(ctx context.Context, err error) error {
	if failed, ok := errors.AsType[*fault.Call](err); ok && ctx.Err() == nil && errors.Is(err, outbound.ErrBody) {
		failed.Code = schemas.Interrupted
	}
	return err
}
