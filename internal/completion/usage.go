package completion

import (
	"math"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// maxTokens is some hundred times what the longest context holds. A count beyond it is a
// fault, and would spend a budget for good.
const maxTokens = 1 << 30

// readUsage reads a usage object; nil: it is none, or one that is not to be believed. It is
// taken as a whole or not at all: no count of it may be anything but a whole number of
// tokens or null, and it has to say, or to let be told from its total, what both the prompt
// and the answer were. One of nothing at all is none: no prompt is empty, and some write
// zeros where they do not count. It knows the names that providers give their numbers, and
// mends a total that is less than its parts.
func readUsage(usage gjson.Result) *schemas.ChatUsage {
	const none = -1
	u := schemas.ChatUsage{Prompt: none, Completion: none, Total: none}
	sound := true
	count := func(into *int64, v gjson.Result) {
		if v.Type == gjson.Null {
			return
		}
		n, ok := tokens(v)
		*into, sound = max(*into, n), sound && ok
	}
	for name, v := range usage.All() {
		switch name.Str {
		case "prompt_tokens", "input_tokens":
			count(&u.Prompt, v)
		case "completion_tokens", "output_tokens":
			count(&u.Completion, v)
		case "total_tokens":
			count(&u.Total, v)
		case "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens":
			count(&u.Cached, v)
		case "reasoning_tokens":
			count(&u.Reasoning, v)
		case "prompt_tokens_details", "input_tokens_details":
			count(&u.Cached, object(v).Get("cached_tokens"))
		case "completion_tokens_details", "output_tokens_details":
			count(&u.Reasoning, object(v).Get("reasoning_tokens"))
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
func tokens(v gjson.Result) (int64, bool) {
	if v.Type != gjson.Number || !(v.Num >= 0 && v.Num <= maxTokens) || v.Num != math.Trunc(v.Num) {
		return 0, false
	}
	return int64(v.Num), true
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
