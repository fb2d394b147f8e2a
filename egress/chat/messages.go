package chat

import (
	"context"

	"weir/egress/stream"
	"weir/internal/problem"
	"weir/schemas"
)

func messagesBody(r *RefusalError) any { return problem.Messages(&r.problem, "") }

func failedMessage(_ context.Context, _ *frames, it *stream.Item, r *RefusalError) ([]byte, error) {
	return appendEvent(nil, "error", schemas.ChatPlace{Seq: it.Seq}, messagesBody(r)), nil
}

func cutMessage(_ *frames, why string) []byte {
	r := refused(schemas.Unavailable, schemas.ChatError{Message: why + resend})
	return appendEvent(nil, "error", schemas.ChatPlace{}, messagesBody(r))
}
