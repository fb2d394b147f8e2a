package retry

import (
	"encoding/json"
	"strconv"

	"weir/schemas"
)

// The kinds of a failed attempt, as the retry counter's label has them.
const (
	KindStatus  = "status"
	KindTimeout = "timeout"
	KindConnect = "connect"
	KindOther   = "other"
)

// Kind names what an attempt ended with: a status or, without a whole answer, a code. The label is set
// for KindStatus only. What happened before a connection stood counts as connect.
func Kind(status int, code schemas.Code) (kind, label string) {
	switch code {
	case "":
		return KindStatus, strconv.Itoa(status)
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
func Outcome(status int, code schemas.Code) json.RawMessage {
	switch kind, label := Kind(status, code); kind {
	case KindStatus:
		return json.RawMessage(`{"status":` + label + `}`)
	case KindOther:
		return json.RawMessage(`{"other":` + strconv.Quote(string(code)) + `}`)
	default:
		return json.RawMessage(`"` + kind + `"`)
	}
}
