package completion

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// maxMembers is how many members of one object are kept, maxChoices how many choices of
// an answer, and maxCalls how many tool calls of a choice; the rest is left out.
const (
	maxMembers = 64
	maxChoices = 1024
	maxCalls   = 256
)

// The kinds of a node, beside 0: nothing has come.
const (
	kindNull   = 'n'
	kindText   = '"' // buf is what stands between the quotes
	kindList   = '[' // buf is what stands between the brackets
	kindObject = '{' // list are its members, which grow by themselves
	kindCalls  = 'c' // list are tool calls
	kindValue  = 'v' // buf is the value; the last that says something
)

// node is a value of the answer, as far as it has come.
type node struct {
	name string
	kind byte
	open bool // the last of a list is a text part that goes on
	buf  []byte
	list []node
	keys callKeys // of tool calls
}

// find returns the member with a name, until the next call of member; nil: there is none.
func (n *node) find(name string) *node {
	if at := slices.IndexFunc(n.list, func(m node) bool { return m.name == name }); at >= 0 {
		return &n.list[at]
	}
	return nil
}

// member returns the member with a name, made where there is none, until the next call.
// Where there are too many it is left out of the answer.
func (n *node) member(name string) *node {
	if m := n.find(name); m != nil {
		return m
	}
	if len(n.list) >= maxMembers {
		return &node{}
	}
	n.list = append(n.list, node{name: strings.Clone(name)})
	return &n.list[len(n.list)-1]
}

// size is how many bytes there are.
func (n *node) size() int64 {
	size := int64(len(n.name) + len(n.buf))
	for i := range n.list {
		size += n.list[i].size()
	}
	return size
}

// says reports whether the node says more than that it is null.
func (n *node) says() bool { return n != nil && n.kind != 0 && n.kind != kindNull }

// merge takes an object of which the members come in pieces, and returns how many bytes of
// text it has. The index of a tool call is no member of it.
func (n *node) merge(in position, v gjson.Result) (text int64) {
	n.kind = kindObject
	for name, value := range v.All() {
		if in != inCall || name.Str != "index" {
			text += n.member(name.Str).addMember(in, name.Str, value)
		}
	}
	return text
}

// addMember takes a piece of a member of an object, and returns how many bytes of text it has.
func (n *node) addMember(in position, name string, v gjson.Result) (text int64) {
	pieces := in == inDelta && name != "role" || in == inFunction // texts are pieces of one
	switch under := in.member(name); {
	case under == inCalls && v.IsArray():
		n.kind = kindCalls
		for _, call := range v.All() {
			text += n.call(object(call))
		}
	case (under == inFunction || under == inLogprobs) && v.IsObject():
		return n.merge(under, v)
	case under == inLogprobs && n.kind == kindObject:
	case v.Type == gjson.Null, hollow(v) && (in == inCall || in == inChoice && name == "finish_reason"):
		n.null()
	case in == inFunction && name == "name" && v.Type == gjson.String:
		if n.kind != kindText || string(n.buf) != inner(v) { // some repeat it as a whole
			n.text(inner(v))
		}
		return int64(len(v.Raw))
	case pieces && v.Type == gjson.String:
		n.text(inner(v))
		return length(inner(v))
	case argument(in, name):
		n.text(escaped(v.Raw)) // it becomes a text
		return length(escaped(v.Raw))
	case v.IsArray() && (in == inLogprobs || in == inDelta && grows(name)):
		n.elements(inner(v))
		if name == "content" && in == inDelta {
			return int64(len(inner(v)))
		}
	case in == inLogprobs && n.kind == kindList, under == inContent && n.kind != 0, name == "role" && hollow(v) && n.kind != 0:
		// It takes the place of nothing.
	default:
		n.last(v)
	}
	return text
}

// grows reports whether a list in a delta is a piece of one.
func grows(name string) bool {
	return name == "content" || name == "reasoning_details" || name == "annotations" || name == "images"
}

// call takes a piece of a tool call, and returns how many bytes of text it has.
func (n *node) call(piece gjson.Result) int64 {
	if !piece.Exists() {
		return 0
	}
	var left node // out, but for how much text it has
	at, call := n.keys.of(piece), &left
	if at == len(n.list) {
		n.list = append(n.list, node{})
	}
	if at >= 0 {
		call = &n.list[at]
	}
	return call.merge(inCall, piece)
}

// null notes that the member is there.
func (n *node) null() {
	if n.kind == 0 {
		n.kind = kindNull
	}
}

