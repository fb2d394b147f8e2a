package completion

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// readChunk reads an event of a stream of DialectChat, or a whole answer.
func readChunk(_ string, data []byte) (Chunk, error) {
	raw, ok := normalize(data)
	if !ok || raw[0] != '{' {
		return Chunk{}, errForeign
	}
	c := Chunk{Raw: raw, Blank: true}
	var usage, elsewhere gjson.Result // some providers put it elsewhere
	failed := false
	for name, v := range Parse(raw).All() {
		switch name.Str {
		case "choices":
			if v.Type != gjson.Null && !v.IsArray() {
				return Chunk{}, errForeign
			}
			for _, choice := range array(v).All() {
				if !choice.IsObject() {
					return Chunk{}, errForeign
				}
				c.Blank = c.Blank && silent(choice, "index", "usage", "delta", "message") && silent(choice.Get("delta")) && silent(choice.Get("message"))
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
	c.rawUsage, c.Usage = usage.Raw, readUsage(schemas.DialectChat, usage)
	if failed {
		c.Fault = ReadFault(raw)
	}
	return c, nil
}

// chatAnswer is a completion so far. It holds what came, bounded only in how many choices, tool
// calls and members that has: the caller bounds the rest, by its Size.
type chatAnswer struct {
	tally

	head     node   // the members beside the choices and the usage
	choices  node   // objects: the message, and the members beside it
	rawUsage string // the usage as it came
	id       string // as the first chunk that the reader received has it
	named    bool   // it is Weir's
	began    bool
}

// The objects of a completion as they begin.
const (
	noCompletion = `{"id":null,"object":"chat.completion"}`
	noChoice     = `{"index":%d,"message":{},"finish_reason":null}`
	noMessage    = `{"role":"assistant","content":null}`
)

func newChatAnswer(o Options) Answer {
	return &chatAnswer{
		tally: tally{options: o}, head: node{kind: kindObject, buf: []byte(noCompletion)}, choices: node{kind: kindElements},
	}
}

// Add takes the usage alone of a chunk with a fault.
func (a *chatAnswer) Add(c Chunk) {
	if c.Fault == nil {
		a.add(c)
	}
	if a.report(c.Usage) {
		a.rawUsage = strings.Clone(c.rawUsage)
	}
}

// Give names a chunk without an id, and each after one that has Weir's: a stream has one id.
func (a *chatAnswer) Give(c Chunk) (raw json.RawMessage, keep bool) {
	raw, keep = c.Raw, a.options.Usage || !c.Blank
	own := ""
	if v := Parse(raw).Get("id"); v.Type == gjson.String && v.Str != "" && len(v.Raw) <= maxID { // each chunk may repeat it
		own = v.Raw
	}
	id := cmp.Or(a.id, own)
	if id == "" && a.options.ID != "" {
		id = string(quote(a.options.ID))
	}
	if id != own && (own == "" || a.named) {
		raw = set(raw, "id", id)
	}
	if keep && a.id == "" && c.Fault == nil {
		a.id, a.named = strings.Clone(id), own == ""
	}
	if !a.options.Usage {
		raw = Without(raw, "usage")
	}
	return raw, keep
}

func (a *chatAnswer) add(c Chunk) {
	a.began = a.began || !c.Blank
	for name, v := range Parse(c.Raw).All() {
		switch name.Str {
		case "choices":
			for place, choice := range array(v).All() { // one without an index has its place as index
				a.choice(indexOf(choice, int(place.Num)), choice)
			}
		case "object", "usage", "error", "obfuscation":
		default:
			if hollow(v) {
				continue
			}
			if n := a.head.member(name.Str); !n.says() {
				n.last(v)
			}
		}
	}
}

// choice adds what a chunk says of a choice.
func (a *chatAnswer) choice(index int, raw gjson.Result) {
	c := a.choices.element(index, maxChoices)
	if c.kind != kindObject {
		c.begin(gjson.Parse(fmt.Sprintf(noChoice, index)))
		c.member("message").begin(gjson.Parse(noMessage)) // the first of them: it is never one too many
	}
	var delta gjson.Result
	for name, v := range raw.All() {
		switch name.Str {
		case "index":
		case "delta", "message": // some mistake the one for the other
			if v.IsObject() && (name.Str == "delta" || !delta.Exists()) {
				delta = v
			}
		default:
			c.member(name.Str).addMember(inChoice, name.Str, v)
		}
	}
	message := c.find("message")
	a.text += message.merge(inDelta, delta)
	if message.find("reasoning_content") != nil {
		twice := delta.Get("reasoning_content") // of two names for one text it counts once
		if twice.Type == gjson.String && twice.Raw == delta.Get("reasoning").Raw {
			a.text -= length(inner(twice))
		}
	}
}

// indexOf is the index of an object in a list, or its place where it has none.
func indexOf(v gjson.Result, place int) int { return number(v.Get("index"), place) }

// number is a whole number, or the other where a value is none.
func number(v gjson.Result, other int) int {
	if n, err := strconv.Atoi(v.Raw); err == nil {
		return n
	}
	return other
}

// Finished reports whether as many choices as were asked for have ended, and every other that has
// begun.
func (a *chatAnswer) Finished() bool {
	return int64(len(a.choices.list)) >= min(max(a.options.Choices, 1), maxChoices) &&
		!slices.ContainsFunc(a.choices.list, func(c node) bool { return !c.find("finish_reason").says() })
}

// Reasons are why the choices ended, in their order, each once. They are no place for
// content, see schemas.ChatReason.
func (a *chatAnswer) Reasons() []string {
	var all []string
	for i := range a.choices.list {
		if n := a.choices.list[i].find("finish_reason"); n.says() {
			if r := schemas.ChatReason(Parse(n.buf).Str); !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all
}

// Size is about how large the document is by now. It takes a look at each member of it.
func (a *chatAnswer) Size() int64 { return a.head.size() + a.choices.size() + int64(len(a.rawUsage)) }

// Document is an object of type chat.completion.
func (a *chatAnswer) Document() json.RawMessage {
	if !a.began {
		return nil
	}
	if a.id != "" {
		a.head.member("id").buf = []byte(a.id)
	}
	doc := a.head.write(nil)
	doc = a.choices.write(appendName(doc[:len(doc)-1], "choices"))
	if a.rawUsage != "" {
		doc = appendMember(doc, "usage", a.rawUsage)
	}
	return identified(append(doc, '}'), a.options.ID)
}

// position is where in an answer a value stands, as far as the protocol knows that.
type position uint8

const (
	inPlain position = iota
	inChoices
	inChoice
	inDelta
	inContent
	inCalls
	inCall
	inFunction
	inLogprobs
)

// member is the position of a member of an object.
func (s position) member(name string) position {
	switch {
	case s == inChoice && name == "delta":
		return inDelta
	case s == inChoice && name == "logprobs":
		return inLogprobs
	case s == inDelta && name == "content":
		return inContent
	case s == inDelta && name == "tool_calls":
		return inCalls
	case s == inDelta && name == "function_call", s == inCall && (name == "function" || name == "custom"):
		return inFunction
	}
	return inPlain
}

// argument reports whether a member is a text that some send as another value.
func argument(in position, name string) bool {
	return in == inFunction && (name == "arguments" || name == "input")
}
