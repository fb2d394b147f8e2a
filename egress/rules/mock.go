package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"weir/internal/ledger"
	"weir/internal/redact"
	"weir/internal/traffic"
	"weir/schemas"
)

// mock is the rule action that repeats an answer, or the reason why there is none. Redacted parts
// stay redacted; headers of a single message are removed.
func (r *recorder) mock(a *schemas.Answer) (action schemas.RuleAction, why string) {
	action = schemas.RuleAction{Status: a.Status, Headers: headers(a.Headers)}
	body, isJSON := a.Body, a.JSON
	if r.agent() {
		if body, why = agentBody(a); why != "" {
			return action, why
		}
	}
	switch {
	case a.Base64:
		action.BodyMode, action.Body = "base64", body
		return action, ""
	case isJSON:
		action.BodyMode, action.Body = "json", body
		if len(body) > 0 && body[0] == '"' { // a string that holds JSON would be answered as that JSON
			action.Body, _ = json.Marshal(string(body)) //nolint:errchkjson // a string: cannot fail
		}
	case len(body) > 0 && string(body) != "null":
		var text string
		if json.Unmarshal(body, &text) != nil {
			return action, "the answer is not kept in a form that can be given again"
		}
		if !whole(text, a.Hash) {
			return action, "the answer is no text in UTF-8, and is not kept as it came"
		}
		if action.BodyMode = "text"; action.Headers["content-type"] == "" {
			action.BodyMode = "raw"
		}
		action.Body = body
	}
	if len(action.Body) > schemas.MaxMockBody {
		return action, "the answer is larger than the " + strconv.Itoa(schemas.MaxMockBody) + " bytes that a rule can hold"
	}
	return action, ""
}

// whole reports whether a text is as it came: bytes that are no text were replaced.
func whole(text, hash string) bool {
	if !strings.ContainsRune(text, '\uFFFD') {
		return true
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]) == hash
}

// agent reports whether the action's calls were to a remote agent, of whose answers
// only what they say is kept.
func (r *recorder) agent() bool {
	return r.st.Kind == schemas.KindRun && !slices.Contains(schemas.BuiltinTasks(), r.st.Action.TaskType)
}

// agentBody says again what an agent said, as the run contract does. It names no
// request: the next run has another id.
func agentBody(a *schemas.Answer) (json.RawMessage, string) {
	var told schemas.RunResult
	if err := json.Unmarshal(a.Body, &told); err != nil {
		return nil, "the answer is not kept in a form that can be given again"
	}
	doc := struct {
		Status  string          `json:"status"`
		Outputs json.RawMessage `json:"outputs"`
		schemas.RunExtras
		Error *schemas.RunError `json:"error,omitempty"`
	}{schemas.RunOK, told.Outputs, told.RunExtras, told.Error}
	if told.Error != nil {
		doc.Status = schemas.RunFault
	}
	if len(doc.Outputs) == 0 {
		doc.Outputs = json.RawMessage(`{}`)
	}
	body, err := ledger.Encode(doc)
	if err != nil {
		return nil, "the answer is not kept in a form that can be given again"
	}
	return body, ""
}

// headers are those of an answer that a mock may have, a name that stands more than
// once with its values in one. Where there are too many, the last by name are left
// out; the content type stays.
func headers(all []schemas.Header) map[string]string {
	out := map[string]string{}
	for _, h := range all {
		name := strings.ToLower(h.Name)
		if name == "date" || h.Value == redact.Mark || h.Value == redact.Binary || traffic.MockHeader(name, h.Value) != nil {
			continue
		}
		value := h.Value
		if before, ok := out[name]; ok {
			value = before + ", " + value
		}
		if traffic.MockHeader(name, value) == nil {
			out[name] = value
		}
	}
	names := make([]string, 0, len(out))
	for name := range out {
		if name != "content-type" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for len(out) > schemas.MaxRuleHeaders {
		last := len(names) - 1
		delete(out, names[last])
		names = names[:last]
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
