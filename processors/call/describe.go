package call

import (
	"cmp"
	"fmt"

	"weir/internal/ledger"
	"weir/schemas"
)

// Describe is a failed attempt in a sentence that names no address and nothing
// that the upstream said.
func Describe(t ledger.Attempt) string {
	code := t.Result.Code
	if code == "" {
		return ""
	}
	if code == schemas.SecretUnavailable {
		return fmt.Sprintf("a secret that the entry %q adds could not be read; nothing was sent", t.LastWord().Entry)
	}
	return cmp.Or(map[schemas.Code]string{
		schemas.UpstreamDNS:             "the target's name could not be resolved",
		schemas.UpstreamConnect:         "the target could not be connected to",
		schemas.UpstreamTLS:             "the TLS handshake with the target failed",
		schemas.UpstreamTimeout:         "the target did not answer in time",
		schemas.UpstreamReset:           "the target closed the connection before it answered",
		schemas.UpstreamProtocol:        "the target's answer is not valid HTTP",
		schemas.UpstreamTruncated:       "the target's answer ended before it was complete",
		schemas.UpstreamTooLarge:        "the target's answer is larger than is allowed",
		schemas.UpstreamHeadersTooLarge: "the headers of the target's answer are larger than is allowed",
		schemas.UpstreamEncoding:        "the coding of the target's answer is not one that was asked for, or is broken",
		schemas.Interrupted:             "the worker that made the call is gone",
		schemas.Canceled:                "it was given up before an answer came",
		schemas.DenyAddress:             "an address that the target's name resolves to is not permitted for its entry",
		schemas.DenyRedirect:            "the target answered with a redirect that its entry does not allow",
		schemas.DenyRule:                "policy denies what the tenant's traffic rules make of the call",
	}[code], string(code))
}
