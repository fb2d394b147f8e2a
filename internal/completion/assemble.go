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
	text          int64 // bytes
}

// add takes what a chunk says of the choice.
func (c *choice) add(raw gjson.Result) {
	var delta gjson.Result
	for name, v := range raw.All() {
		switch name.Str {
		case "index":
		case "delta", "message": // some mistake the one for the other
			if v.IsObject() && (name.Str == "delta" || !delta.Exists()) {
				delta = v
			}
		default:
			c.rest.member(name.Str).take(inChoice, name.Str, v)
		}
	}
	c.text += c.message.merge(inDelta, delta)
	if c.message.find("reasoning_content") != nil {
		twice := delta.Get("reasoning_content") // of two names for one text it counts once
		if twice.Type == gjson.String && twice.Raw == delta.Get("reasoning").Raw {
			c.text -= length(inner(twice))
		}
	}
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

// Assembler puts the chunks of an answer together. It belongs to one goroutine. It
// holds what came, bounded only in how many choices, tool calls and members that has:
// the caller bounds the rest, by its Size.
type Assembler struct {
	head    node
	choices []*choice // by their index
	usage   *schemas.ChatUsage
	// told is the raw usage; before is how many bytes of text preceded it.
	told   string
	before int64
	// beyond are the bytes of text of choices that are left out.
	beyond int64
	began  bool
}

// Add takes the next chunk as ReadChunk gave it. Of one with a fault it takes the usage
// only. Of several usages the last counts, unless it is smaller: usage never
// decreases.
func (a *Assembler) Add(c Chunk) {
	if c.Fault == nil {
		a.add(c)
	}
	if c.Usage != nil && (a.usage == nil || c.Usage.Total >= a.usage.Total) {
		a.usage, a.told, a.before = c.Usage, strings.Clone(c.told), a.text()
	}
}

// AddAll takes chunks from the log. It skips values that are no chunks: no client received
// them.
func (a *Assembler) AddAll(chunks []json.RawMessage) {
	for _, raw := range chunks {
		if c, err := ReadChunk(raw); err == nil {
			a.Add(c)
		}
	}
}

func (a *Assembler) add(c Chunk) {
	a.began = a.began || !c.Blank
	for name, v := range Parse(c.Raw).All() {
		switch name.Str {
		case "choices":
			place := 0
			for _, choice := range array(v).All() {
				a.addChoice(choice, place)
				place++
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
func (a *Assembler) addChoice(raw gjson.Result, place int) {
	index := indexOf(raw, place)
	if index < 0 || index >= maxChoices {
		var left choice // out, but for how much text it has
		left.add(raw)
		a.beyond += left.text
		return
	}
	at, found := slices.BinarySearchFunc(a.choices, index, func(c *choice, index int) int { return c.index - index })
	if !found {
		a.choices = slices.Insert(a.choices, at, &choice{index: index})
	}
	a.choices[at].add(raw)
}

// indexOf is the index of an object in a list, or its place where it has none.
func indexOf(v gjson.Result, place int) int {
	if n, err := strconv.Atoi(v.Get("index").Raw); err == nil {
		return n
	}
	return place
}

// Finished reports whether so many choices, one at least, have ended, and every other
// that has begun.
func (a *Assembler) Finished(choices int64) bool {
	return int64(len(a.choices)) >= min(max(choices, 1), maxChoices) &&
		!slices.ContainsFunc(a.choices, func(c *choice) bool { return !c.rest.find("finish_reason").says() })
}

// Reasons are why the choices ended, in their order, each once. They are no place for
// content, see schemas.ChatReason.
func (a *Assembler) Reasons() []string {
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

// Usage is the usage that the provider reported; nil: none.
func (a *Assembler) Usage() *schemas.ChatUsage { return a.usage }

// Spent is the usage of an answer that broke off: the last reported usage, and an estimate
// of the text after it. nil: the provider has reported none.
func (a *Assembler) Spent() *schemas.ChatUsage {
	if a.usage == nil {
		return nil
	}
	u := *a.usage
	if late := Tokens(a.text() - a.before); late > 0 {
		u.Completion, u.Total, u.Estimated = u.Completion+late, u.Total+late, true
	}
	return &u
}

// Output is an estimate of the tokens that have come, of every choice and kind of text,
// those among them that are left out of the document.
func (a *Assembler) Output() int64 { return Tokens(a.text()) }

// text is how many bytes of text have come.
func (a *Assembler) text() int64 {
	n := a.beyond
	for _, c := range a.choices {
		n += c.text
	}
	return n
}

// Size is about how large the document is by now. It takes a look at each member of it.
func (a *Assembler) Size() int64 {
	n := a.head.size() + int64(len(a.told))
	for _, c := range a.choices {
		n += c.message.size() + c.rest.size()
	}
	return n
}

// Document is the whole answer so far, an object of type chat.completion; nil where
// nothing has come.
func (a *Assembler) Document() json.RawMessage {
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
	if a.told != "" {
		doc = appendMember(doc, "usage", a.told)
	}
	return append(doc, '}')
}
