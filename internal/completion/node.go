package completion

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// maxMembers is how many members of one object can come in pieces, maxChoices how many choices,
// blocks or items of an answer are kept, and maxCalls how many tool calls or parts of one; the rest
// is left out.
const (
	maxMembers = 64
	maxChoices = 1024
	maxCalls   = 256
)

// The kinds of a node.
const (
	kindValue    = iota // buf is the value: a text or a list that grows, or the last that said something
	kindInput           // buf is what stands between the quotes of a text that becomes an object
	kindElements        // list are its elements, which grow by themselves
	kindObject          // buf is the object as it began, and list are the members that came since
)

// node is a value of the answer, as far as it has come. One of kindValue without buf has not come.
type node struct {
	name  string // of a member
	index int    // of an element
	id    string // of a tool call or an item, as it came last; empty: none has come
	kind  uint8
	began bool // while an object is written: it began with this member
	grown bool // pieces have come: of an item, or of the text part that a list ends with
	buf   []byte
	list  []node
}

// become drops a value of another kind.
func (n *node) become(kind uint8) {
	if n.kind != kind {
		n.kind, n.buf, n.list, n.grown = kind, nil, nil, false
	}
}

// begin takes an object in the place of what came before.
func (n *node) begin(v gjson.Result) { n.kind, n.buf, n.list = kindObject, []byte(v.Raw), nil }

// find returns the member with a name that came in pieces, until the next call of member; nil:
// there is none.
func (n *node) find(name string) *node {
	for i := range n.list {
		if n.list[i].name == name {
			return &n.list[i]
		}
	}
	return nil
}

// member returns the member with a name, until the next call: as the object began with it, or a new
// one. Where there are too many it is left out of the answer.
func (n *node) member(name string) *node {
	if m := n.find(name); m != nil {
		return m
	}
	if len(n.list) >= maxMembers {
		return &node{}
	}
	m := node{name: strings.Clone(name)}
	for name, v := range object(Parse(n.buf)).All() {
		if name.Str == m.name {
			m.buf = []byte(v.Raw)
		}
	}
	n.list = append(n.list, m)
	return &n.list[len(n.list)-1]
}

// element returns the element with an index, made where there is none, until the next call. One
// whose index is not below the limit is left out of the answer.
func (n *node) element(index, limit int) *node {
	at, found := slices.BinarySearchFunc(n.list, index, func(e node, index int) int { return cmp.Compare(e.index, index) })
	switch {
	case found:
	case index < 0 || index >= limit:
		return &node{}
	default:
		n.list = slices.Insert(n.list, at, node{index: index})
	}
	return &n.list[at]
}

// size is how many bytes there are.
func (n *node) size() int64 {
	size := int64(len(n.name) + len(n.buf))
	for i := range n.list {
		size += n.list[i].size()
	}
	return size
}

// came reports whether the node has a value, and says whether that is more than null.
func (n *node) came() bool { return n != nil && (n.kind != kindValue || len(n.buf) > 0) }

func (n *node) says() bool { return n.came() && string(n.buf) != null }

// is reports whether the node is a value that begins with this byte.
func (n *node) is(first byte) bool { return n.kind == kindValue && len(n.buf) > 0 && n.buf[0] == first }

// merge takes an object of which the members come in pieces, and returns how many bytes of
// text it has. A tool call has a type, and its index is no member of it.
func (n *node) merge(in position, v gjson.Result) (text int64) {
	n.become(kindObject)
	for name, value := range v.All() {
		if in != inCall || name.Str != "index" {
			text += n.member(name.Str).addMember(in, name.Str, value)
		}
	}
	if in == inCall && n.find("type") == nil && n.find("function") != nil {
		if id := slices.IndexFunc(n.list, func(m node) bool { return m.name == "id" }); id >= 0 {
			n.list = slices.Insert(n.list, id+1, node{name: "type", buf: []byte(`"function"`)})
		}
	}
	return text
}

// addMember takes a piece of a member of an object, and returns how many bytes of text it has.
func (n *node) addMember(in position, name string, v gjson.Result) (text int64) {
	pieces := in == inDelta && name != "role" || in == inFunction // texts are pieces of one
	switch under := in.member(name); {
	case under == inCalls && v.IsArray():
		n.become(kindElements)
		for _, piece := range v.All() {
			if !piece.IsObject() {
				continue
			}
			call := &node{} // left out, but for how much text it has
			if at := n.place(piece); at >= 0 {
				call = &n.list[at]
			}
			text += call.merge(inCall, piece)
		}
	case (under == inFunction || under == inLogprobs) && v.IsObject():
		return n.merge(under, v)
	case under == inLogprobs && n.kind == kindObject:
	case in == inCall && hollow(v):
	case v.Type == gjson.Null && (in == inDelta && name != "refusal" || in == inChoice && name != "logprobs"):
	case in == inChoice && name == "finish_reason" && hollow(v):
	case v.Type == gjson.Null:
		n.last(v)
	case in == inFunction && name == "name" && v.Type == gjson.String:
		if string(n.buf) != v.Raw { // some repeat it as a whole
			n.text(inner(v))
		}
		return int64(len(v.Raw))
	case pieces && v.Type == gjson.String:
		if n.is('[') && !grows(in, name) && !hollow(v) {
			n.buf = nil // it takes the place of another value
		}
		return n.text(inner(v))
	case argument(in, name):
		return n.text(escaped(v.Raw)) // it becomes a text
	case v.IsArray() && grows(in, name):
		n.elements(inner(v))
		if name == "content" && in == inDelta {
			return int64(len(inner(v)))
		}
	case in == inLogprobs && n.is('['), (under == inContent || name == "role" && hollow(v)) && n.says():
		// It takes the place of nothing.
	default:
		n.last(v)
	}
	return text
}

