package agent

import (
	"encoding/json"
	"fmt"
	"time"

	"weir/internal/ledger"
	"weir/schemas"
)

// Timed adds to a result's usage how long the run took, where the agent did not
// say it.
func Timed(r schemas.RunResult, took time.Duration) schemas.RunResult {
	var usage map[string]json.RawMessage
	if r.Usage != nil && json.Unmarshal(r.Usage, &usage) != nil {
		return r
	}
	if d, ok := usage["duration_ms"]; ok && string(d) != "null" {
		return r
	}
	if usage == nil {
		usage = make(map[string]json.RawMessage, 1)
	}
	usage["duration_ms"] = fmt.Append(nil, took.Milliseconds())
	if doc, err := ledger.Encode(usage); err == nil {
		r.Usage = doc
	}
	return r
}
