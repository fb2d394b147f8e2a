package completion

import (
	"encoding/json"
	"math"
	"strconv"

	"weir/schemas"
)

// maxTokens is some hundred times what the longest context holds. A count beyond it is a
// fault, and would spend a budget for good.
const maxTokens = 1 << 30

// ReadUsage reads a usage object; nil: it is none, or one that is not to be believed. It is
// taken as a whole or not at all: no count of it may be anything but a whole number of
// tokens or null, and it has to say, or to let be told from its total, what both the prompt
// and the answer were. One of nothing at all is none: no prompt is empty, and some write
// zeros where they do not count. It knows the names that providers give their numbers, and
// mends a total that is less than its parts.
func ReadUsage(raw json.RawMessage) *schemas.ChatUsage {
	const none = -1
	u := schemas.ChatUsage{Prompt: none, Completion: none, Total: none}
	sound := true
	count := func(into *int64, value []byte) {
		if k := kindOf(value); k == 0 || k == 'n' {
			return
		}
		n, ok := tokens(value)
		*into, sound = max(*into, n), sound && ok
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
	switch { // what is not there is below zero, and stays so where nothing tells it
	case u.Prompt >= 0 && u.Completion < 0:
		u.Completion = u.Total - u.Prompt
	case u.Completion >= 0 && u.Prompt < 0:
		u.Prompt = u.Total - u.Completion
	case u.Completion == 0 && u.Total > u.Prompt:
		u.Completion = u.Total - u.Prompt
	}
	if !sound || u.Prompt < 0 || u.Completion < 0 || u.Prompt+u.Completion == 0 {
		return nil
	}
	u.Total = max(u.Total, u.Prompt+u.Completion)
	told := u // so that only a usage is allocated
	return &told
}

// tokens reads a number of tokens, which some write with a point or an exponent.
func tokens(value []byte) (int64, bool) {
	if k := kindOf(value); k < '0' || k > '9' {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return n, n <= maxTokens
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(f >= 0 && f <= maxTokens) || f != math.Trunc(f) {
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
