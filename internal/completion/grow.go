package completion

import (
	"bytes"
	"slices"
)

// maxFields is how many members of one object are kept, maxChoices how many choices of
// an answer, and maxCalls how many tool calls of a choice; what goes beyond is left out.
const (
	maxFields  = 64
	maxChoices = 1024
	maxCalls   = 256
)

// The kinds of what grows, beside 0: nothing has come.
const (
	kindNull   = 'n'
	kindText   = '"' // buf is what stands between the quotes
	kindList   = '[' // buf is what stands between the brackets
	kindObject = '{' // of members that grow by themselves
	kindCalls  = 'c' // an array of tool calls
	kindValue  = 'v' // buf is the value; the last that says something
)

// grown is a member of the answer, as far as it has come.
type grown struct {
	name []byte
	kind byte
	buf  []byte
	// open: the last of a list is a text part that goes on.
	open  bool
	sub   fields
	calls *calls
}

// fields are the members of an object, in the order in which they came.
type fields []grown

// get returns the member with a name, made where there is none, until the next call;
// nil: there are too many.
func (f *fields) get(name []byte) *grown {
	for i := range *f {
		if bytes.Equal((*f)[i].name, name) {
			return &(*f)[i]
		}
	}
	if len(*f) >= maxFields {
		return nil
	}
	*f = append(*f, grown{name: bytes.Clone(name)})
	return &(*f)[len(*f)-1]
}

func (f *fields) has(name string) bool {
	return slices.ContainsFunc(*f, func(g grown) bool { return string(g.name) == name })
}

// size is how many bytes there are.
func (f *fields) size() int64 {
	n := int64(0)
	for i := range *f {
		g := &(*f)[i]
		n += int64(len(g.name)+len(g.buf)) + g.sub.size()
		if g.calls != nil {
			for i := range g.calls.list {
				n += g.calls.list[i].size()
			}
		}
	}
	return n
}

// null notes that the member is there.
func (g *grown) null() {
	if g.kind == 0 {
		g.kind = kindNull
	}
}

// text adds what stands between the quotes of a string.
func (g *grown) text(in []byte) {
	switch {
	case g.kind == kindList && len(in) == 0:
	case g.kind == kindList && g.open:
		g.buf = append(g.buf[:len(g.buf)-len(`"}`)], in...)
		g.buf = append(g.buf, `"}`...)
	case g.kind == kindList:
		g.comma()
		g.part(in)
	case g.kind == kindText:
		g.buf = append(g.buf, in...)
	case len(in) > 0 || g.kind == 0 || g.kind == kindNull:
		g.kind, g.buf = kindText, append(g.buf[:0], in...)
	}
}

// list adds the elements of an array; a text that came before is the first of them.
func (g *grown) list(array []byte) {
	in := inner(array)
	if g.kind == kindText && len(g.buf) > 0 && len(in) > 0 {
		before := g.buf
		g.buf = nil
		g.part(before)
	} else if g.kind != kindList && (len(in) > 0 || g.kind != kindText) {
		g.buf = g.buf[:0]
	}
	if g.kind == kindText && len(in) == 0 {
		return
	}
	if g.kind = kindList; len(in) > 0 {
		g.comma()
		g.buf = append(g.buf, in...)
		g.open = false
	}
}

// part adds a text as an element of its own, which goes on.
func (g *grown) part(in []byte) {
	g.buf = append(g.buf, `{"type":"text","text":"`...)
	g.buf = append(g.buf, in...)
	g.buf = append(g.buf, `"}`...)
	g.open = true
}

func (g *grown) comma() {
	if len(g.buf) > 0 {
		g.buf = append(g.buf, ',')
	}
}

// last takes a value in the place of what came before. One that is null takes no
// other's place.
func (g *grown) last(value []byte) {
	if kindOf(value) == 'n' {
		g.null()
		return
	}
	g.kind, g.buf = kindValue, append(g.buf[:0], value...)
}

// once takes a name that comes once, in pieces, or again and again as a whole.
func (g *grown) once(in []byte) {
	if g.kind != kindText || !bytes.Equal(g.buf, in) {
		g.text(in)
	}
}

// object makes the member one of members.
func (g *grown) object() *fields {
	g.kind = kindObject
	return &g.sub
}

// tells reports whether the member says more than that it is null.
func (g *grown) tells() bool { return g.kind != 0 && g.kind != kindNull }

// write adds the value to a document.
func (g *grown) write(to []byte) []byte {
	switch g.kind {
	case kindText:
		to = append(to, '"')
		to = append(to, g.buf...)
		return append(to, '"')
	case kindList:
		to = append(to, '[')
		to = append(to, g.buf...)
		return append(to, ']')
	case kindObject:
		o := object{b: append(to, '{')}
		for i := range g.sub {
			o.grown(&g.sub[i])
		}
		return append(o.b, '}')
	case kindCalls:
		return g.calls.write(to)
	case kindValue:
		return append(to, g.buf...)
	}
	return append(to, "null"...)
}

// object writes the members of an object.
type object struct {
	b    []byte
	more bool
}

func (o *object) name(name []byte) {
	if o.more {
		o.b = append(o.b, ',')
	}
	o.more = true
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, `":`...)
}

func (o *object) value(name string, value []byte) {
	o.name([]byte(name))
	o.b = append(o.b, value...)
}

// grown writes a member, unless nothing has come of it.
func (o *object) grown(g *grown) {
	if g.kind != 0 {
		o.name(g.name)
		o.b = g.write(o.b)
	}
}
