package completion

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Texts finds the texts of an answer's chunks, and knows which of them are one: those
// that an Assembler puts together, and of what it does not those that stand in the same
// place. It belongs to one goroutine.
type Texts struct {
	root    spot
	spots   int // that there are, and the bytes of their names
	names   int
	lanes   int
	choices int
	visits  int // of objects
	chunks  int

	raw   []byte
	at    int
	lists int // how many a place lies in
	over  bool
	cuts  []Extent
	into  *Found
}

// Found is what a chunk has.
type Found struct {
	// Raw is the chunk: of members of one name in one object only the last, as most readers
	// have it.
	Raw   json.RawMessage
	Texts []Text
	// Tokens are the values that tell how likely the tokens of a text were, an outer one
	// before those in it.
	Tokens []Extent
	// Ended are the choices that it ends.
	Ended []int
}

// Extent is where a value lies in a chunk.
type Extent struct{ From, To int }

// Text is a piece of a text. It is not empty.
type Text struct {
	// Extent is that of the string with its quotes, or of arguments that are none.
	Extent
	// Lane is the text that it is a piece of, and Choice that text's choice; both are
	// counted from zero as they come.
	Lane, Choice int
}

// Append adds the text as its reader has it, from the chunk that it was found in. Half a
// character stays the escape that it came as, for a reader may have the other half.
func (t Text) Append(to []byte, chunk json.RawMessage) []byte {
	value := chunk[t.From:t.To]
	if value[0] != '"' {
		return append(to, value...)
	}
	in := inner(value)
	if bytes.IndexByte(in, '\\') < 0 {
		return append(to, in...)
	}
	from := len(to)
	to, err := jsontext.AppendUnquote(to, value)
	if err == nil {
		return to
	}
	return appendHalves(to[:from], in)
}

const (
	// maxSpots is how many members and elements with texts an answer may have, by all
	// their names, and maxNames the bytes of those.
	maxSpots = 8192
	maxNames = 256 << 10
	// maxTexts is how many texts a chunk may have.
	maxTexts = 1 << 17
	// maxLists is how deep elements of lists are told apart by their index: each time they
	// are gone over to find it.
	maxLists = 8
)

// Read finds the texts of a chunk as ReadChunk gave it. What was in found is lost, but for
// its room. It is false where the answer has more than any has.
func (t *Texts) Read(raw json.RawMessage, found *Found) bool {
	t.chunks++
	t.root.kind = spotRoot
	for again := true; again; {
		*found = Found{raw, found.Texts[:0], found.Tokens[:0], found.Ended[:0]}
		t.raw, t.at, t.lists, t.cuts, t.into = raw, 0, 0, t.cuts[:0], found
		t.object(&t.root)
		if again = len(t.cuts) > 0 && !t.over; again {
			raw = t.without()
			t.chunks++
		}
	}
	t.raw, t.into = nil, nil
	return !t.over
}

// without is the chunk without the members that others have replaced.
func (t *Texts) without() []byte {
	slices.SortFunc(t.cuts, func(a, b Extent) int { return a.From - b.From })
	out, kept := make([]byte, 0, len(t.raw)), 0
	for _, c := range t.cuts {
		if c.From >= kept {
			out, kept = append(out, t.raw[kept:c.From]...), c.To+1 // with the comma: another follows
		}
	}
	return append(out, t.raw[kept:]...)
}

// value goes over a value.
func (t *Texts) value(s *spot) {
	switch t.raw[t.at] {
	case '{':
		t.object(s)
	case '[':
		t.array(s)
	default:
		from := t.at
		if t.at = skip(t.raw, from); t.raw[from] == '"' && t.at-from > 2 {
			t.text(s, from)
		}
	}
}

// text notes what lies between a place and here.
func (t *Texts) text(s *spot, from int) {
	if s.lane == 0 {
		t.lanes++
		s.lane = t.lanes
	}
	t.into.Texts = append(t.into.Texts, Text{Extent{from, t.at}, s.lane - 1, s.choice})
	t.over = t.over || len(t.into.Texts) > maxTexts
}

