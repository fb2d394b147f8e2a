package completion

import (
	"bytes"
	"encoding/json"
)

// Merge joins neighbours that differ in nothing but the next piece of one text of one
// choice: its content, refusal, reasoning, or the arguments of a tool call. What a
// reader makes of the result is the same. The time of the first stays, and what is
// only there to hide the length of a text. It reads compact JSON, as ReadChunk gives
// it; the result shares what it did not join.
func Merge(chunks []json.RawMessage) []json.RawMessage {
	merged := make([]json.RawMessage, 0, len(chunks))
	var pieces [][]byte
	for i := 0; i < len(chunks); {
		first, ok := shapeOf(chunks[i])
		pieces = pieces[:0]
		for next := i + 1; ok && next < len(chunks); next++ {
			s, is := shapeOf(chunks[next])
			if !is || !first.like(&s) {
				break
			}
			if pieces == nil {
				pieces = make([][]byte, 0, len(chunks)-next)
			}
			pieces = append(pieces, s.text())
		}
		merged = append(merged, first.join(pieces))
		i += 1 + len(pieces)
	}
	return merged
}

// The holes in a shape.
const (
	holeTime = 1 + iota
	holePad
	holeContent
	holeRefusal
	holeReasoning
	holeReasoningContent
	holeArguments
)

// hole is a place where two chunks that are joined may differ.
type hole struct{ kind, from, to int }

// shape is a chunk around its holes.
type shape struct {
	raw   []byte
	holes [3]hole
	n     int
	at    int // which of them is the text; -1: none yet
}

// shapeOf finds the holes of a chunk; false: it joins no other.
func shapeOf(raw []byte) (shape, bool) {
	s := shape{raw: raw, at: -1}
	for w := members(raw, 0); w.next(); {
		ok := true
		switch {
		case w.is("choices"):
			ok = s.at < 0 && s.choices(w.from)
		case w.is("created") && !hollow(w.value()):
			ok = s.add(holeTime, w.from, w.to)
		case w.is("obfuscation"):
			ok = s.add(holePad, w.from, w.to)
		case w.is("error"):
			ok = hollow(w.value())
		}
		if !ok {
			return s, false
		}
	}
	return s, s.at >= 0
}

func (s *shape) add(kind, from, to int) bool {
	if s.n == len(s.holes) {
		return false
	}
	s.holes[s.n] = hole{kind, from, to}
	s.n++
	return true
}

// choices looks into the one choice that there may be, which goes on.
func (s *shape) choices(at int) bool {
	e := elements(s.raw, at)
	if !e.next() || e.kind() != '{' {
		return false
	}
	for w := members(s.raw, e.from); w.next(); {
		ok := true
		switch {
		case w.is("delta"):
			ok = s.at < 0 && s.delta(w.from)
		case w.is("message"):
			ok = false
		case w.is("finish_reason"), w.is("logprobs"):
			ok = hollow(w.value())
		}
		if !ok {
			return false
		}
	}
	return !e.next()
}

// delta finds the text; it is the only member that may grow.
func (s *shape) delta(at int) bool {
	found, empty := hole{}, hole{}
	for w := members(s.raw, at); w.next(); {
		kind := textKind(&w)
		switch {
		case w.is("role"):
		case kind != 0 && w.kind() == '"':
			h := hole{kind, w.from + 1, w.to - 1}
			if hollow(w.value()) {
				if empty.kind == 0 || kind == holeContent {
					empty = h
				}
				continue
			}
			if found.kind != 0 {
				return false
			}
			found = h
		case w.is("tool_calls") && !hollow(w.value()):
			h, ok := s.arguments(w.from)
			if !ok || found.kind != 0 {
				return false
			}
			found = h
		case !hollow(w.value()):
			return false
		}
	}
	if found.kind == 0 {
		found = empty
	}
	s.at = s.n
	return found.kind != 0 && s.add(found.kind, found.from, found.to)
}

func textKind(w *walk) int {
	switch {
	case w.is("content"):
		return holeContent
	case w.is("refusal"):
		return holeRefusal
	case w.is("reasoning"):
		return holeReasoning
	case w.is("reasoning_content"):
		return holeReasoningContent
	}
	return 0
}

// arguments finds those of the one tool call that there may be, which goes on.
func (s *shape) arguments(at int) (h hole, ok bool) {
	e := elements(s.raw, at)
	if !e.next() {
		return h, false
	}
	index := false
	for w := members(s.raw, e.from); w.next(); {
		switch {
		case w.is("index"):
			index = true
		case w.is("type"):
		case w.is("function"):
			for f := members(s.raw, w.from); f.next(); {
				switch {
				case f.is("arguments") && f.kind() == '"' && h.kind == 0:
					h = hole{holeArguments, f.from + 1, f.to - 1}
				case !hollow(f.value()):
					return h, false
				}
			}
		case !hollow(w.value()):
			return h, false
		}
	}
	return h, index && h.kind != 0 && !e.next()
}

func (s *shape) text() []byte { return s.raw[s.holes[s.at].from:s.holes[s.at].to] }

// like reports whether two chunks are the same but for their holes.
func (s *shape) like(o *shape) bool {
	if s.n != o.n || s.at != o.at {
		return false
	}
	from, other := 0, 0
	for i := range s.n {
		a, b := s.holes[i], o.holes[i]
		if a.kind != b.kind || !bytes.Equal(s.raw[from:a.from], o.raw[other:b.from]) {
			return false
		}
		from, other = a.to, b.to
	}
	return bytes.Equal(s.raw[from:], o.raw[other:])
}

// join is the chunk with more text behind its own.
func (s *shape) join(pieces [][]byte) json.RawMessage {
	if len(pieces) == 0 {
		return s.raw
	}
	size := len(s.raw)
	for _, p := range pieces {
		size += len(p)
	}
	joined, end := make([]byte, 0, size), s.holes[s.at].to
	joined = append(joined, s.raw[:end]...)
	for _, p := range pieces {
		joined = append(joined, p...)
	}
	return append(joined, s.raw[end:]...)
}
