package settle

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"weir/schemas"
)

// chatRule is the list of the members of a model's call; see ruleOf. They hold no content by
// design, except text that a provider may send in place of a keyword.
func chatRule(member string) rule {
	switch member {
	case "model_asked", "dialect", "model", "model_sent", "upstream", "task_id", "attempt", "stream", "status", "sent",
		"first_ms", "duration_ms", "request_hmac_sha256", "response_hmac_sha256", "limit_source",
		"prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens", "estimated", "cost_nanousd", "priced",
		"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model",
		"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.cache_read.input_tokens",
		"gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.reasoning.output_tokens", "error.type":
		return keep
	case "finish_reasons", "gen_ai.response.finish_reasons":
		return words
	case "usage", "gen_ai":
		return nested
	default:
		return unknown
	}
}

// ownOfChat is own for the members of a model's call.
func (w *sealing) ownOfChat(member string, x any) bool {
	switch x := x.(type) {
	case bool:
		switch member {
		case "stream", "sent", "estimated", "priced":
			return true
		}
	case float64:
		switch member {
		case "attempt", "status", "first_ms", "duration_ms", "prompt_tokens", "completion_tokens", "total_tokens",
			"cached_tokens", "cache_write_tokens", "reasoning_tokens", "cost_nanousd", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
			"gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.reasoning.output_tokens":
			return true
		}
	case string:
		return w.wordOfChat(member, x)
	}
	return false
}

// dialect reports whether a text names a protocol of models.
func dialect(text string) bool {
	return slices.Contains(schemas.AllDialects(), schemas.Dialect(text))
}

func (w *sealing) wordOfChat(member, text string) bool {
	switch member {
	case "model_asked", "model", "model_sent", "gen_ai.request.model", "gen_ai.response.model":
		return schemas.ValidModel(text)
	case "upstream", "gen_ai.provider.name":
		return schemas.ModelEntry(text) == w.entry
	case "task_id", "limit_source":
		return schemas.ValidID(text)
	case "finish_reasons", "gen_ai.response.finish_reasons":
		return text == schemas.ChatReason(text)
	case "dialect":
		return dialect(text)
	case "gen_ai.operation.name":
		return dialect(text) && text == schemas.Dialect(text).Operation()
	case "error.type":
		return w.word("code", text)
	case "request_hmac_sha256", "response_hmac_sha256":
		sum, sealed := strings.CutPrefix(text, SealPrefix)
		raw, err := hex.DecodeString(sum)
		return sealed && err == nil && len(raw) == sha256.Size
	default:
		return false
	}
}
