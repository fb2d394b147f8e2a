package reconcile

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"weir/schemas"
)

// Request is what expressions see of the call whose answer was lost. Headers must not include
// credentials.
type Request struct {
	Method, URL    string
	Headers        []schemas.Header
	Body           json.RawMessage // JSON; of other bodies nothing is visible
	IdempotencyKey string
	ActionID       string
}

func (r Request) variables() map[string]any {
	return map[string]any{
		"request.method":          r.Method,
		"request.url":             r.URL,
		"request.headers":         schemas.HeadersByName(r.Headers),
		"request.body":            value(r.Body),
		"request.idempotency_key": r.IdempotencyKey,
		"request.action_id":       r.ActionID,
	}
}

// value is a JSON document as CEL takes it; null where there is none. Integers keep all digits
// as far as 64 bits have them; a larger one becomes a text, so that it is equal only to itself.
func value(raw json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if len(raw) == 0 || d.Decode(&v) != nil {
		return nil
	}
	return plain(v)
}

func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return i
		}
		if !strings.ContainsAny(v.String(), ".eE") {
			return v.String()
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
		return v
	case map[string]any:
		for name := range v {
			v[name] = plain(v[name])
		}
		return v
	default:
		return v
	}
}
