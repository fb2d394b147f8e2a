package completion

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// Texts finds the texts of an answer's chunks in their order, and knows which of them are pieces of
// one. In DialectChat those are the texts that its answer joins, and of the others those with the
// same path. It belongs to one goroutine.
type Texts struct {
	find  func(t *Texts, chunk gjson.Result)
	paths map[path]int // numbered as they come, from 1
	names int          // bytes of their names
	over  bool
	found *Found

	calls   map[int]*node  // of DialectChat, by the path of their list
	indexes map[string]int // of items of DialectResponses, by their ids
}

// path is a member of an object, or an element of a list, by the path of that; or an item or a
// block.
type path struct {
	of      int
	element bool
	index   int
	name    string
}

// Found is what a chunk has.
type Found struct {
	Texts []Text
	// Tokens are the values that tell how likely the tokens of a text were, an outer one
	// before those in it.
	Tokens []Extent
	// Ended are the texts, by their lanes, and the choices that it ends.
	Ended []int
}

// Extent is the range of a value in a chunk.
type Extent struct{ From, To int }

func extentOf(v gjson.Result) Extent { return Extent{v.Index, v.Index + len(v.Raw)} }

// Text is a piece of a text. It is not empty.
type Text struct {
	// Extent is the range of the string with its quotes, or of arguments that are no string.
	Extent
	// Lane is the number of the whole text, and Choice that of its choice, item or block, which no
	// text has.
	Lane, Choice int
}

// surrogates finds escapes, a pair of surrogates as one.
var surrogates = regexp.MustCompile(`\\(u[dD][89abAB]..\\u[dD][c-fC-F]..|u....|.)`)

// Append adds the text as its reader has it, from the chunk that it was found in. Half a
// character stays the escape that it came as, for a reader may have the other half.
func (t Text) Append(to []byte, chunk json.RawMessage) []byte {
	value := chunk[t.From:t.To]
	if value[0] != '"' {
		return append(to, value...)
	}
	from := len(to)
	to, err := jsontext.AppendUnquote(to, value)
	if err == nil {
		return to
	}
	whole := surrogates.ReplaceAllFunc(value, func(escape []byte) []byte {
		if len(escape) == len(`\ud800`) && (escape[2] == 'd' || escape[2] == 'D') && escape[3] >= '8' {
			return append([]byte{'\\'}, escape...)
		}
		return escape
	})
	to, _ = jsontext.AppendUnquote(to[:from], whole)
	return to
}

const (
	// maxPaths is how many members and elements with texts an answer may have, by all
	// their names, and maxNames the bytes of those.
	maxPaths = 8192
	maxNames = 256 << 10
	// maxTexts is how many texts a chunk may have.
	maxTexts = 1 << 17
	// maxLists is how deep elements of lists have paths of their own, and maxNested how deep
	// values may be nested: each level is read once more to find them.
	maxLists  = 8
	maxNested = 64
)

// location is where in an answer a value stands.
type location struct {
	position
	path, choice  int
	instead       bool // of a choice: its message replaces a delta
	lists, nested int  // how many it is nested in
}

// Read overwrites found, and reuses its memory. It is false if the answer exceeds the limits.
func (t *Texts) Read(raw json.RawMessage, found *Found) bool {
	if t.paths == nil {
		t.paths, t.calls, t.indexes = map[path]int{}, map[int]*node{}, map[string]int{}
	}
	*found = Found{found.Texts[:0], found.Tokens[:0], found.Ended[:0]}
	t.found = found
	t.find(t, Parse(raw))
	slices.SortFunc(found.Texts, func(a, b Text) int { return a.From - b.From })
	t.found = nil
	return !t.over
}

// completion finds the texts of a chunk of DialectChat.
func (t *Texts) completion(chunk gjson.Result) {
	t.value(chunk.Get("choices"), location{position: inChoices})
}

// value finds the texts of a value.
func (t *Texts) value(v gjson.Result, at location) {
	at.nested++
	switch {
	case v.Type == gjson.String:
		t.add(v, at.path, at.choice)
	case v.Type == gjson.JSON && at.nested > maxNested:
		t.over = true
	case v.IsObject():
		for name, m := range v.All() {
			if at.position == inChoice && name.Str == "message" {
				at.instead = !v.Get("delta").IsObject()
			}
			if t.member(m, name.Str, at); t.over {
				return
			}
		}
	case v.IsArray():
		at.lists++
		for place, e := range v.All() {
			if t.value(e, t.element(e, int(place.Num), at)); t.over {
				return
			}
		}
	}
}

// add notes a piece of a text.
func (t *Texts) add(v gjson.Result, lane, choice int) {
	if v.Raw == `""` {
		return
	}
	if t.over = t.over || len(t.found.Texts) == maxTexts; !t.over {
		t.found.Texts = append(t.found.Texts, Text{extentOf(v), lane, choice})
	}
}

// number returns the number of a path.
func (t *Texts) number(p path) int {
	n, ok := t.paths[p]
	if ok {
		return n
	}
	t.names += len(p.name)
	if n = len(t.paths) + 1; n > maxPaths || t.names > maxNames {
		t.over = true
		return n
	}
	p.name = strings.Clone(p.name)
	t.paths[p] = n
	return n
}

// member finds the texts of a member. As in a chatAnswer, a message replaces a
// missing delta, arguments become a text, and text and text parts are one.
func (t *Texts) member(v gjson.Result, name string, at location) {
	in, becomes := at.position, argument(at.position, name) && v.Type != gjson.Null
	switch {
	case in == inChoice && name == "delta" && !v.IsObject():
		return
	case in == inChoice && name == "message" && at.instead:
		name = "delta"
	case in == inContent && name == "text" && v.Type == gjson.String:
		t.add(v, at.path, at.choice)
		return
	case in == inChoice && name == "finish_reason" && !hollow(v) && !slices.Contains(t.found.Ended, at.choice):
		t.found.Ended = append(t.found.Ended, at.choice)
	case name == "logprobs" && v.IsObject() && !becomes:
		t.found.Tokens = append(t.found.Tokens, extentOf(v))
	}
	if v.Type != gjson.String && v.Type != gjson.JSON && !becomes {
		return
	}
	at.position, at.path = in.member(name), t.number(path{of: at.path, name: name})
	if becomes {
		t.add(v, at.path, at.choice)
	} else {
		t.value(v, at)
	}
}

// element is the location of an element of a list. As in a chatAnswer, a choice without an
// index has its place as index.
func (t *Texts) element(v gjson.Result, place int, at location) location {
	p := path{of: at.path, element: true}
	switch {
	case !v.IsObject():
		return at
	case at.position == inChoices:
		p.index = indexOf(v, place)
		at.position, at.path = inChoice, t.number(p)
		at.choice = at.path
		return at
	case at.position == inCalls:
		if t.calls[at.path] == nil {
			t.calls[at.path] = &node{}
		}
		at.position, p.index = inCall, t.calls[at.path].place(v)
	default:
		if p.index = indexOf(v, -1); p.index < 0 || at.lists > maxLists {
			return at
		}
		at.position = inPlain
	}
	at.path = t.number(p)
	return at
}
