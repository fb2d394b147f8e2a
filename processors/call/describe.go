package call

import (
	"fmt"

	"weir/internal/ledger"
	"weir/schemas"
)

// Describe is a failed attempt in a sentence that names no address and nothing
// that the upstream said.
func Describe(t ledger.Attempt) string {
	switch code := t.Result.Code; code {
	case schemas.UpstreamDNS:
		return "the target's name could not be resolved"
	case schemas.UpstreamConnect:
		return "the target could not be connected to"
	case schemas.UpstreamTLS:
		return "the TLS handshake with the target failed"
	case schemas.UpstreamTimeout:
		return "the target did not answer in time"
	case schemas.UpstreamReset:
		return "the target closed the connection before it answered"
	case schemas.UpstreamProtocol:
		return "the target's answer is not valid HTTP"
	case schemas.UpstreamTruncated:
		return "the target's answer ended before it was complete"
	case schemas.UpstreamTooLarge:
		return "the target's answer is larger than is allowed"
	case schemas.UpstreamHeadersTooLarge:
		return "the headers of the target's answer are larger than is allowed"
	case schemas.UpstreamEncoding:
		return "the coding of the target's answer is not one that was asked for, or is broken"
	case schemas.Interrupted:
		return "the worker that made the call is gone"
	case schemas.SecretUnavailable:
		return fmt.Sprintf("a secret that the entry %q adds could not be read; nothing was sent", t.LastWord().Entry)
	case schemas.Canceled:
		return "it was given up before an answer came"
	case schemas.DenyAddress:
		return "an address that the target's name resolves to is not permitted for its entry"
	case schemas.DenyRedirect:
		return "the target answered with a redirect that its entry does not allow"
	case schemas.DenyRule:
		return "policy denies what the tenant's traffic rules make of the call"
	default:
		return string(code)
	}
}