// grows reports whether a list is a piece of one.
func grows(in position, name string) bool {
	return in == inLogprobs || in == inDelta && (name == "content" || name == "reasoning_details" || name == "annotations" || name == "images")
}

// place returns the place of the tool call that a piece belongs to, made where there is none; -1:
// there are too many. A piece without an index is of the call with its id, or of the last one
// where it has none. Some providers give one index to several calls, each of them whole:
// another id with a name begins another call.
func (n *node) place(piece gjson.Result) int {
	id := ""
	if v := piece.Get("id"); !hollow(v) {
		id = v.Raw
	}
	index, err := strconv.Atoi(piece.Get("index").Raw)
	given := err == nil
	whole := given && id != "" && !hollow(object(piece.Get("function")).Get("name"))
	for at := len(n.list) - 1; at >= 0; at-- {
		c := &n.list[at]
		switch same := c.id != "" && c.id == id; {
		case given && (c.index != index || whole && c.id != "" && !same), !given && id != "" && !same:
			continue
		case id != "" && !same:
			c.id = strings.Clone(id)
		}
		return at
	}
	if len(n.list) >= maxCalls {
		return -1
	}
	for i := range n.list {
		if !given {
			index = max(index, n.list[i].index+1)
		}
	}
	n.list = append(n.list, node{index: index, id: strings.Clone(id)})
	return len(n.list) - 1
}

// text adds what stands between the quotes of a string, and returns how many bytes it has at most.
// To a list it is an element of its own, which goes on.
func (n *node) text(in string) int64 {
	if in != "" {
		n.become(kindValue)
	}
	switch {
	case n.is('[') && in == "":
	case n.is('['):
		if !n.grown {
			n.elements(`{"type":"text","text":""}`)
			n.grown = true
		}
		n.buf = append(append(n.buf[:len(n.buf)-len(`"}]`)], in...), `"}]`...)
	case n.is('"'):
		n.buf = append(append(n.buf[:len(n.buf)-1], in...), '"')
	case in != "" || !n.says():
		n.buf = append(append(append(n.buf[:0], '"'), in...), '"')
	}
	return length(in)
}

// input adds what stands between the quotes of a piece of a tool's input.
func (n *node) input(in string) int64 {
	if in != "" {
		n.become(kindInput)
		n.buf = append(n.buf, in...)
	}
	return length(in)
}

// elements adds those of an array; a text that came before is the first of them.
func (n *node) elements(in string) {
	n.become(kindValue)
	if n.is('"') && in == "" {
		return
	}
	if !n.is('[') {
		before := ""
		if n.is('"') {
			before = string(n.buf[1 : len(n.buf)-1])
		}
		n.buf, n.grown = append(n.buf[:0], emptyList...), false
		n.text(before)
	}
	if in != "" {
		n.buf, n.grown = append(append(appendComma(n.buf[:len(n.buf)-1]), in...), ']'), false
	}
}

// last takes a value in the place of what came before. One that is null takes no
// other's place.
func (n *node) last(v gjson.Result) {
	if v.Type != gjson.Null || !n.came() {
		n.become(kindValue)
		n.buf, n.grown = append(n.buf[:0], cmp.Or(v.Raw, null)...), false
	}
}

// write adds the value to a document.
func (n *node) write(to []byte) []byte {
	switch n.kind {
	case kindObject:
		return n.writeObject(to)
	case kindInput:
		return append(to, n.readInput()...)
	case kindElements:
		to = append(to, '[')
		for i := range n.list {
			to = n.list[i].write(appendComma(to))
		}
		return append(to, ']')
	}
	return append(to, n.buf...)
}

// writeObject adds an object: its members as it began with them, and then those that came later.
func (n *node) writeObject(to []byte) []byte {
	to = append(to, '{')
	for name, v := range object(Parse(n.buf)).All() {
		to = append(append(appendComma(to), name.Raw...), ':')
		if m := n.find(name.Str); m != nil {
			m.began = true
			to = m.write(to)
		} else {
			to = append(to, v.Raw...)
		}
	}
	for i := range n.list {
		if m := &n.list[i]; !m.began {
			to = m.writeMember(to)
		}
		n.list[i].began = false
	}
	return append(to, '}')
}

// readInput returns the input of a tool from its pieces: an object, or a text where the pieces are
// no valid object.
func (n *node) readInput() []byte {
	whole := slices.Concat([]byte{'"'}, n.buf, []byte{'"'})
	text, err := jsontext.AppendUnquote(nil, whole)
	if doc, ok := normalize([]byte(strings.TrimSpace(string(text)))); err == nil && ok && doc[0] == '{' {
		return doc
	}
	return whole
}

// writeMember adds the value with its name, unless it has none yet.
func (n *node) writeMember(to []byte) []byte {
	if !n.came() {
		return to
	}
	return n.write(appendName(to, n.name))
}
