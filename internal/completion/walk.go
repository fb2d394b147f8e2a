package completion

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// walk goes over the members of an object, or the elements of an array, where they lie.
// It trusts its input to be JSON; what is not ends it early, and never goes beyond it.
type walk struct {
	b     []byte
	pos   int
	names bool
	// start is where the member begins, and from and to bound its value.
	start, from, to int
	name            []byte // between its quotes
	escaped         bool   // so that the name is written in another way
}

// members goes over the object at a place; over nothing where there is none.
func members(b []byte, at int) walk { return begin(b, at, '{') }

// elements goes over the array at a place; over nothing where there is none.
func elements(b []byte, at int) walk { return begin(b, at, '[') }

func begin(b []byte, at int, open byte) walk {
	at = space(b, at)
	if at >= len(b) || b[at] != open {
		return walk{b: b, pos: len(b)}
	}
	return walk{b: b, pos: at + 1, names: open == '{'}
}

// next goes to the next one; false: there is none.
func (w *walk) next() bool {
	w.pos = space(w.b, w.pos)
	if w.pos < len(w.b) && w.b[w.pos] == ',' {
		w.pos = space(w.b, w.pos+1)
	}
	if w.pos >= len(w.b) || w.b[w.pos] == '}' || w.b[w.pos] == ']' {
		w.pos = len(w.b)
		return false
	}
	w.start = w.pos
	if w.names {
		if w.b[w.pos] != '"' {
			w.pos = len(w.b)
			return false
		}
		end := skipString(w.b, w.pos)
		w.name = inner(w.b[w.pos:end])
		w.escaped = bytes.IndexByte(w.name, '\\') >= 0
		w.pos = space(w.b, end)
		if w.pos >= len(w.b) || w.b[w.pos] != ':' {
			w.pos = len(w.b)
			return false
		}
		w.pos = space(w.b, w.pos+1)
	}
	w.from = w.pos
	w.to = skip(w.b, w.pos)
	w.pos = w.to
	return w.to > w.from
}

func (w *walk) value() []byte { return w.b[w.from:w.to] }

// kind is the first byte of the value.
func (w *walk) kind() byte { return w.b[w.from] }

// is reports whether the member has the name, however that is written.
func (w *walk) is(name string) bool {
	if w.escaped {
		return unquote(w.name) == name
	}
	return string(w.name) == name
}

// key is the member's name in one spelling, between quotes.
func (w *walk) key() []byte {
	if w.escaped {
		return spelled(w.name)
	}
	return w.name
}

// find returns the value of a member: of several with one name the last, as most
// readers have it; nil: there is none.
func find(object []byte, name string) []byte {
	var found []byte
	for w := members(object, 0); w.next(); {
		if w.is(name) {
			found = w.value()
		}
	}
	return found
}

// skip returns where the value that begins at a place ends.
func skip(b []byte, at int) int {
	if at >= len(b) {
		return len(b)
	}
	switch b[at] {
	case '"':
		return skipString(b, at)
	case '{', '[':
		end, _ := nested(b, at)
		return end
	}
	for at < len(b) {
		switch b[at] {
		case ',', '}', ']', ' ', '\t', '\r', '\n', ':', '"':
			return at
		}
		at++
	}
	return at
}

// nested returns where the object or array that begins at a place ends; whole is false for
// one that does not. Of what is in it only the strings and brackets are looked at.
func nested(b []byte, at int) (end int, whole bool) {
	for deep := 0; at < len(b); at++ {
		switch b[at] {
		case '"':
			n := quoted(b[at+1:])
			if n == 0 {
				return len(b), false
			}
			at += n
		case '{', '[':
			deep++
		case '}', ']':
			if deep--; deep == 0 {
				return at + 1, true
			}
		}
	}
	return len(b), false
}

// Span is how long the JSON object is that b begins with; 0: it begins with none, or with
// one that does not end. It trusts b to be JSON so far.
func Span(b []byte) int {
	if len(b) == 0 || b[0] != '{' {
		return 0
	}
	end, whole := nested(b, 0)
	if !whole {
		return 0
	}
	return end
}

// skipString returns where the string that begins at a place ends.
func skipString(b []byte, at int) int {
	if n := quoted(b[min(at+1, len(b)):]); n > 0 {
		return at + 1 + n
	}
	return len(b)
}

// quoted is how many bytes of b belong to a string that began before it, with its quote;
// 0: it does not end.
func quoted(b []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return 0
		}
		at += n + 1
		slashes := 0
		for i := at - 2; i >= 0 && b[i] == '\\'; i-- {
			slashes++
		}
		if slashes%2 == 0 {
			return at
		}
	}
}

func space(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\n' || b[at] == '\r' || b[at] == '\t') {
		at++
	}
	return at
}

// kindOf is the first byte of a value; 0: there is none.
func kindOf(value []byte) byte {
	if len(value) == 0 {
		return 0
	}
	return value[0]
}

// hollow reports whether a value says nothing: null, or an empty text, array or object.
// It reads compact JSON.
func hollow(value []byte) bool {
	switch kindOf(value) {
	case 0, 'n':
		return true
	case '"', '[', '{':
		return len(value) == 2
	}
	return false
}

// valid reports whether it is one JSON value. Names may stand twice, and escapes need
// not make sense: readers cope with both.
func valid(b []byte) bool {
	return jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// survey reports how deep values lie in each other, and whether there is white space
// between them.
func survey(b []byte) (depth int, loose bool) {
	deep := 0
	for at := 0; at < len(b); at++ {
		switch b[at] {
		case '"':
			at = skipString(b, at) - 1
		case '{', '[':
			deep++
			depth = max(depth, deep)
		case '}', ']':
			deep--
		case ' ', '\t', '\r', '\n':
			loose = true
		}
	}
	return depth, loose
}
