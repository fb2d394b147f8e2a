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
// who feeds it bounds the text.
type Assembler struct {
	head    fields
	choices []*choice // by their index
	usage   *schemas.ChatUsage
	// told is that usage as it came.
	told  []byte
	began bool
}

// Add takes the next chunk as ReadChunk gave it. Of one with a fault it takes the usage
// only.
func (a *Assembler) Add(c Chunk) {
	if c.Usage != nil {
		a.usage, a.told = c.Usage, bytes.Clone(usageIn(c.Raw))
	}
	if c.Fault != nil {
		return
	}
	a.began = a.began || !c.Blank
	for w := members(c.Raw, 0); w.next(); {
		switch {
		case w.is("choices"):
			place := 0
			for e := elements(c.Raw, w.from); e.next(); place++ {
				if into := a.choice(e.value(), place); into != nil {
					into.add(e.value())
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

// Output is an estimate of the tokens that have come, of every choice and kind of text.
func (a *Assembler) Output() int64 {
	n := int64(0)
	for _, c := range a.choices {
		n += c.text
	}
	return Tokens(n)
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
