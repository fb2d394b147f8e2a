package chat

import (
	"context"

	"weir/egress/stream"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// resend says how a client reads the rest of a stream.
const resend = "; send the request again with its Idempotency-Key and the last event id as Last-Event-ID, or read the action's events"

// named reports whether the frame of a chunk names its event, which is the chunk's type. The chunks of such
// a dialect report the end of an answer, and no frame follows them.
func named(d schemas.Dialect) bool {
	return d.Family() == schemas.DialectResponses || d.Family() == schemas.DialectMessages
}

// failed returns the last frames of a stream whose answer failed.
func (f *frames) failed(ctx context.Context, it *stream.Item, r *RefusalError) ([]byte, error) {
	switch f.order.Dialect.Family() {
	case schemas.DialectResponses:
		return f.failedResponse(ctx, it, r)
	case schemas.DialectMessages:
		return appendEvent(nil, "error", schemas.ChatPosition{Seq: it.Seq}, problem.Messages(&r.problem, "")), nil
	default: // embeddings have no streams
		return Last(it.Seq, r), nil
	}
}

// end returns the last frames of a stream that ends before the answer does. They have no id, so that the
// client resumes after the event that it read last.
func (f *frames) end() []byte {
	const why = "the stream ends here before the answer does"
	switch f.order.Dialect.Family() {
	case schemas.DialectResponses:
		return f.cutResponse(why)
	case schemas.DialectMessages:
		r := refused(schemas.Unavailable, schemas.ChatError{Message: why + resend})
		return appendEvent(nil, "error", schemas.ChatPosition{}, problem.Messages(&r.problem, ""))
	default:
		return Interrupted(why + resend)
	}
}

// appendEvent is the frame of an event that Weir writes itself. One at the zero place has no id.
func appendEvent(b []byte, name string, p schemas.ChatPosition, event any) []byte {
	line, err := ledger.Encode(event)
	if err != nil { // its raw members were read as JSON: cannot fail
		return b
	}
	return appendFrame(b, name, p, string(line))
}
