package completion

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"weir/schemas"
)

// Assembler puts the chunks of an answer together. It belongs to one goroutine. It
// holds what came, bounded only in how many choices, tool calls and members that has:
// who feeds it bounds the rest, by its Size.
type Assembler struct {
	head    fields
	choices []*choice // by their index
	usage   *schemas.ChatUsage
	// told is that usage as it came, and before how many bytes of text had come by then.
	told   []byte
	before int64
	// beyond are the bytes of text of choices that are left out.
	beyond int64
	began  bool
}

// Add takes the next chunk as ReadChunk gave it. Of one with a fault it takes the usage
// only. Of several usages the last counts, unless it is smaller: what was used does not
// become less.
func (a *Assembler) Add(c Chunk) {
	if c.Fault == nil {
		a.add(c)
	}
	if c.Usage != nil && (a.usage == nil || c.Usage.Total >= a.usage.Total) {
		a.usage, a.told, a.before = c.Usage, bytes.Clone(usageIn(c.Raw)), a.text()
	}
}

func (a *Assembler) add(c Chunk) {
	a.began = a.began || !c.Blank
	for w := members(c.Raw, 0); w.next(); {
		switch {
		case w.is("choices"):
			place := 0
			for e := elements(c.Raw, w.from); e.next(); place++ {
				if into := a.choice(e.value(), place); into != nil {
					into.add(e.value())
				} else {
					a.beyond += extent(e.value())
				}
			}
		case w.is("object"), w.is("usage"), w.is("error"), w.is("obfuscation"):
		case !hollow(w.value()):
			if g := a.head.get(w.key()); g != nil && g.kind == 0 {
				g.last(w.value())
			}
		}
	}
}

// extent is how many bytes of text a choice of a chunk has.
func extent(raw []byte) int64 {
	var c choice
	c.add(raw)
	return c.text
}

// choice finds the choice that a chunk speaks of, by its place there where it names no
// index; nil: it is out of bounds.
func (a *Assembler) choice(raw []byte, place int) *choice {
	index := placed(find(raw, "index"), place)
	if index < 0 || index >= maxChoices {
		return nil
	}
	at, found := slices.BinarySearchFunc(a.choices, index, func(c *choice, index int) int { return c.index - index })
	if !found {
		a.choices = slices.Insert(a.choices, at, &choice{index: index})
	}
	return a.choices[at]
}

// placed is the index that stands in a list, or the place where there is none.
func placed(index []byte, place int) int {
	if n, err := strconv.Atoi(string(index)); err == nil {
		return n
	}
	return place
}

// Finished reports whether so many choices, one at least, have ended, and every other
// that has begun.
func (a *Assembler) Finished(choices int64) bool {
	return int64(len(a.choices)) >= min(max(choices, 1), maxChoices) && !slices.ContainsFunc(a.choices, func(c *choice) bool { return !c.ended })
}

// Reasons are why the choices ended, in their order, each once. They are no place for
// content, see schemas.ChatReason.
func (a *Assembler) Reasons() []string {
	var all []string
	for _, c := range a.choices {
		for i := range c.rest {
			if g := &c.rest[i]; string(g.name) == "finish_reason" && g.tells() {
				if r := reason(g.buf); !slices.Contains(all, r) {
					all = append(all, r)
				}
			}
		}
	}
	return all
}

func reason(value []byte) string {
	if kindOf(value) != '"' {
		value = nil
	}
	return schemas.ChatReason(string(inner(value)))
}

// Usage is what was used by the provider's word; nil: it has not told.
func (a *Assembler) Usage() *schemas.ChatUsage { return a.usage }

// Spent is what an answer has used that broke off: the provider's last word, and an
// estimate of the text that came behind it. nil: it has not told.
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
	o := object{b: []byte{'{'}}
	for i := range a.head {
		if g := &a.head[i]; string(g.name) == "id" {
			o.grown(g)
		}
	}
	o.value("object", []byte(`"chat.completion"`))
	for i := range a.head {
		if g := &a.head[i]; string(g.name) != "id" {
			o.grown(g)
		}
	}
	o.name([]byte("choices"))
	o.b = append(o.b, '[')
	for i, c := range a.choices {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = c.write(o.b)
	}
	o.b = append(o.b, ']')
	if a.told != nil {
		o.value("usage", a.told)
	}
	return append(o.b, '}')
}
