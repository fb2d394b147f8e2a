package completion

import (
	"bytes"
	"strconv"
)

// choice is one choice of the answer, as far as it has come.
type choice struct {
	index   int
	ended   bool
	message fields
	rest    fields
	text    int64 // bytes
}

// add takes what a chunk says of the choice.
func (c *choice) add(raw []byte) {
	delta := find(raw, "delta")
	if kindOf(delta) != '{' {
		delta = find(raw, "message") // of those that mistake the one for the other
	}
	for w := members(delta, 0); w.next(); {
		c.delta(delta, &w)
	}
	for w := members(raw, 0); w.next(); {
		switch {
		case w.is("index"), w.is("delta"), w.is("message"):
			continue
		case w.is("finish_reason"):
			c.ended = c.ended || !hollow(w.value())
		}
		g := c.rest.get(w.key())
		switch {
		case g == nil:
		case w.is("logprobs") && w.kind() == '{':
			addLists(g.object(), w.value())
		case w.is("logprobs") && g.kind == kindObject:
		case w.is("finish_reason") && hollow(w.value()):
			g.null()
		default:
			g.last(w.value())
		}
	}
}

// addLists takes an object whose arrays grow.
func addLists(f *fields, raw []byte) {
	for w := members(raw, 0); w.next(); {
		switch g := f.get(w.key()); {
		case g == nil:
		case w.kind() == '[':
			g.list(w.value())
		default:
			if g.kind != kindList {
				g.last(w.value())
			}
		}
	}
}

// delta takes one member of a delta.
func (c *choice) delta(delta []byte, w *walk) {
	g := c.message.get(w.key())
	if g == nil {
		if w.kind() == '"' {
			c.text += length(inner(w.value()))
		}
		return
	}
	switch {
	case w.kind() == 'n':
		g.null()
	case w.is("role"):
		if !hollow(w.value()) || g.kind == 0 {
			g.last(w.value())
		}
	case w.is("tool_calls") && w.kind() == '[':
		if g.kind = kindCalls; g.calls == nil {
			g.calls = &calls{}
		}
		for e := elements(w.b, w.from); e.next(); {
			c.text += g.calls.add(e.value())
		}
	case w.is("function_call") && w.kind() == '{':
		c.text += addFunction(g.object(), w.value())
	case w.kind() == '"':
		in := inner(w.value())
		g.text(in)
		if !w.is("reasoning_content") || !bytes.Equal(find(delta, "reasoning"), w.value()) {
			c.text += length(in) // of two names for one text it counts once
		}
	case w.kind() == '[' && (w.is("content") || w.is("reasoning_details") || w.is("annotations") || w.is("images")):
		g.list(w.value())
		if w.is("content") {
			c.text += int64(len(w.value()) - 2)
		}
	case w.is("content") && g.kind != 0:
		// Neither a text nor parts: it takes the place of nothing.
	default:
		g.last(w.value())
	}
}

// write adds the choice to a document.
func (c *choice) write(to []byte) []byte {
	o := object{b: append(to, '{')}
	o.value("index", strconv.AppendInt(nil, int64(c.index), 10))
	o.name([]byte("message"))
	o.b = c.writeMessage(o.b)
	last := func(name []byte) bool {
		return string(name) == "finish_reason" || string(name) == "native_finish_reason"
	}
	for i := range c.rest {
		if g := &c.rest[i]; !last(g.name) && (g.tells() || string(g.name) == "logprobs") {
			o.grown(g)
		}
	}
	if !c.rest.has("finish_reason") {
		o.value("finish_reason", []byte("null"))
	}
	for i := range c.rest {
		if g := &c.rest[i]; last(g.name) {
			o.grown(g)
		}
	}
	return append(o.b, '}')
}

func (c *choice) writeMessage(to []byte) []byte {
	o := object{b: append(to, '{')}
	role, content := []byte(`"assistant"`), []byte("null")
	for i := range c.message {
		switch g := &c.message[i]; {
		case !g.tells():
		case string(g.name) == "role":
			role = g.write(nil)
		case string(g.name) == "content":
			content = g.write(nil)
		}
	}
	o.value("role", role)
	o.value("content", content)
	for i := range c.message {
		switch g := &c.message[i]; {
		case string(g.name) == "role", string(g.name) == "content":
		case g.tells(), string(g.name) == "refusal":
			o.grown(g)
		}
	}
	return append(o.b, '}')
}

// length is how many bytes the text has at most that stands between quotes.
func length(in []byte) int64 {
	n := int64(len(in))
	for i := 0; i+1 < len(in); i++ {
		if in[i] != '\\' {
			continue
		}
		if i++; in[i] == 'u' {
			n -= 3 // six of them for one of at most three bytes
		} else {
			n--
		}
	}
	return max(n, 0)
}
