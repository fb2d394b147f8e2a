package completion

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// block is one block of a message's content: its first object, and the pieces that followed.
type block struct {
	index int
	raw   []byte
	over  node   // members that grow, by their names
	input []byte // JSON between the quotes of strings
}

// begin sets the first object of the block, and returns how many bytes of text it has.
func (b *block) begin(v gjson.Result) int64 {
	b.raw, b.over, b.input = []byte(v.Raw), node{}, nil
	var t tally
	t.count(v, "text", "thinking", "data")
	if input := v.Get("input"); input.Type == gjson.JSON && !hollow(input) {
		t.text += int64(len(input.Raw))
	}
	return t.text
}

// add appends a piece to the block, and returns how many bytes of text it has.
func (b *block) add(delta gjson.Result) (text int64) {
	switch kind := delta.Get("type").Str; kind {
	case "text_delta":
		return b.grow("text", delta.Get("text"))
	case "thinking_delta":
		return b.grow("thinking", delta.Get("thinking"))
	case "input_json_delta":
		if v := delta.Get("partial_json"); v.Type == gjson.String {
			b.input = append(b.input, inner(v)...)
			return length(inner(v))
		}
	case "signature_delta":
		if v := delta.Get("signature"); v.Exists() {
			b.over.member("signature").last(v)
		}
	case "citations_delta":
		if v := delta.Get("citation"); v.Exists() {
			b.member("citations").elements(v.Raw)
		}
	default: // an unknown type, read like the known ones
		for name, v := range delta.All() {
			if name.Str != "type" && v.Type == gjson.String {
				text += b.grow(name.Str, v)
			}
		}
	}
	return text
}

// grow appends a piece to a text.
func (b *block) grow(name string, v gjson.Result) int64 {
	if v.Type != gjson.String {
		return 0
	}
	b.member(name).text(inner(v))
	return length(inner(v))
}

// member returns a growing member. It begins with the value in the block's first object.
func (b *block) member(name string) *node {
	n := b.over.member(name)
	if n.kind != 0 {
		return n
	}
	switch v := Parse(b.raw).Get(gjson.Escape(name)); {
	case v.Type == gjson.String:
		n.text(inner(v))
	case v.IsArray():
		n.elements(inner(v))
	}
	return n
}

func (b *block) size() int64 { return int64(len(b.raw)+len(b.input)) + b.over.size() }

// write appends the block to a document.
func (b *block) write(to []byte) []byte {
	to = append(to, '{')
	input := b.readInput()
	var written []string
	for name, v := range object(Parse(b.raw)).All() {
		written = append(written, name.Str)
		to = appendName(to, name.Str)
		switch n := b.over.find(name.Str); {
		case name.Str == "input" && input != nil:
			to = append(to, input...)
		case n != nil && n.kind != 0:
			to = n.write(to)
		default:
			to = append(to, v.Raw...)
		}
	}
	for i := range b.over.list {
		if n := &b.over.list[i]; !slices.Contains(written, n.name) {
			to = n.writeMember(to)
		}
	}
	if input != nil && !slices.Contains(written, "input") {
		to = appendMember(to, "input", string(input))
	}
	return append(to, '}')
}

// readInput returns the input of a tool from its pieces: an object, or a text where the pieces are no
// valid object. nil: there are no pieces.
func (b *block) readInput() []byte {
	if len(b.input) == 0 {
		return nil
	}
	whole := between(b.input)
	text, err := jsontext.AppendUnquote(nil, whole)
	if err != nil {
		return whole
	}
	if doc, ok := normalize([]byte(strings.TrimSpace(string(text)))); ok && doc[0] == '{' {
		return doc
	}
	return whole
}
