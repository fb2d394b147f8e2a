package problem

import (
	"cmp"
	"context"
	"net/http"

	"weir/schemas"
)

type agentKey struct{}

type agentWords struct{ requestID, operation string }

// WithAgent makes the answers of the agent API repeat the request_id and the
// operation of a request, as far as they could be read.
func WithAgent(ctx context.Context, requestID, operation string) context.Context {
	return context.WithValue(ctx, agentKey{}, agentWords{requestID, operation})
}

// Agent is what WithAgent set, or twice "".
func Agent(ctx context.Context) (requestID, operation string) {
	w, _ := ctx.Value(agentKey{}).(agentWords)
	return w.requestID, w.operation
}

// WriteAgent is Write in the format of the agent API. It keeps the status of the error, unless the
// API specification defines its own code and status.
func WriteAgent(w http.ResponseWriter, r *http.Request, err error) {
	e := Of(err)
	ReportOf(r.Context()).Code = e.Code
	id, operation := Agent(r.Context())
	code, detail := AgentCode(e.Code) // the code that agents know; the original one becomes the detail
	refused := schemas.AgentError{Code: code, Message: cmp.Or(e.Detail, e.Title), Detail: cmp.Or(e.Word, detail)}
	e.answer(w, "application/json", append(schemas.Encoded(schemas.AgentResponse{RequestID: id, Operation: operation, Error: &refused}), '\n'))
}

// AgentCode is the agent API's word for a code, and the finer word beside it.
func AgentCode(c schemas.Code) (code schemas.Code, detail string) {
	switch c {
	case schemas.InvalidRequest, schemas.ValidationError, schemas.NotFound, schemas.EtagMismatch,
		schemas.RuleLimitExceeded, schemas.RateLimited, schemas.InternalError:
		return c, ""
	case schemas.Unauthorized:
		return c, schemas.DetailAuthRequired
	case schemas.Forbidden:
		return schemas.Unauthorized, string(c)
	case schemas.MethodNotAllowed, schemas.NotAcceptable, schemas.UnsupportedMediaType, schemas.UnsupportedEncoding,
		schemas.PayloadTooLarge, schemas.URITooLong, schemas.HeadersTooLarge, schemas.RequestTimeout, schemas.Conflict, schemas.Misdirected:
		return schemas.InvalidRequest, string(c)
	case schemas.Internal:
		return schemas.InternalError, ""
	default:
		return schemas.InternalError, string(c)
	}
}
