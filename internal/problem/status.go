package problem

import (
	"net/http"
	"strings"

	"weir/schemas"
)

// Status is the HTTP status of a code.
func Status(c schemas.Code) int {
	switch c {
	case schemas.InvalidRequest, schemas.UnsupportedTaskType, schemas.TaskNotRunning, schemas.GitProtocolRequired, schemas.GitIncomplete:
		return http.StatusBadRequest
	case schemas.Unauthorized:
		return http.StatusUnauthorized
	case schemas.BudgetExhausted:
		return http.StatusPaymentRequired
	case schemas.Forbidden, schemas.GitRefDenied:
		return http.StatusForbidden
	case schemas.NotFound, schemas.ModelNotFound:
		return http.StatusNotFound
	case schemas.MethodNotAllowed:
		return http.StatusMethodNotAllowed
	case schemas.NotAcceptable:
		return http.StatusNotAcceptable
	case schemas.RequestTimeout:
		return http.StatusRequestTimeout
	case schemas.Conflict, schemas.InFlight, schemas.Canceled, schemas.RuleLimitExceeded:
		return http.StatusConflict
	case schemas.StreamGone:
		return http.StatusGone
	case schemas.Misdirected:
		return http.StatusMisdirectedRequest
	case schemas.EtagMismatch:
		return http.StatusPreconditionFailed
	case schemas.PayloadTooLarge, schemas.GitPackTooLarge:
		return http.StatusRequestEntityTooLarge
	case schemas.URITooLong:
		return http.StatusRequestURITooLong
	case schemas.HeadersTooLarge:
		return http.StatusRequestHeaderFieldsTooLarge
	case schemas.UnsupportedMediaType, schemas.UnsupportedEncoding:
		return http.StatusUnsupportedMediaType
	case schemas.ValidationError, schemas.IdempotencyMismatch, schemas.ResponseSchemaInvalid, schemas.PostconditionFailed, schemas.GitRejected:
		return http.StatusUnprocessableEntity
	case schemas.OutcomeUnknownCode:
		return http.StatusFailedDependency
	case schemas.RateLimited:
		return http.StatusTooManyRequests
	case schemas.Unavailable, schemas.LogFull, schemas.QueueFull:
		return http.StatusServiceUnavailable
	case schemas.HTTPFailure, schemas.RetriesExhausted, schemas.ModelFailed:
		return http.StatusBadGateway
	case schemas.UpstreamTimeout, schemas.DeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return family(c)
	}
}

// family maps the codes that share a prefix; the rest is our own failure.
func family(c schemas.Code) int {
	switch {
	case c.Denied():
		return http.StatusForbidden
	case strings.HasPrefix(string(c), "UPSTREAM_"):
		return http.StatusBadGateway
	default:
		return http.StatusInternalServerError
	}
}

// Retryable reports whether the same request may succeed later, and whether
// sending it again is harmless: nothing was stored, or a repeat joins what was.
func Retryable(c schemas.Code) bool {
	switch c {
	case schemas.RateLimited, schemas.Unavailable, schemas.LogFull, schemas.QueueFull, schemas.RequestTimeout, schemas.InFlight:
		return true
	default:
		return false
	}
}
