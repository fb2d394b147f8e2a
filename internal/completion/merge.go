package completion

import (
	"bytes"
	"encoding/json"

	"github.com/tidwall/gjson"
)

// mergeChunks joins neighbours that differ in nothing but the next piece of one text of one
// choice: its content, refusal, reasoning, or the arguments of a tool call. A
// reader assembles the same answer from the result. The time of the first chunk stays, and
// so does its padding. The result shares what it did not join.
func mergeChunks(chunks []json.RawMessage) []json.RawMessage {
	merged := make([]json.RawMessage, 0, len(chunks))
	var pieces [][]byte
	for i := 0; i < len(chunks); {
		first, ok := templateOf(chunks[i])
		pieces = pieces[:0]
		for next := i + 1; ok && next < len(chunks); next++ {
			t, is := templateOf(chunks[next])
			if !is || !first.like(&t) {
				break
			}
			if pieces == nil {
				pieces = make([][]byte, 0, len(chunks)-next)
			}
			pieces = append(pieces, t.text())
		}
		merged = append(merged, first.join(pieces))
		i += 1 + len(pieces)
	}
	return merged
}

// template is a chunk around the values in which two chunks that are joined may differ: the
// text, the time, and the padding.
type template struct {
	raw    []byte
	values [3]Extent
	n      int
	at     int // which of them is the text
}

// templateOf finds these values in a chunk; false: it joins no other.
func templateOf(raw []byte) (template, bool) {
	t := template{raw: raw, at: -1}
	for name, v := range object(Parse(raw)).All() {
		ok := true
		switch name.Str {
		case "choices":
			text := growing(v)
			t.at = t.n
			ok = text.Exists() && t.add(Extent{text.Index + 1, text.Index + len(text.Raw) - 1})
		case "created":
			ok = hollow(v) || t.add(extentOf(v))
		case "obfuscation":
			ok = t.add(extentOf(v))
		case "error":
			ok = hollow(v)
		}
		if !ok {
			return t, false
		}
	}
	return t, t.at >= 0
}

func (t *template) add(value Extent) bool {
	if t.n == len(t.values) {
		return false
	}
	t.values[t.n] = value
	t.n++
	return true
}

// growing finds the text that grows in the only choice, which goes on; no value: there is none.
func growing(choices gjson.Result) gjson.Result {
	choice, only := first(choices)
	if !only || choice.Get("message").Exists() || !hollow(choice.Get("finish_reason")) || !hollow(choice.Get("logprobs")) {
		return gjson.Result{}
	}
	return growingIn(choice.Get("delta"))
}

// first is the one object of an array; only is false where that holds something else.
func first(list gjson.Result) (one gjson.Result, only bool) {
	for _, v := range array(list).All() {
		if one.Exists() {
			return one, false
		}
		one = v
	}
	return one, one.IsObject()
}

// growingIn finds the text in a delta, the only member of it that may grow. Where all are
// empty the content is preferred.
func growingIn(delta gjson.Result) (text gjson.Result) {
	for name, v := range object(delta).All() {
		var piece gjson.Result
		switch name.Str {
		case "role":
			continue
		case "content", "refusal", "reasoning", "reasoning_content":
			piece = v
		case "tool_calls":
			piece = arguments(v)
		}
		switch {
		case piece.Type == gjson.String && (!text.Exists() || hollow(text) && (!hollow(piece) || name.Str == "content")):
			text = piece
		case !hollow(v):
			return gjson.Result{}
		}
	}
	return text
}

// arguments finds the arguments that grow in the only tool call.
func arguments(calls gjson.Result) gjson.Result {
	call, only := first(calls)
	if !only || !call.Get("index").Exists() || !silent(call, "index", "type", "function") || !silent(call.Get("function"), "arguments") {
		return gjson.Result{}
	}
	return call.Get("function.arguments")
}

func (t *template) text() []byte { return t.raw[t.values[t.at].From:t.values[t.at].To] }

// like reports whether two chunks differ in these values only. The bytes before a value are
// equal then, so that it is the same member.
func (t *template) like(o *template) bool {
	if t.n != o.n || t.at != o.at {
		return false
	}
	from, other := 0, 0
	for i := range t.n {
		a, b := t.values[i], o.values[i]
		if !bytes.Equal(t.raw[from:a.From], o.raw[other:b.From]) {
			return false
		}
		from, other = a.To, b.To
	}
	return bytes.Equal(t.raw[from:], o.raw[other:])
}

// join is the chunk with more text behind its own.
func (t *template) join(pieces [][]byte) json.RawMessage {
	if len(pieces) == 0 {
		return t.raw
	}
	end := t.values[t.at].To
	joined := make([]byte, 0, len(t.raw)+2*len(pieces[0])*len(pieces))
	joined = append(joined, t.raw[:end]...)
	for _, more := range pieces {
		joined = append(joined, more...)
	}
	return append(joined, t.raw[end:]...)
}
