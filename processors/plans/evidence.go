package plans

import (
	"bytes"
	"encoding/json"

	"weir/schemas"
)

// CallRecord is the payload of the evidence of one call that was answered. Entry
// is the allowlist entry that let it pass.
func CallRecord(effectRef string, v View, status int, hash, snippet, entry string) json.RawMessage {
	return encode(struct {
		EffectRef      string `json:"effect_ref"`
		Method         string `json:"method"`
		URL            string `json:"url"`
		Status         int    `json:"status"`
		Fingerprint    string `json:"request_fingerprint"`
		Hash           string `json:"response_hash"`
		Snippet        string `json:"response_snippet"`
		Entry          string `json:"allowlist"`
		IdempotencyKey string `json:"idempotency_key"`
	}{effectRef, v.Method, v.URL, status, v.Fingerprint, hash, snippet, entry, v.IdempotencyKey})
}

// ClosingRecord is the payload of the evidence that closes a plan.
func ClosingRecord(r schemas.PlanResult) json.RawMessage { return encode(r.ActResult) }

// encode writes JSON without escaping HTML. Strings, numbers and maps of them
// always marshal.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
