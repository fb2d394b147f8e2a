package completion

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// items are the items of a response's output, by their index.
type items []*item

// item is one of them. A finished item is the provider's own object. Any other item is its first
// object with the texts so far.
type item struct {
	index int
	id    string
	raw   []byte
	done  bool
	text  int64 // bytes of its deltas
	parts []*part
}

// part is a text of an item: a member of the item, or of an element of its lists.
type part struct {
	partKey

	kind string // the type of the element
	name string // of the text's member
	raw  []byte // the element; nil: only deltas have arrived
	text []byte // between its quotes
}

// partKey identifies a part. Without a list the part is a member of the item itself.
type partKey struct {
	list  string
	index int
}

// apply adds an event, and returns how many bytes of text it adds.
func (l *items) apply(kind string, event gjson.Result) int64 {
	name := strings.TrimPrefix(kind, "response.")
	i := l.of(event)
	switch name {
	case "output_item.added", "output_item.done":
		return l.item(i, event, name == "output_item.done")
	case "content_part.added", "content_part.done":
		i.add(partKey{"content", int(event.Get("content_index").Int())}, object(event.Get("part")))
		return 0
	case "reasoning_summary_part.added", "reasoning_summary_part.done":
		i.add(partKey{"summary", int(event.Get("summary_index").Int())}, object(event.Get("part")))
		return 0
	}
	delta := event.Get("delta")
	base, ok := strings.CutSuffix(name, ".delta")
	if !ok || delta.Type != gjson.String {
		return 0
	}
	size := length(inner(delta))
	if i != nil && !i.done {
		i.text += size
		if p := i.find(partOf(base, event)); p != nil {
			p.text = append(p.text, inner(delta)...)
		}
	}
	return size
}

// partOf returns the part to which a type of event adds text. A part without a name is none.
func partOf(base string, event gjson.Result) part {
	p := textEvents[base]
	switch p.list {
	case "content":
		p.index = int(event.Get("content_index").Int())
	case "summary":
		p.index = int(event.Get("summary_index").Int())
	}
	return p
}

// textEvents are the parts by the types of the events that add text to them.
var textEvents = map[string]part{ //nolint:gochecknoglobals // a constant
	"output_text":                {partKey: partKey{list: "content"}, kind: "output_text", name: "text"},
	"reasoning_text":             {partKey: partKey{list: "content"}, kind: "reasoning_text", name: "text"},
	"refusal":                    {partKey: partKey{list: "content"}, kind: "refusal", name: "refusal"},
	"reasoning_summary_text":     {partKey: partKey{list: "summary"}, kind: "summary_text", name: "text"},
	"function_call_arguments":    {name: "arguments"},
	"mcp_call_arguments":         {name: "arguments"},
	"custom_tool_call_input":     {name: "input"},
	"code_interpreter_call_code": {name: "code"},
}

// texts lists the members of items and parts that hold a model's text.
func texts() []string { return []string{"arguments", "code", "input", "refusal", "text"} }

// itemText counts the bytes of text in a whole item.
func itemText(item gjson.Result) int64 {
	var t tally
	t.count(item, texts()...)
	for _, list := range []string{"content", "summary"} {
		for _, part := range array(item.Get(list)).All() {
			t.count(part, texts()...)
		}
	}
	return t.text
}

// item applies an event that begins or finishes an item; i is nil for a new one.
func (l *items) item(i *item, event gjson.Result, done bool) int64 {
	v := object(event.Get("item"))
	if !v.Exists() {
		return 0
	}
	if i == nil {
		n, err := strconv.Atoi(event.Get("output_index").Raw)
		if err != nil {
			n = len(*l)
		}
		if n < 0 || n >= maxChoices {
			return itemText(v)
		}
		i = &item{index: n}
		at, _ := slices.BinarySearchFunc(*l, n, func(i *item, n int) int { return i.index - n })
		*l = slices.Insert(*l, at, i)
	}
	i.raw, i.done, i.id, i.parts = []byte(v.Raw), done, text(v.Get("id")), nil
	switch {
	case done && i.text == 0:
		return itemText(v)
	case !done:
		for _, list := range []string{"content", "summary"} {
			for place, e := range array(v.Get(list)).All() {
				i.add(partKey{list, int(place.Num)}, e)
			}
		}
	}
	return 0
}

