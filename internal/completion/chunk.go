package completion

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"weir/schemas"
)

// maxDepth is how deep values of a provider may lie in each other: much deeper than any
// do, and still no trouble inside of a record.
const maxDepth = 256

var (
	errNoChunk      = errors.New("completion: the event is no chunk of a completion")
	errNoCompletion = errors.New("completion: the answer is no completion")
)

// Chunk is one event of a streamed answer.
type Chunk struct {
	// Raw is the chunk as it came, without white space between its values, and with
	// U+FFFD for bytes that are no text.
	Raw json.RawMessage
	// Usage is what was used, where the chunk tells it.
	Usage *schemas.ChatUsage
	// Fault is an error that came in the place of an answer.
	Fault *Fault
	// Blank: it has nothing for a reader but usage: no choice, or choices without text, role,
	// tool call or end.
	Blank bool
}

// ReadChunk reads the data of one event; it keeps nothing of it. Its error says that it
// is no chunk.
func ReadChunk(data []byte) (Chunk, error) {
	raw, ok := compact(data)
	if !ok {
		return Chunk{}, errNoChunk
	}
	r := reading{raw: raw, blank: true}
	for w := members(raw, 0); w.next(); {
		switch {
		case w.is("choices"):
			if !r.choices(w.from) {
				return Chunk{}, errNoChunk
			}
		case w.is("usage"):
			r.usage = w.value()
		case w.is("x_groq"):
			r.elsewhere = find(w.value(), "usage")
		case w.is("error"):
			r.failed = r.failed || says(w.value())
		case w.is("object"):
			r.failed = r.failed || string(w.value()) == `"error"`
		}
	}
	c := Chunk{Raw: raw, Blank: r.blank, Usage: ReadUsage(r.told())}
	if r.failed {
		c.Fault = ReadFault(raw)
	}
	return c, nil
}

// WithoutUsage is a chunk as somebody reads it who has not asked for usage: without that
// member. keep is false where nothing is left to read.
func WithoutUsage(c Chunk) (raw json.RawMessage, keep bool) {
	return Without(c.Raw, "usage"), !c.Blank
}

// Named is a chunk or a whole answer with an id: its own, or this one where it has
// none or an empty one, or one that is no text.
func Named(raw json.RawMessage, id string) json.RawMessage {
	if own := find(raw, "id"); kindOf(own) == '"' && len(own) > 2 {
		return raw
	}
	if begin := space(raw, 0); begin >= len(raw) || raw[begin] != '{' {
		return raw
	}
	return set(raw, "id", quote(id), true)
}

// compact is one JSON object, valid and in little space; false: it is none.
func compact(data []byte) (json.RawMessage, bool) {
	raw := bytes.Clone(data)
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	v := jsontext.Value(raw)
	if v.Kind() != '{' || !valid(v) {
		return nil, false
	}
	depth, loose := survey(v)
	if depth > maxDepth || loose && v.Compact() != nil {
		return nil, false
	}
	return json.RawMessage(v), true
}

// reading is what is learned of a chunk on one way through it.
type reading struct {
	raw           []byte
	blank, failed bool
	usage         []byte
	// elsewhere is the usage in the places where some providers put it.
	elsewhere []byte
}

// told is the usage; nil: there is none.
func (r *reading) told() []byte {
	if kindOf(r.usage) == '{' {
		return r.usage
	}
	return r.elsewhere
}

// choices reads those at a place; false: they are none.
func (r *reading) choices(at int) bool {
	if r.raw[at] == 'n' {
		return true
	}
	for w := elements(r.raw, at); w.next(); {
		if w.kind() != '{' {
			return false
		}
		r.choice(w.from)
	}
	return r.raw[at] == '['
}

func (r *reading) choice(at int) {
	for w := members(r.raw, at); w.next(); {
		switch {
		case w.is("index"):
		case w.is("usage"):
			r.elsewhere = w.value()
		case w.is("delta"), w.is("message"):
			for d := members(r.raw, w.from); d.next(); {
				r.blank = r.blank && hollow(d.value())
			}
		default:
			r.blank = r.blank && hollow(w.value())
		}
	}
}

// usageIn finds the usage of a chunk or a whole answer; nil: it has none.
func usageIn(raw []byte) []byte {
	r := reading{raw: raw}
	for w := members(raw, 0); w.next(); {
		switch {
		case w.is("usage"):
			r.usage = w.value()
		case w.is("x_groq"):
			r.elsewhere = find(w.value(), "usage")
		case w.is("choices"):
			r.choices(w.from)
		}
	}
	if told := r.told(); kindOf(told) == '{' {
		return told
	}
	return nil
}
