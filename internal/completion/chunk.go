package completion

import (
	"encoding/json"
	"errors"
	"math"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"weir/schemas"
)

var (
	errNoChunk      = errors.New("completion: the event is no chunk of a completion")
	errNoCompletion = errors.New("completion: the answer is no completion")
)

// Chunk is one event of a streamed answer.
type Chunk struct {
	// Raw is the chunk as it came, without white space between its values, with U+FFFD for
	// bytes that are no text, and with the last of several members of one name.
	Raw json.RawMessage
	// Usage is what was used, where the chunk tells it.
	Usage *schemas.ChatUsage
	// Fault is an error that came in the place of an answer.
	Fault *Fault
	// Blank: it has nothing for a reader but usage: no choice, or choices without text, role,
	// tool call or end. In dialects with typed events only a ping is blank.
	Blank bool
	// Last: the answer is complete with this chunk, and later events of the stream do not matter.
	Last bool
	// Type is the type of the event; empty in DialectChat.
	Type string

	rawUsage string // the usage as it came, in Raw
}

// readChunk reads an event of a stream of DialectChat, or a whole answer.
func readChunk(_ string, data []byte) (Chunk, error) {
	raw, ok := normalize(data)
	if !ok || raw[0] != '{' {
		return Chunk{}, errNoChunk
	}
	c := Chunk{Raw: raw, Blank: true}
	var usage, elsewhere gjson.Result // some providers put it elsewhere
	failed := false
	for name, v := range Parse(raw).All() {
		switch name.Str {
		case "choices":
			if v.Type != gjson.Null && !v.IsArray() {
				return Chunk{}, errNoChunk
			}
			for _, choice := range array(v).All() {
				if !choice.IsObject() {
					return Chunk{}, errNoChunk
				}
				c.Blank = c.Blank && blank(choice)
				if v := choice.Get("usage"); v.Exists() {
					elsewhere = v
				}
			}
		case "usage":
			usage = v
		case "x_groq":
			elsewhere = object(v).Get("usage")
		case "error":
			failed = failed || says(v)
		case "object":
			failed = failed || v.Str == "error"
		}
	}
	if !usage.IsObject() {
		usage = object(elsewhere)
	}
	c.rawUsage, c.Usage = usage.Raw, readUsage(usage)
	if failed {
		c.Fault = ReadFault(raw)
	}
	return c, nil
}

// blank reports whether a choice of a chunk has nothing for a reader.
func blank(choice gjson.Result) bool {
	return silent(choice, "index", "usage", "delta", "message") && silent(choice.Get("delta")) && silent(choice.Get("message"))
}

// namedCompletion is a chunk or a whole answer with an id.
func namedCompletion(raw json.RawMessage, o Options) json.RawMessage { return identified(raw, o.ID) }

// identified is an object, normalized, with an id: its own, or this one if it has none or an empty
// one, or one that is no text.
func identified(raw json.RawMessage, id string) json.RawMessage {
	doc := Parse(raw)
	if own := doc.Get("id"); !doc.IsObject() || id == "" || own.Type == gjson.String && own.Str != "" {
		return raw
	}
	return set(raw, "id", string(quote(id)))
}

// set is a normalized object in which the member has the value: in the place where it stands,
// or as the first.
func set(object []byte, name, value string) []byte {
	if len(object) > len(`{}`) && !Parse(object).Get(name).Exists() {
		first := appendMember([]byte{'{'}, name, value)
		return slices.Concat(first, []byte{','}, object[1:])
	}
	return put(object, name, []byte(value))
}

// put sets a member of an object, in its place or as the last one.
func put(object []byte, name string, value []byte) []byte {
	with, err := sjson.SetRawBytes(object, name, value)
	if err != nil {
		return object
	}
	return with
}

// maxTokens is about a hundred times the largest context. A count above it is a mistake, and would
// exhaust a budget permanently.
const maxTokens = 1 << 30

// readUsage reads a usage object; nil if it is missing or implausible. It is accepted as a whole or
// not at all: each count must be a whole number of tokens or null, and both prompt and output
// tokens must be given or follow from the total. All zeros count as missing: no prompt is empty,
// and some providers write zeros when they do not count. readUsage knows the providers' field
// names, and raises a total that is less than its parts.
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
	switch { // missing counts are below zero, and stay so unless others imply them
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
