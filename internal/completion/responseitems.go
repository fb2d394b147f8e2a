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
// object with the texts so far, of its own and of the elements of its lists.
type item struct {
	block

	id    string
	done  bool
	text  int64               // bytes of its deltas
	lists map[string][]*block // by the elements' indexes
}

// part is a text of an item: a member of the item itself, or of an element of one of its lists.
type part struct {
	list  string
	index int
	kind  string // the type of the element
	name  string // of the text's member
}

// apply adds an event, and returns how many bytes of text it adds.
func (l *items) apply(kind string, event gjson.Result) int64 {
	name := strings.TrimPrefix(kind, "response.")
	i := l.of(event)
	switch name {
	case "output_item.added", "output_item.done":
		return l.item(i, event, name == "output_item.done")
	case "content_part.added", "content_part.done":
		i.set(part{list: "content", index: int(event.Get("content_index").Int())}, object(event.Get("part")))
		return 0
	case "reasoning_summary_part.added", "reasoning_summary_part.done":
		i.set(part{list: "summary", index: int(event.Get("summary_index").Int())}, object(event.Get("part")))
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
		if p := partOf(base, event); p.name != "" {
			i.at(p).grow(p.name, delta)
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
	"output_text":                {list: "content", kind: "output_text", name: "text"},
	"reasoning_text":             {list: "content", kind: "reasoning_text", name: "text"},
	"refusal":                    {list: "content", kind: "refusal", name: "refusal"},
	"reasoning_summary_text":     {list: "summary", kind: "summary_text", name: "text"},
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
		i = &item{block: block{index: n}}
		at, _ := slices.BinarySearchFunc(*l, n, func(i *item, n int) int { return i.index - n })
		*l = slices.Insert(*l, at, i)
	}
	i.begin(v)
	i.done, i.id, i.lists = done, text(v.Get("id")), map[string][]*block{}
	switch {
	case done && i.text == 0:
		return itemText(v)
	case !done:
		for _, list := range []string{"content", "summary"} {
			for place, e := range array(v.Get(list)).All() {
				i.set(part{list: list, index: int(place.Num)}, e)
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

// set begins an element of a list anew.
func (i *item) set(p part, v gjson.Result) {
	if i != nil && !i.done && v.Exists() {
		i.at(p).begin(v)
	}
}

// at is the object that a part belongs to, made where there is none; one that counts for nothing where there are too
// many.
func (i *item) at(p part) *block {
	if p.list == "" {
		return &i.block
	}
	list := i.lists[p.list]
	at, found := slices.BinarySearchFunc(list, p.index, func(b *block, n int) int { return b.index - n })
	if found {
		return list[at]
	}
	b := &block{index: p.index, raw: appendMember([]byte{'{'}, "type", string(quote(p.kind)))}
	if p.kind == "output_text" {
		b.raw = appendMember(appendMember(b.raw, p.name, emptyText), "annotations", emptyList)
	}
	if b.raw = append(b.raw, '}'); p.index >= 0 && p.index < maxCalls {
		i.lists[p.list] = slices.Insert(list, at, b)
	}
	return b
}

func (l *items) size() (n int64) {
	for _, i := range *l {
		n += i.size()
		for _, list := range i.lists {
			for _, b := range list {
				n += b.size()
			}
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
	if i.done {
		return i.raw
	}
	status, raw := statusIncomplete, i.block.write(nil)
	if ended {
		status = statusCompleted
	}
	if Parse(raw).Get("status").Str == statusRunning {
		raw = set(raw, "status", `"`+status+`"`)
	}
	for _, name := range []string{"content", "summary"} {
		if i.lists[name] == nil {
			continue
		}
		list := []byte{'['}
		for _, b := range i.lists[name] {
			list = b.write(appendComma(list))
		}
		raw = put(raw, name, append(list, ']'))
	}
	return raw
}

// between puts quotes around the inside of a string.
func between(quotes []byte) []byte { return append(append([]byte{'"'}, quotes...), '"') }
