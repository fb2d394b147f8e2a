package plans

import (
	"errors"
	"strings"

	"weir/schemas"
)

// Failure is the message of a permitted call that failed.
func Failure(cause string) error { return errors.New("http connector failed: " + cause) }

// Denied is the message of a call that policy refuses, in the exact text that controllers know. The
// URL is shown as in the decision, without the user before the host's '@'.
func (v View) Denied(d schemas.Decision) string {
	if d.Code == schemas.DenyKeyUnknown {
		return "unknown allowlist key '" + v.key + "'"
	}
	message := "http target '" + anonymous(v.asked) + "' is not allowed for '" + v.Method + "'"
	switch d.Code {
	case schemas.DenyHeader, schemas.DenyBody, schemas.DenySchema:
		// The target is allowed; the request is not, which the words do not tell.
		if d.Reason != "" {
			message += ": " + d.Reason
		}
	default:
	}
	return message
}

// anonymous hides user information.
func anonymous(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
		return scheme + "://REDACTED" + rest[at:]
	}
	return url
}
