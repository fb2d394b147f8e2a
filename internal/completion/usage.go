package completion

import (
	"encoding/json"
	"strconv"

	"weir/schemas"
)

// maxTokens is more than any answer has; a number beyond it is none.
const maxTokens = 1 << 40

// ReadUsage reads a usage object; nil: it is none. It knows the names that providers
// give their numbers, and mends a total that is less than its parts.
func ReadUsage(raw json.RawMessage) *schemas.ChatUsage {
	var u schemas.ChatUsage
	found := false
	count := func(into *int64, value []byte) {
		if n, ok := tokens(value); ok {
			*into, found = max(*into, n), true
		}
	}
	for w := members(raw, 0); w.next(); {
		switch string(w.key()) {
		case "prompt_tokens", "input_tokens":
			count(&u.Prompt, w.value())
		case "completion_tokens", "output_tokens":
			count(&u.Completion, w.value())
		case "total_tokens":
			count(&u.Total, w.value())
		case "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens":
			count(&u.Cached, w.value())
		case "reasoning_tokens":
			count(&u.Reasoning, w.value())
		case "prompt_tokens_details", "input_tokens_details":
			count(&u.Cached, find(w.value(), "cached_tokens"))
		case "completion_tokens_details", "output_tokens_details":
			count(&u.Reasoning, find(w.value(), "reasoning_tokens"))
		}
	}
	if !found {
		return nil
	}
	if u.Completion == 0 && u.Total > u.Prompt {
		u.Completion = u.Total - u.Prompt
	}
	u.Total = max(u.Total, u.Prompt+u.Completion)
	told := u // so that only a usage is allocated
	return &told
}

// tokens reads a number of tokens, which some write as a fraction.
func tokens(value []byte) (int64, bool) {
	if k := kindOf(value); k < '0' || k > '9' {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return n, n <= maxTokens
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(f >= 0 && f <= maxTokens) {
		return 0, false
	}
	return int64(f), true
}

// Tokens is an estimate of the tokens of a text with so many bytes.
func Tokens(bytes int64) int64 {
	if bytes <= 0 {
		return 0
	}
	return (bytes + bytesPerToken - 1) / bytesPerToken
}

// bytesPerToken is what a token has in English text.
const bytesPerToken = 4
