package chat

import (
	"context"

	"weir/egress/stream"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// form is how the answers of one dialect are written.
type form struct {
	// named: the frame of a chunk names its event, which is the chunk's type.
	named bool
	// done is the end of every stream; empty: the chunks of an answer report its end.
	done string
	// body is the body of an answer that failed. It does not depend on the request.
	body func(r *RefusalError) any
	// failed returns the last frames of a stream whose answer failed.
	failed func(ctx context.Context, f *frames, it *stream.Item, r *RefusalError) ([]byte, error)
	// cut returns the last frames of a stream that ends before the answer does. They have no id, so
	// that the client resumes after the event that it read last.
	cut func(f *frames, why string) []byte
}

// formOf is the form of a dialect.
func formOf(d schemas.Dialect) form {
	chat := form{
		done: done, body: chatBody,
		failed: func(_ context.Context, f *frames, it *stream.Item, r *RefusalError) ([]byte, error) {
			return Last(f.ref, it.Seq, it.Event.Time, r), nil
		},
		cut: func(f *frames, why string) []byte { return Interrupted(f.ref, f.server.Now(), why+resend) },
	}
	switch d {
	case schemas.DialectResponses:
		return form{named: true, body: chat.body, failed: failedResponse, cut: cutResponse}
	case schemas.DialectMessages, schemas.DialectCount:
		return form{named: true, body: messagesBody, failed: failedMessage, cut: cutMessage}
	default: // embeddings have no streams
		return chat
	}
}

// resend says how a client reads the rest of a stream.
const resend = "; send the request again with its Idempotency-Key and the last event id as Last-Event-ID, or read the action's events"

func chatBody(r *RefusalError) any { return schemas.ChatRefusal{Error: r.said()} }

// appendEvent is the frame of an event that Weir writes itself. One at the zero place has no id.
func appendEvent(b []byte, name string, p schemas.ChatPosition, event any) []byte {
	line, err := ledger.Encode(event)
	if err != nil { // its raw members were read as JSON: cannot fail
		return b
	}
	b = append(b, "event: "...)
	b = append(b, name...)
	b = append(b, '\n')
	return appendFrame(b, p, string(line))
}

func messagesBody(r *RefusalError) any { return problem.Messages(&r.problem, "") }

func failedMessage(_ context.Context, _ *frames, it *stream.Item, r *RefusalError) ([]byte, error) {
	return appendEvent(nil, "error", schemas.ChatPosition{Seq: it.Seq}, messagesBody(r)), nil
}

func cutMessage(_ *frames, why string) []byte {
	r := refused(schemas.Unavailable, schemas.ChatError{Message: why + resend})
	return appendEvent(nil, "error", schemas.ChatPosition{}, messagesBody(r))
}
