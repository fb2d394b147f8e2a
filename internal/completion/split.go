package completion

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
)

// splitCompletion makes chunks of a completion: one for each choice, and another for its end.
func splitCompletion(document json.RawMessage, usage bool) ([]json.RawMessage, error) {
	c, err := readChunk("", document)
	whole := Parse(c.Raw)
	choices := whole.Get("choices")
	if err != nil || !choices.IsArray() || says(whole.Get("error")) {
		return nil, errNoCompletion
	}
	head := []byte{'{'}
	if id := whole.Get("id"); id.Exists() {
		head = appendMember(head, "id", id.Raw)
	}
	head = appendMember(head, "object", `"chat.completion.chunk"`)
	for name, v := range whole.All() {
		switch name.Str {
		case "id", "object", "choices", "usage", "error":
		default:
			head = appendMember(head, name.Str, v.Raw)
		}
	}
	chunk := func(choice []byte) json.RawMessage {
		return slices.Concat(head, []byte(`,"choices":[`), choice, []byte("]}"))
	}
	var chunks []json.RawMessage
	for place, choice := range choices.All() {
		delta, end := splitChoice(choice, strconv.Itoa(indexOf(choice, int(place.Num))))
		chunks = append(chunks, chunk(delta))
		if end != nil {
			chunks = append(chunks, chunk(end))
		}
	}
	if usage && c.rawUsage != "" {
		chunks = append(chunks, append(appendMember(append(head, `,"choices":[]`...), "usage", c.rawUsage), '}'))
	} else if len(chunks) == 0 {
		chunks = append(chunks, chunk(nil))
	}
	return chunks, nil
}

// splitChoice makes the choice of a chunk of a whole one, and another that ends it; nil: it
// has not ended.
func splitChoice(whole gjson.Result, index string) (first, second []byte) {
	first, second = appendMember([]byte{'{'}, "index", index), appendMember([]byte{'{'}, "index", index)
	first = appendName(first, "delta")
	first = appendDelta(first, object(whole.Get("message")))
	second = appendMember(second, "delta", "{}")
	ended := false
	for name, v := range whole.All() {
		switch name.Str {
		case "index", "message", "delta":
		case "finish_reason", "native_finish_reason":
			ended = ended || !hollow(v)
			second = appendMember(second, name.Str, v.Raw)
		default:
			first = appendMember(first, name.Str, v.Raw)
		}
	}
	first = append(appendMember(first, "finish_reason", "null"), '}')
	if !ended {
		return first, nil
	}
	return first, append(second, '}')
}

// appendDelta writes a message as a delta: its tool calls have an index.
func appendDelta(to []byte, message gjson.Result) []byte {
	to = append(to, '{')
	for name, v := range message.All() {
		to = appendName(to, name.Str)
		if name.Str != "tool_calls" || !v.IsArray() {
			to = append(to, v.Raw...)
			continue
		}
		to = append(to, '[')
		for place, call := range v.All() {
			raw := []byte(call.Raw)
			if call.IsObject() {
				raw = set(raw, "index", place.String())
			}
			to = append(appendComma(to), raw...)
		}
		to = append(to, ']')
	}
	return append(to, '}')
}
