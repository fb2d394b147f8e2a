package completion

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// The states in which a response ends, besides the cancelled one, and that before its end.
const (
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusRunning    = "in_progress"
)

const previousID = "previous_response_id"

// readResponse reads an event of DialectResponses, or a response object.
func readResponse(name string, data []byte) (Chunk, error) {
	response, c, err := open(name, data, schemas.DialectResponses)
	if err != nil {
		return Chunk{}, err
	}
	if c.Type != "" {
		response = object(response.Get("response"))
	}
	c.Usage = readUsage(schemas.DialectChat, response.Get("usage"))
	status := endOf(c.Type, response)
	if c.Last = status != ""; status == statusFailed && c.Fault == nil {
		var why []byte
		if failure := response.Get("error"); says(failure) {
			why = []byte(failure.Raw)
		}
		c.Fault = faultOf(why)
	}
	return c, nil
}

// endOf is the status with which an event ends its response; empty: the response continues. A whole
// document always ends it.
func endOf(kind string, response gjson.Result) string {
	switch kind {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return strings.TrimPrefix(kind, "response.")
	case "":
		switch status := response.Get("status").Str; status {
		case "", statusRunning:
			return statusCompleted
		default:
			return strings.Clone(status)
		}
	}
	return ""
}

// namedResponse is a response with Weir's ids: its own names its action, and previous_response_id
// names the action before.
func namedResponse(response json.RawMessage, o Options) json.RawMessage {
	if o.ID == "" || !Parse(response).IsObject() {
		return response
	}
	response = set(response, "id", string(quote(schemas.ResponseID(o.ID))))
	switch v := Parse(response).Get(previousID); {
	case !v.Exists():
	case o.Previous != "":
		response = put(response, previousID, quote(schemas.ResponseID(o.Previous)))
	case v.Type != gjson.Null: // an id of the provider, which the caller has not named
		response = put(response, previousID, []byte(null))
	}
	return response
}

// responseAnswer is a response so far.
type responseAnswer struct {
	tally

	head   json.RawMessage // the last response object
	status string          // the final one; empty: the response continues
	// items are the output's items. A finished one is the provider's own object, and any other its
	// first object with the texts so far.
	items    node
	sequence int // of the next event
	provider string
}

// maxID is the longest provider's id that is stored.
const maxID = 512

func (a *responseAnswer) Add(c Chunk) {
	defer a.report(c.Usage)
	if c.Fault != nil || c.Blank {
		return
	}
	event := Parse(c.Raw)
	response := event
	if c.Type != "" {
		if response = object(event.Get("response")); !response.Exists() {
			a.text += a.event(c.Type, event)
			return
		}
	}
	id := response.Get("id").Str
	if id != "" && len(id) <= maxID && id != schemas.ResponseID(a.options.ID) {
		a.provider = strings.Clone(id)
	}
	a.head = json.RawMessage(strings.Clone(response.Raw))
	if a.status = endOf(c.Type, response); a.status == "" {
		return
	}
	output := array(response.Get("output"))
	if len(a.items.list) == 0 {
		for _, item := range output.All() {
			a.text += itemText(item)
		}
	}
	if !hollow(output) {
		a.items.list = nil
	}
}

// part is a text of an item: a member of the item itself, or of an element of its lists.
type part struct {
	list  string
	index int
	kind  string // the type of the element
	name  string // of the text's member; empty: it is the whole element
}

// parts are the parts by the types of the events of them.
var parts = map[string]part{ //nolint:gochecknoglobals // a constant
	"content_part":               {list: "content"},
	"reasoning_summary_part":     {list: "summary"},
	"output_text":                {list: "content", kind: "output_text", name: "text"},
	"reasoning_text":             {list: "content", kind: "reasoning_text", name: "text"},
	"refusal":                    {list: "content", kind: "refusal", name: "refusal"},
	"reasoning_summary_text":     {list: "summary", kind: "summary_text", name: "text"},
	"function_call_arguments":    {name: "arguments"},
	"mcp_call_arguments":         {name: "arguments"},
	"custom_tool_call_input":     {name: "input"},
	"code_interpreter_call_code": {name: "code"},
}

// lists are the members of items that are lists of parts.
func lists() []string { return []string{"content", "summary"} }

// texts are the members of items and parts that hold a model's text.
func texts() []string { return []string{"arguments", "code", "input", "refusal", "text"} }

// partOf splits an event's type into the type of its text or object, and what it
// says of that; p is the part, which has neither list nor name if the type is unknown.
func partOf(kind string, event gjson.Result) (p part, base, what string) {
	base = strings.TrimPrefix(kind, "response.")
	if at := strings.LastIndexByte(base, '.'); at >= 0 {
		base, what = base[:at], base[at+1:]
	}
	switch p = parts[base]; p.list {
	case "content":
		p.index = int(event.Get("content_index").Int())
	case "summary":
		p.index = int(event.Get("summary_index").Int())
	}
	return p, base, what
}

// itemText counts the bytes of text in a whole item.
func itemText(item gjson.Result) int64 {
	text := textOfMembers(item, texts()...)
	for _, list := range lists() {
		for _, part := range array(item.Get(list)).All() {
			text += textOfMembers(part, texts()...)
		}
	}
	return text
}

// event adds an event about an item, and returns how many bytes of text it adds.
func (a *responseAnswer) event(kind string, event gjson.Result) int64 {
	i := a.item(event)
	open := i != nil && i.kind == kindObject
	switch p, base, what := partOf(kind, event); {
	case what == "delta":
		delta := event.Get("delta")
		if delta.Type != gjson.String {
			return 0
		}
		if open {
			i.grown = i.grown || !hollow(delta)
			if p.name != "" {
				i.owner(p).member(p.name).text(inner(delta))
			}
		}
		return length(inner(delta))
	case what != "added" && what != "done":
	case base == "output_item":
		return a.beginItem(i, event, what == "done")
	case open && p.list != "" && p.name == "":
		if v := event.Get("part"); v.IsObject() {
			i.owner(p).begin(v)
		}
	}
	return 0
}

