package completion

import (
	"encoding/json"
	"slices"
	"strconv"

	"weir/schemas"
)

// Chunks takes a whole answer apart: what a reader puts together from them is the
// same. With usage the last one tells it. Each choice is one chunk, and where it has
// ended a second one that says so.
func Chunks(document json.RawMessage, usage bool) ([]json.RawMessage, error) {
	whole, ok := compact(document)
	choices := find(whole, "choices")
	if !ok || kindOf(choices) != '[' || says(find(whole, "error")) {
		return nil, errNoCompletion
	}
	begin := opening(whole)
	var chunks []json.RawMessage
	place := 0
	for e := elements(choices, 0); e.next(); place++ {
		if e.kind() != '{' {
			return nil, errNoCompletion
		}
		index := placed(find(e.value(), "index"), place)
		said, ended := halves(e.value(), index)
		chunks = append(chunks, chunk(begin, said))
		if ended != nil {
			chunks = append(chunks, chunk(begin, ended))
		}
	}
	if told := usageIn(whole); usage && told != nil {
		o := object{b: slices.Clip(begin.b), more: true}
		o.value("choices", []byte("[]"))
		o.value("usage", told)
		chunks = append(chunks, append(o.b, '}'))
	} else if len(chunks) == 0 {
		chunks = append(chunks, chunk(begin, nil))
	}
	return chunks, nil
}

// Whole reads what a proxy needs of a whole answer: its usage, why its choices ended,
// and an estimate of the tokens that they have. The error says that it is no
// completion.
func Whole(document json.RawMessage) (usage *schemas.ChatUsage, reasons []string, output int64, err error) {
	chunks, err := Chunks(document, true)
	if err != nil {
		return nil, nil, 0, err
	}
	var a Assembler
	for _, raw := range chunks {
		c, err := ReadChunk(raw)
		if err != nil {
			return nil, nil, 0, errNoCompletion
		}
		a.Add(c)
	}
	return a.Usage(), a.Reasons(), a.Output(), nil
}

// opening is how each chunk of an answer begins.
func opening(whole []byte) object {
	o := object{b: []byte{'{'}}
	for w := members(whole, 0); w.next(); {
		if w.is("id") {
			o.value("id", w.value())
		}
	}
	o.value("object", []byte(`"chat.completion.chunk"`))
	for w := members(whole, 0); w.next(); {
		switch {
		case w.is("id"), w.is("object"), w.is("choices"), w.is("usage"), w.is("error"):
		default:
			o.name(w.key())
			o.b = append(o.b, w.value()...)
		}
	}
	return o
}

func chunk(begin object, choice []byte) json.RawMessage {
	o := object{b: slices.Clip(begin.b), more: true}
	o.name([]byte("choices"))
	o.b = append(o.b, '[')
	o.b = append(o.b, choice...)
	return append(o.b, "]}"...)
}

// halves makes the choice of a chunk of a whole one, and another that ends it; nil: it
// has not ended.
func halves(whole []byte, index int) (said, ended []byte) {
	first, second := object{b: []byte{'{'}}, object{b: []byte{'{'}}
	number := strconv.AppendInt(nil, int64(index), 10)
	first.value("index", number)
	first.name([]byte("delta"))
	first.b = writeDelta(first.b, find(whole, "message"))
	second.value("index", number)
	second.value("delta", []byte("{}"))
	end := false
	for w := members(whole, 0); w.next(); {
		switch {
		case w.is("index"), w.is("message"), w.is("delta"):
		case w.is("finish_reason"), w.is("native_finish_reason"):
			end = end || !hollow(w.value())
			second.value(string(w.key()), w.value())
		default:
			first.value(string(w.key()), w.value())
		}
	}
	first.value("finish_reason", []byte("null"))
	if !end {
		return append(first.b, '}'), nil
	}
	return append(first.b, '}'), append(second.b, '}')
}

// writeDelta writes a message as a delta: its tool calls have an index.
func writeDelta(to, message []byte) []byte {
	o := object{b: append(to, '{')}
	for w := members(message, 0); w.next(); {
		o.name(w.key())
		if !w.is("tool_calls") || w.kind() != '[' {
			o.b = append(o.b, w.value()...)
			continue
		}
		o.b = append(o.b, '[')
		place := 0
		for e := elements(message, w.from); e.next(); place++ {
			if place > 0 {
				o.b = append(o.b, ',')
			}
			call := e.value()
			if e.kind() == '{' {
				call = set(call, "index", strconv.AppendInt(nil, int64(place), 10), true)
			}
			o.b = append(o.b, call...)
		}
		o.b = append(o.b, ']')
	}
	return append(o.b, '}')
}