func (t *Texts) object(s *spot) {
	t.visits++
	visit := t.visits
	for t.at++; !t.over && t.raw[t.at] != '}'; {
		if t.raw[t.at] == ',' {
			t.at++
		}
		from := t.at
		t.at = skipString(t.raw, from)
		name := spelled(t.raw[from+1 : t.at-1])
		t.at++ // the colon
		m := t.member(s, name)
		if m == nil {
			t.at = skip(t.raw, t.at)
			continue
		}
		if m.visit == visit {
			t.cuts = append(t.cuts, m.lies)
		}
		m.visit = visit
		t.inside(s, m)
		m.lies = Extent{from, t.at}
	}
	t.at++
}

// member is the spot of a member, of which the value is next; nil: it has nothing to find,
// and nobody has found anything there before.
func (t *Texts) member(s *spot, name []byte) *spot {
	if s.kind == spotRoot && string(name) != "choices" {
		return nil
	}
	m := s.member(name)
	if m != nil {
		return m
	}
	switch t.raw[t.at] {
	case '"', '{', '[':
	default:
		if s.kind != spotFunction && string(name) != "finish_reason" {
			return nil
		}
	}
	return t.add(s, name)
}

// inside goes over the value of a member.
func (t *Texts) inside(s, m *spot) {
	from := t.at
	kind := t.raw[from]
	switch name := m.name; {
	case s.kind == spotChoice && name == "delta" && kind != '{':
		t.at = skip(t.raw, from) // nobody reads that
	case s.kind == spotChoice && name == "message" && s.instead:
		t.value(t.delta(s))
	case s.kind == spotContent && name == "text" && kind == '"':
		t.value(s) // text and text parts are one
	case s.kind == spotFunction && (name == "arguments" || name == "input") && kind != '"':
		if t.at = skip(t.raw, from); kind != 'n' {
			t.text(m, from) // it becomes a text
		}
	case name == "logprobs" && kind == '{':
		i := len(t.into.Tokens)
		t.into.Tokens = append(t.into.Tokens, Extent{from, 0})
		t.value(m)
		t.into.Tokens[i].To = t.at
	default:
		t.value(m)
		if s.kind == spotChoice && name == "finish_reason" && !t.over && !hollow(t.raw[from:t.at]) {
			t.end(s)
		}
	}
}

// end notes that the chunk ends a choice.
func (t *Texts) end(choice *spot) {
	if choice.ended != t.chunks {
		choice.ended = t.chunks
		t.into.Ended = append(t.into.Ended, choice.choice)
	}
}

func (t *Texts) array(s *spot) {
	t.lists++
	place := 0
	for t.at++; !t.over && t.raw[t.at] != ']'; place++ {
		if t.raw[t.at] == ',' {
			t.at++
		}
		element := s
		if t.raw[t.at] == '{' {
			element = t.element(s, place)
		}
		t.value(element)
	}
	t.at++
	t.lists--
}

// element is the spot of an object in a list. As an Assembler has it, a choice without an
// index is that of its place, and one without a delta has a message.
func (t *Texts) element(s *spot, place int) *spot {
	raw := t.raw[t.at:]
	switch {
	case s.kind == spotChoices:
		var index, delta []byte
		for w := members(raw, 0); w.next(); {
			switch {
			case w.is("index"):
				index = w.value()
			case w.is("delta"):
				delta = w.value()
			}
		}
		c := t.nth(s, placed(index, place))
		c.instead = kindOf(delta) != '{'
		return c
	case s.kind == spotCalls:
		return t.nth(s, s.calls.of(raw))
	case t.lists <= maxLists:
		if n := placed(find(raw, "index"), -1); n >= 0 {
			return t.nth(s, n)
		}
	}
	return s
}