// of finds the item of an event; nil: it is unknown.
func (l *items) of(event gjson.Result) *item {
	n, err := strconv.Atoi(event.Get("output_index").Raw)
	id := event.Get("item_id").Str
	if err != nil && id == "" {
		id = event.Get("item.id").Str
	}
	for _, i := range *l {
		if err == nil && i.index == n || err != nil && id != "" && i.id == id {
			return i
		}
	}
	return nil
}

// add replaces an element of a list.
func (i *item) add(key partKey, v gjson.Result) {
	if i == nil || i.done || !v.Exists() {
		return
	}
	name := "text"
	if v.Get("type").Str == "refusal" {
		name = "refusal"
	}
	if p := i.find(part{partKey: key, name: name}); p != nil {
		p.name, p.raw, p.text = name, []byte(v.Raw), p.text[:0]
		if t := v.Get(name); t.Type == gjson.String {
			p.text = append(p.text, inner(t)...)
		}
	}
}

// find returns the part with the same key, and adds other if there is none. nil: there are too
// many.
func (i *item) find(other part) *part {
	if other.name == "" {
		return nil
	}
	for _, p := range slices.Backward(i.parts) {
		if p.partKey == other.partKey {
			return p
		}
	}
	if other.index < 0 || other.index >= maxCalls || len(i.parts) >= maxCalls {
		return nil
	}
	if other.list == "" {
		if t := Parse(i.raw).Get(other.name); t.Type == gjson.String {
			other.text = []byte(inner(t))
		}
	}
	at, _ := slices.BinarySearchFunc(i.parts, other.index, func(p *part, n int) int { return p.index - n })
	i.parts = slices.Insert(i.parts, at, &other)
	return &other
}

func (l *items) size() (n int64) {
	for _, i := range *l {
		n += int64(len(i.raw))
		for _, p := range i.parts {
			n += int64(len(p.raw) + len(p.text))
		}
	}
	return n
}

// write appends the list of the items to a document. ended: the response ended normally.
func (l *items) write(to []byte, ended bool) []byte {
	to = append(to, '[')
	for _, i := range *l {
		to = append(appendComma(to), i.write(ended)...)
	}
	return append(to, ']')
}

// write returns the item so far. An unfinished item is incomplete, unless the response ended.
func (i *item) write(ended bool) []byte {
	raw := i.raw
	if i.done {
		return raw
	}
	status := statusIncomplete
	if ended {
		status = statusCompleted
	}
	if Parse(raw).Get("status").Str == statusRunning {
		raw = set(raw, "status", `"`+status+`"`)
	}
	lists := map[string][]byte{}
	for _, p := range i.parts {
		if p.list == "" {
			raw = put(raw, p.name, between(p.text))
			continue
		}
		if lists[p.list] == nil {
			lists[p.list] = []byte{'['}
		}
		lists[p.list] = append(appendComma(lists[p.list]), p.write()...)
	}
	for _, name := range []string{"content", "summary"} {
		if list := lists[name]; list != nil {
			raw = put(raw, name, append(list, ']'))
		}
	}
	return raw
}

// write returns an element of a list.
func (p *part) write() []byte {
	switch {
	case len(p.text) == 0 && p.raw != nil:
		return p.raw
	case p.raw != nil:
		return put(p.raw, p.name, between(p.text))
	}
	raw := appendMember([]byte{'{'}, "type", string(quote(p.kind)))
	raw = appendMember(raw, p.name, string(between(p.text)))
	if p.kind == "output_text" {
		raw = appendMember(raw, "annotations", "[]")
	}
	return append(raw, '}')
}

// between puts quotes around the inside of a string.
func between(quotes []byte) []byte { return append(append([]byte{'"'}, quotes...), '"') }
