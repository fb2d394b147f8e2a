package direct

import (
	"context"
	"io"
	"time"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/retry"
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
