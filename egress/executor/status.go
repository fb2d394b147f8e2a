package executor

import (
	"net/http"

	"weir/schemas"
)

// Status is the HTTP status of a variant. An unknown outcome is 424: no client
// library repeats that by itself.
func Status(variant string, code schemas.Code) int {
	switch variant {
	case schemas.VariantDisallowedHost:
		return http.StatusForbidden
	case schemas.VariantHTTPFailure, schemas.VariantRetriesExhausted:
		return http.StatusBadGateway
	case schemas.VariantRequest:
		return request(code)
	case schemas.VariantOutcomeUnknown:
		return http.StatusFailedDependency
	case schemas.VariantCanceled:
		return http.StatusConflict
	case schemas.VariantExpired:
		return http.StatusGatewayTimeout
	case schemas.VariantSchemaValidationFailed, schemas.VariantPostconditionFailed,
		schemas.VariantUnsupportedPrimitive, schemas.VariantMissingArgument, schemas.VariantInvalidArgumentValue,
		schemas.VariantInvalidMethod, schemas.VariantInvalidURL, schemas.VariantInvalidHeaderName,
		schemas.VariantInvalidHeaderValue, schemas.VariantInvalidSchema,
		schemas.VariantInvalidPostcondition, schemas.VariantUnsupportedPostcondition:
		return http.StatusUnprocessableEntity
	default:
		return http.StatusInternalServerError
	}
}

func request(code schemas.Code) int {
	switch code {
	case schemas.UpstreamTimeout, schemas.DeadlineExceeded:
		return http.StatusGatewayTimeout
	case schemas.Poison, schemas.Internal:
		return http.StatusInternalServerError
	default:
		return http.StatusBadGateway
	}
}

// retryable says whether a new action with the same request may fare better
// and can do no harm. Retries are exhausted only where each was harmless; a
// failed lookup, dial or handshake sent nothing; an action that expired
// without an attempt did neither.
func retryable(variant string, s *schemas.Settled) bool {
	switch variant {
	case schemas.VariantRetriesExhausted:
		return true
	case schemas.VariantRequest:
		return s.Code == schemas.UpstreamDNS || s.Code == schemas.UpstreamConnect || s.Code == schemas.UpstreamTLS
	case schemas.VariantExpired:
		return s.Attempts == 0
	default:
		return false
	}
}
