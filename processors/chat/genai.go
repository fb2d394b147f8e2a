package chat

import (
	"cmp"

	"weir/schemas"
)

// attributes describe a call in the words of OpenTelemetry's conventions for generative
// AI. answered is the model that its provider names in the answer.
func attributes(a schemas.ChatAudit, answered string, code schemas.Code) map[string]any {
	m := map[string]any{"gen_ai.operation.name": a.Dialect.Operation(), "gen_ai.request.model": cmp.Or(a.Sent, a.Model, a.Asked)}
	if a.Upstream != "" {
		m["gen_ai.provider.name"] = a.Upstream
	}
	if name := schemas.ChatModel(a.Sent, answered); name != "" {
		m["gen_ai.response.model"] = name
	}
	if len(a.Finish) > 0 {
		m["gen_ai.response.finish_reasons"] = a.Finish
	}
	if u := a.Usage; u != nil {
		for name, n := range u.GenAI() {
			m[name] = n
		}
	}
	if code != "" {
		m["error.type"] = string(code)
	}
	return m
}
