package completion

// calls are the tool calls of a choice, as far as they have come.
type calls struct {
	keys callKeys
	list []fields // of each the members
}

// add takes a piece of a tool call, and returns how many bytes of text it has.
func (c *calls) add(raw []byte) int64 {
	if kindOf(raw) != '{' {
		return 0
	}
	at := c.keys.of(raw)
	if at < 0 {
		var left calls // out, but for how much text it has
		return left.add(raw)
	}
	if at == len(c.list) {
		c.list = append(c.list, nil)
	}
	text := int64(0)
	for w := members(raw, 0); w.next(); {
		if w.is("index") {
			continue
		}
		g := c.list[at].get(w.key())
		switch {
		case g == nil:
		case w.kind() == '{' && (w.is("function") || w.is("custom")):
			text += addFunction(g.object(), w.value())
		case !hollow(w.value()):
			g.last(w.value())
		default:
			g.null()
		}
	}
	return text
}

// addFunction takes a piece of a function's call, and returns how many bytes of text it
// has. Arguments that are no text become one.
func addFunction(f *fields, raw []byte) int64 {
	text := int64(0)
	for w := members(raw, 0); w.next(); {
		g := f.get(w.key())
		switch {
		case g == nil:
		case w.kind() == 'n':
			g.null()
		case w.is("name") && w.kind() == '"':
			g.once(inner(w.value()))
			text += int64(w.to - w.from)
		case w.kind() == '"':
			g.text(inner(w.value()))
			text += length(inner(w.value()))
		case w.is("arguments"), w.is("input"):
			in := inner(quote(string(w.value())))
			g.text(in)
			text += length(in)
		default:
			g.last(w.value())
		}
	}
	return text
}

// write adds the calls to a document, in which they have no index.
func (c *calls) write(to []byte) []byte {
	to = append(to, '[')
	for i := range c.list {
		if i > 0 {
			to = append(to, ',')
		}
		to = writeCall(to, c.list[i])
	}
	return append(to, ']')
}

func writeCall(to []byte, f fields) []byte {
	o := object{b: append(to, '{')}
	for i := range f {
		if g := &f[i]; g.tells() {
			o.grown(g)
		}
		if string(f[i].name) == "id" && !f.has("type") && f.has("function") {
			o.value("type", []byte(`"function"`))
		}
	}
	return append(o.b, '}')
}
