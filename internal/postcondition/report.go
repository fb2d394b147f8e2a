package postcondition

import (
	"encoding/json"

	"weir/schemas"
)

// The statuses of an assertion in a report.
const (
	statusPassed = "passed"
	statusFailed = "failed"
)

// The codes of a failed assertion.
const (
	codeStatus    = "http_status_mismatch"
	codeText      = "dom_text_missing"
	codeMissing   = "json_path_missing"
	codePredicate = "json_path_predicate_failed"
)

// document is a report as it is written.
type document struct {
	Passed     bool            `json:"passed"`
	Assertions []result        `json:"assertions"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
}

// result is one line of a report. A failed line has a code, a message, the
// expected value and, if there is one, the observed value.
type result struct {
	Kind     string          `json:"kind"`
	Status   string          `json:"status"`
	Detail   any             `json:"detail,omitempty"`
	Code     string          `json:"code,omitempty"`
	Message  string          `json:"message,omitempty"`
	Expected json.RawMessage `json:"expected,omitempty"`
	Observed json.RawMessage `json:"observed,omitempty"`
}

func held(kind string, detail any) result {
	return result{Kind: kind, Status: statusPassed, Detail: detail}
}

func missed(kind, code, message string, expected any) result {
	return result{Kind: kind, Status: statusFailed, Code: code, Message: message, Expected: schemas.Encoded(redact(expected))}
}

func (r result) observed(v any) result {
	r.Observed = schemas.Encoded(redact(v))
	return r
}

const redacted = "[REDACTED]"

// maxShown is how many values of a document a report shows. A larger document
// is shown as one redacted string.
const maxShown = 200

// redact is a value without the strings in it. The names of members stay.
func redact(v any) any {
	left := maxShown
	shown := conceal(v, &left)
	if left < 0 {
		return redacted
	}
	return shown
}

func conceal(v any, left *int) any {
	*left--
	switch v := v.(type) {
	case string:
		return redacted
	case []any:
		out := make([]any, 0, min(len(v), maxShown))
		for i := 0; i < len(v) && *left >= 0; i++ {
			out = append(out, conceal(v[i], left))
		}
		return out
	case map[string]any:
		out := make(map[string]any, min(len(v), maxShown))
		for name, item := range v {
			if *left < 0 {
				break
			}
			out[name] = conceal(item, left)
		}
		return out
	default:
		return v
	}
}
