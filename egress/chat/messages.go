package chat

import (
	"context"
	"net/http"

	"weir/egress/stream"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// messagesRefusal is the body of an error of DialectMessages, and the data of its event error.
type messagesRefusal struct {
	Type      string          `json:"type"`
	Error     messagesRefused `json:"error"`
	RequestID string          `json:"request_id,omitempty"`
}

type messagesRefused struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func messagesOf(err error, requestID string) messagesRefusal {
	return messagesRefusal{
		Type: "error", RequestID: requestID,
		Error: messagesRefused{Type: messagesType(problem.Of(err).Status), Message: problem.Chat(err, requestID).Message},
	}
}

// messagesType is the class of an error by its status.
func messagesType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return "timeout_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

func writeMessages(w http.ResponseWriter, r *http.Request, err error) {
	e := problem.Of(err)
	problem.ReportOf(r.Context()).Code = e.Code
	e.Remedy(w.Header())
	problem.Limits(w.Header(), e.Limits)
	if body, err := ledger.Encode(messagesOf(err, problem.RequestID(r.Context()))); err == nil {
		write(w, e.Status, body)
	}
}

func messagesBody(r *RefusalError) any { return messagesOf(&r.problem, "") }

func failedMessage(_ context.Context, _ *frames, it *stream.Item, r *RefusalError) ([]byte, error) {
	return appendEvent(nil, "error", schemas.ChatPlace{Seq: it.Seq}, messagesBody(r)), nil
}

func cutMessage(_ *frames, why string) []byte {
	r := refused(schemas.Unavailable, schemas.ChatError{Message: why + resend})
	return appendEvent(nil, "error", schemas.ChatPlace{}, messagesBody(r))
}
