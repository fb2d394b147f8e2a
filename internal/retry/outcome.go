package retry

import (
	"encoding/json"
	"strconv"

	"weir/internal/fault"
	"weir/schemas"
)

// The kinds of a failed attempt, as the retry counter's label has them.
const (
	KindStatus  = "status"
	KindTimeout = "timeout"
	KindConnect = "connect"
	KindOther   = "other"
)

// Kind names what an attempt ended with. status is set for KindStatus only.
// What happened before a connection stood counts as connect.
func Kind(status int, call *fault.Call) (kind, label string) {
	if call == nil {
		return KindStatus, strconv.Itoa(status)
	}
	switch call.Code {
	case schemas.UpstreamTimeout:
		return KindTimeout, ""
	case schemas.UpstreamDNS, schemas.UpstreamConnect, schemas.UpstreamTLS:
		return KindConnect, ""
	default:
		return KindOther, ""
	}
}

// Outcome is the same for schemas.RetryRecord: {"status":503}, "timeout", "connect", or
// {"other":CODE} for any other failure.
func Outcome(status int, call *fault.Call) json.RawMessage {
	switch kind, label := Kind(status, call); kind {
	case KindStatus:
		return json.RawMessage(`{"status":` + label + `}`)
	case KindOther:
		return json.RawMessage(`{"other":` + strconv.Quote(string(call.Code)) + `}`)
	default:
		return json.RawMessage(`"` + kind + `"`)
	}
}
