package completion

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// choice is one choice of the answer, as far as it has come.
type choice struct {
	index         int
	message, rest node
}

// add takes what a chunk says of the choice, and returns how many bytes of text that has.
func (c *choice) add(raw gjson.Result) (text int64) {
	var delta gjson.Result
	for name, v := range raw.All() {
		switch name.Str {
		case "index":
		case "delta", "message": // some mistake the one for the other
			if v.IsObject() && (name.Str == "delta" || !delta.Exists()) {
				delta = v
			}
		default:
			c.rest.member(name.Str).addMember(inChoice, name.Str, v)
		}
	}
	text = c.message.merge(inDelta, delta)
	if c.message.find("reasoning_content") != nil {
		twice := delta.Get("reasoning_content") // of two names for one text it counts once
		if twice.Type == gjson.String && twice.Raw == delta.Get("reasoning").Raw {
			text -= length(inner(twice))
		}
	}
	return text
}

// write adds the choice to a document.
func (c *choice) write(to []byte) []byte {
	to = appendMember(append(to, '{'), "index", strconv.Itoa(c.index))
	to = append(appendName(to, "message"), '{')
	for _, first := range []struct{ name, absent string }{{"role", `"assistant"`}, {"content", "null"}} {
		if n := c.message.find(first.name); n.says() {
			to = n.writeMember(to)
		} else {
			to = appendMember(to, first.name, first.absent)
		}
	}
	to = append(c.message.writeRest(to, "refusal", "role", "content"), '}')
	to = c.rest.writeRest(to, "logprobs", "finish_reason", "native_finish_reason")
	if n := c.rest.find("finish_reason"); n != nil {
		to = n.writeMember(to)
	} else {
		to = appendMember(to, "finish_reason", "null")
	}
	return append(c.rest.find("native_finish_reason").writeMember(to), '}')
}

// chatAnswer is a completion so far. It holds what came, bounded only in how many choices, tool calls
// and members that has: the caller bounds the rest, by its Size.
type chatAnswer struct {
	tally

	options  Options
	head     node
	choices  []*choice // by their index
	rawUsage string    // the usage as it came
	began    bool
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

func (a *chatAnswer) Give(c Chunk) (raw json.RawMessage, keep bool) {
	raw = namedCompletion(c.Raw, a.options)
	if a.options.Usage {
		return raw, true
	}
	return Without(raw, "usage"), !c.Blank
}

func (a *chatAnswer) add(c Chunk) {
	a.began = a.began || !c.Blank
	for name, v := range Parse(c.Raw).All() {
		switch name.Str {
		case "choices":
			for place, choice := range array(v).All() {
				a.addChoice(choice, int(place.Num))
			}
		case "object", "usage", "error", "obfuscation":
		default:
			if hollow(v) {
				continue
			}
			if n := a.head.member(name.Str); n.kind == 0 {
				n.last(v)
			}
		}
	}
}

// addChoice takes a choice of a chunk. A choice without an index has its place as index.
func (a *chatAnswer) addChoice(raw gjson.Result, place int) {
	index := indexOf(raw, place)
	if index < 0 || index >= maxChoices {
		a.text += (&choice{}).add(raw) // left out, but for how much text it has
		return
	}
	at, found := slices.BinarySearchFunc(a.choices, index, func(c *choice, index int) int { return c.index - index })
	if !found {
		a.choices = slices.Insert(a.choices, at, &choice{index: index})
	}
	a.text += a.choices[at].add(raw)
}

// indexOf is the index of an object in a list, or its place where it has none.
func indexOf(v gjson.Result, place int) int {
	if n, err := strconv.Atoi(v.Get("index").Raw); err == nil {
		return n
	}
	return place
}

// Finished reports whether as many choices as were asked for have ended, and every other that has
// begun.
func (a *chatAnswer) Finished() bool {
	return int64(len(a.choices)) >= min(max(a.options.Choices, 1), maxChoices) &&
		!slices.ContainsFunc(a.choices, func(c *choice) bool { return !c.rest.find("finish_reason").says() })
}

// Reasons are why the choices ended, in their order, each once. They are no place for
// content, see schemas.ChatReason.
func (a *chatAnswer) Reasons() []string {
	var all []string
	for _, c := range a.choices {
		if n := c.rest.find("finish_reason"); n.says() {
			if r := schemas.ChatReason(Parse(n.buf).Str); !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all
}

// Size is about how large the document is by now. It takes a look at each member of it.
func (a *chatAnswer) Size() int64 {
	n := a.head.size() + int64(len(a.rawUsage))
	for _, c := range a.choices {
		n += c.message.size() + c.rest.size()
	}
	return n
}

// Document is an object of type chat.completion.
func (a *chatAnswer) Document() json.RawMessage {
	if !a.began {
		return nil
	}
	doc := a.head.find("id").writeMember([]byte{'{'})
	doc = appendMember(doc, "object", `"chat.completion"`)
	doc = a.head.writeRest(doc, "", "id")
	doc = append(appendName(doc, "choices"), '[')
	for _, c := range a.choices {
		doc = c.write(appendComma(doc))
	}
	doc = append(doc, ']')
	if a.rawUsage != "" {
		doc = appendMember(doc, "usage", a.rawUsage)
	}
	return namedCompletion(append(doc, '}'), a.options)
}