// item finds the item of an event, by its index or its id; nil: it is unknown.
func (a *responseAnswer) item(event gjson.Result) *node {
	n, id := itemOf(event)
	for at := range a.items.list {
		if i := &a.items.list[at]; n >= 0 && i.index == n || n < 0 && id != "" && i.id == id {
			return i
		}
	}
	return nil
}

// itemOf is the index of the item of an event, below 0: it has none, and the item's id.
func itemOf(event gjson.Result) (index int, id string) {
	return number(event.Get("output_index"), -1), cmp.Or(event.Get("item_id").Str, event.Get("item.id").Str)
}

// beginItem takes an event that begins or finishes an item; i is nil for a new one.
func (a *responseAnswer) beginItem(i *node, event gjson.Result, done bool) int64 {
	v := object(event.Get("item"))
	if !v.Exists() {
		return 0
	}
	if i == nil {
		next := 0
		if last := len(a.items.list); last > 0 {
			next = a.items.list[last-1].index + 1
		}
		i = a.items.element(number(event.Get("output_index"), next), maxChoices)
	}
	i.id = strings.Clone(v.Get("id").Str)
	if i.begin(v); !done {
		return 0
	}
	if i.kind = kindValue; i.grown {
		return 0
	}
	return itemText(v)
}

// owner is the object that a part of an item belongs to, made where there is none.
func (n *node) owner(p part) *node {
	if p.list == "" {
		return n
	}
	list := n.member(p.list)
	if list.kind != kindElements {
		begun := Parse(list.buf)
		list.become(kindElements)
		for place, e := range array(begun).All() {
			list.element(int(place.Num), maxCalls).begin(object(e))
		}
	}
	e := list.element(p.index, maxCalls)
	if e.kind != kindObject {
		first := appendMember([]byte{'{'}, "type", string(quote(p.kind)))
		if p.kind == "output_text" {
			first = appendMember(appendMember(first, p.name, emptyText), "annotations", emptyList)
		}
		e.begin(Parse(append(first, '}')))
	}
	return e
}

// Give replaces the ids, and numbers an event without a number.
func (a *responseAnswer) Give(c Chunk) (raw json.RawMessage, keep bool) {
	switch {
	case c.Blank:
		return c.Raw, false
	case c.Type == "":
		return namedResponse(c.Raw, a.options), true
	}
	raw = c.Raw
	event := Parse(raw)
	if v := event.Get("response"); v.IsObject() {
		raw = put(raw, "response", namedResponse(json.RawMessage(v.Raw), a.options))
	}
	if event.Get("response_id").Type == gjson.String && a.options.ID != "" {
		raw = put(raw, "response_id", quote(schemas.ResponseID(a.options.ID)))
	}
	if n := number(event.Get("sequence_number"), -1); n >= 0 {
		a.sequence = n
	} else {
		raw = put(raw, "sequence_number", strconv.AppendInt(nil, int64(a.sequence), 10))
	}
	a.sequence++
	return raw, true
}

// Reasons maps the final status to the finish reasons of chat completions. A completed response
// with calls for its caller ends with tool_calls.
func (a *responseAnswer) Reasons() []string {
	switch a.status {
	case "":
		return nil
	case statusCompleted:
		if a.calls() {
			return []string{"tool_calls"}
		}
		return []string{"stop"}
	case statusIncomplete:
		switch Parse(a.head).Get("incomplete_details.reason").Str {
		case "max_output_tokens", "max_tokens":
			return []string{"length"}
		case "content_filter":
			return []string{"content_filter"}
		}
	case statusFailed:
		return []string{"error"}
	}
	return []string{schemas.ChatReason("")}
}

// calls reports whether the output has a call that the caller, and not the provider, must perform.
func (a *responseAnswer) calls() bool {
	all := array(Parse(a.head).Get("output")).Array()
	for _, i := range a.items.list {
		all = append(all, Parse(i.buf))
	}
	return slices.ContainsFunc(all, func(item gjson.Result) bool {
		switch item.Get("type").Str {
		case "function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call":
			return true
		}
		return false
	})
}

func (a *responseAnswer) Size() int64 { return int64(len(a.head)) + a.items.size() }

func (a *responseAnswer) ProviderID() string { return a.provider }

// Document is the last response object. If it has no output, the items so far are its output: some
// providers send a last object without output. If the stream broke off, the response and its
// unfinished items are incomplete.
func (a *responseAnswer) Document() json.RawMessage {
	head := a.head
	if head == nil {
		if len(a.items.list) == 0 {
			return nil
		}
		head = json.RawMessage(`{"object":"response","status":"in_progress","output":[]}`)
	}
	doc, status := namedResponse(head, a.options), statusCompleted
	if a.status == "" {
		status = statusIncomplete
		doc = set(doc, "status", `"`+status+`"`)
	}
	if len(a.items.list) == 0 && Parse(doc).Get("output").Exists() {
		return doc
	}
	output := []byte{'['}
	for at := range a.items.list {
		i := &a.items.list[at]
		item := i.write(nil)
		if i.kind == kindObject && Parse(item).Get("status").Str == statusRunning {
			item = set(item, "status", `"`+status+`"`)
		}
		output = append(appendComma(output), item...)
	}
	return set(doc, "output", string(append(output, ']')))
}