// text adds what stands between the quotes of a string.
func (n *node) text(in string) {
	switch {
	case n.kind == kindList && in == "":
	case n.kind == kindList && n.open:
		n.buf = append(n.buf[:len(n.buf)-len(`"}`)], in...)
		n.buf = append(n.buf, `"}`...)
	case n.kind == kindList:
		n.part(in)
	case n.kind == kindText:
		n.buf = append(n.buf, in...)
	case in != "" || !n.says():
		n.kind, n.buf = kindText, append(n.buf[:0], in...)
	}
}

// elements adds those of an array; a text that came before is the first of them.
func (n *node) elements(in string) {
	switch {
	case in == "" && (n.kind == kindText || n.kind == kindList):
		return
	case n.kind == kindText && len(n.buf) > 0:
		before := string(n.buf)
		n.buf = nil
		n.part(before)
	case n.kind != kindList:
		n.buf = n.buf[:0]
	}
	if n.kind = kindList; in != "" {
		n.comma()
		n.buf = append(n.buf, in...)
		n.open = false
	}
}

// part adds a text to a list as an element of its own, which goes on.
func (n *node) part(in string) {
	n.comma()
	n.buf = append(n.buf, `{"type":"text","text":"`...)
	n.buf = append(n.buf, in...)
	n.buf = append(n.buf, `"}`...)
	n.open = true
}

func (n *node) comma() {
	if len(n.buf) > 0 {
		n.buf = append(n.buf, ',')
	}
}

// last takes a value in the place of what came before. One that is null takes no
// other's place.
func (n *node) last(v gjson.Result) {
	if v.Type == gjson.Null {
		n.null()
		return
	}
	n.kind, n.buf = kindValue, append(n.buf[:0], v.Raw...)
}

// write adds the value to a document.
func (n *node) write(to []byte) []byte {
	switch n.kind {
	case kindText:
		return append(append(append(to, '"'), n.buf...), '"')
	case kindList:
		return append(append(append(to, '['), n.buf...), ']')
	case kindObject:
		to = append(to, '{')
		for i := range n.list {
			to = n.list[i].writeMember(to)
		}
		return append(to, '}')
	case kindCalls:
		to = append(to, '[')
		for i := range n.list {
			to = n.list[i].writeCall(appendComma(to))
		}
		return append(to, ']')
	case kindValue:
		return append(to, n.buf...)
	}
	return append(to, "null"...)
}

// writeMember adds the value with its name, unless it has none yet.
func (n *node) writeMember(to []byte) []byte {
	if n == nil || n.kind == 0 {
		return to
	}
	return n.write(appendName(to, n.name))
}

// writeRest adds the members that say something, and the one named always, but for some.
func (n *node) writeRest(to []byte, always string, but ...string) []byte {
	for i := range n.list {
		if m := &n.list[i]; (m.says() || m.name == always) && !slices.Contains(but, m.name) {
			to = m.writeMember(to)
		}
	}
	return to
}

// writeCall adds a tool call, which has a type and, in a document, no index.
func (n *node) writeCall(to []byte) []byte {
	to = append(to, '{')
	for i := range n.list {
		if m := &n.list[i]; m.says() {
			to = m.writeMember(to)
		}
		if n.list[i].name == "id" && n.find("type") == nil && n.find("function") != nil {
			to = appendMember(to, "type", `"function"`)
		}
	}
	return append(to, '}')
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

// callKeys tell the tool calls of a choice apart, in the order in which they began.
type callKeys []callKey

type callKey struct {
	index int
	id    string // as it came last; empty: none has come
}

// of is the place of the call that a piece belongs to, made where there is none; -1: there
// are too many. A piece without an index is of the call with its id, or of the last one
// where it has none. Some providers give one index to several calls, each of them whole:
// another id with a name begins another call.
func (k *callKeys) of(piece gjson.Result) int {
	id := ""
	if v := piece.Get("id"); !hollow(v) {
		id = v.Raw
	}
	n, err := strconv.Atoi(piece.Get("index").Raw)
	given := err == nil
	whole := given && id != "" && !hollow(object(piece.Get("function")).Get("name"))
	for i, c := range slices.Backward(*k) {
		switch same := c.id != "" && c.id == id; {
		case given && (c.index != n || whole && c.id != "" && !same), !given && id != "" && !same:
			continue
		case id != "" && !same:
			(*k)[i].id = strings.Clone(id)
		}
		return i
	}
	if len(*k) >= maxCalls {
		return -1
	}
	if !given {
		for _, c := range *k {
			n = max(n, c.index+1)
		}
	}
	*k = append(*k, callKey{n, strings.Clone(id)})
	return len(*k) - 1
}
