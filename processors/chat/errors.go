package chat

import (
	"fmt"

	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// protocolName is how errors name a dialect.
func protocolName(d schemas.Dialect) string {
	switch d = d.Family(); d {
	case schemas.DialectResponses:
		return "Responses"
	case schemas.DialectMessages:
		return "Messages"
	case schemas.DialectChat:
		return "chat completions"
	default:
		return string(d)
	}
}

// bad is an end with an error of Weir's own words.
func bad(o schemas.Outcome, code schemas.Code, message string) completionEnd {
	e := schemas.ChatError{Status: problem.ChatStatus(code), Message: message}
	return completionEnd{outcome: o, code: code, message: message, result: schemas.ChatResult{Error: &e}}
}

// with adds to an error's metadata.
func (e completionEnd) with(more map[string]any) completionEnd {
	if doc, err := ledger.Encode(more); err == nil && len(more) > 0 { // texts and numbers always encode
		e.result.Error.Metadata = doc
	}
	return e
}

// limited is the metadata of a budget error, without what is unknown.
func limited(source, what string) map[string]any {
	more := map[string]any{}
	if source != "" {
		more["limit_source"] = source
		if what != "" {
			more["limit_what"] = what
		}
	}
	return more
}

// credential holds for statuses by which a provider speaks of Weir's own credential or
// account with it: the caller's is another one.
func credential(status int) bool { return status >= 401 && status <= 403 }

// rejection is the status of an error that a provider reported with a status of its own; 0 if there
// is none. A 408 would blame the caller for being slow. Clients wait longer after 503 and 529 than after 502.
func rejection(status int) int {
	if status == 408 {
		return 504
	}
	if status >= 400 && status <= 499 && !credential(status) || status == 503 || status == 529 {
		return status
	}
	return 502
}

// rejectionText is what Weir says of it.
func rejectionText(status int) string {
	switch {
	case credential(status):
		return "the model's provider does not accept the gateway's own credential or account"
	case status == 429:
		return "the model's provider takes no more requests for now"
	case status == 408:
		return "the model's provider ran out of time"
	case status == 0:
		return "the model's provider answered with an error"
	default:
		return fmt.Sprintf("the model's provider answered with status %d", status)
	}
}
