package completion

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// responses is DialectResponses. Its callers receive Weir's ids: the id of a response names its
// action, and previous_response_id names the action before.
type responses struct{}

// Read reads an event, or a response object.
func (responses) Read(name string, data []byte) (Chunk, error) {
	e, ok := open(name, data)
	if !ok {
		return Chunk{}, errNoEvent
	}
	c, err := e.chunk(schemas.DialectResponses)
	if err != nil {
		return Chunk{}, err
	}
	response := object(e.response)
	if e.kind == "" {
		response = Parse(e.raw)
	}
	c.Usage = readUsage(object(response.Get("usage")))
	status := endOf(e.kind, response)
	if c.Last = status != ""; status == statusFailed && c.Fault == nil {
		c.Fault = failureOf(response)
	}
	return c, nil
}

// The states in which a response ends, besides the cancelled one.
const (
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusRunning    = "in_progress"
)

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

// failureOf is the error of a failed response.
func failureOf(response gjson.Result) *Fault {
	if e := response.Get("error"); says(e) {
		return faultOf([]byte(e.Raw))
	}
	return faultOf(nil)
}

func (responses) Named(document json.RawMessage, o Options) json.RawMessage {
	return edited(document, o.named(nil, Parse(document)))
}

// named adds the edits that replace the ids of a response object.
func (o Options) named(edits []edit, response gjson.Result) []edit {
	if !response.IsObject() || o.ID == "" {
		return edits
	}
	found := false
	id := string(quote(schemas.ResponseID(o.ID)))
	for name, v := range response.All() {
		switch {
		case name.Str == "id":
			found = true
			edits = append(edits, edit{extentOf(v), id})
		case name.Str != "previous_response_id":
		case o.Previous != "":
			edits = append(edits, edit{extentOf(v), string(quote(schemas.ResponseID(o.Previous)))})
		case v.Type != gjson.Null: // an id of the provider, which the caller has not named
			edits = append(edits, edit{extentOf(v), "null"})
		}
	}
	if !found {
		edits = append(edits, firstMember(response, "id", id))
	}
	return edits
}

func (responses) Merge(chunks []json.RawMessage) []json.RawMessage { return chunks }

func (responses) Texts() TextReader { return &lanes{find: responseTexts} }

func (responses) Answer(o Options) Answer { return &responseAnswer{options: o} }

// responseAnswer is a response so far.
type responseAnswer struct {
	tally

	options  Options
	head     json.RawMessage // the last response object
	status   string          // the final one; empty: the response continues
	items    items
	sequence int64 // of the next event
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
			a.text += a.items.take(c.Type, event)
			return
		}
	}
	id := text(response.Get("id"))
	if id != "" && len(id) <= maxID && id != schemas.ResponseID(a.options.ID) {
		a.provider = id
	}
	a.head = json.RawMessage(strings.Clone(response.Raw))
	if a.status = endOf(c.Type, response); a.status == "" {
		return
	}
	output := array(response.Get("output"))
	if len(a.items) == 0 {
		for _, item := range output.All() {
			a.text += itemText(item)
		}
	}
	if !hollow(output) {
		a.items = nil
	}
}

// Give replaces the ids, and numbers an event without a number.
func (a *responseAnswer) Give(c Chunk) (raw json.RawMessage, keep bool) {
	if c.Blank {
		return c.Raw, false
	}
	if c.Type == "" {
		return edited(c.Raw, a.options.named(nil, Parse(c.Raw))), true
	}
	var edits []edit
	numbered := false
	for name, v := range Parse(c.Raw).All() {
		switch {
		case name.Str == "response":
			edits = a.options.named(edits, v)
		case name.Str == "response_id" && v.Type == gjson.String && a.options.ID != "":
			edits = append(edits, edit{extentOf(v), string(quote(schemas.ResponseID(a.options.ID)))})
		case name.Str == "sequence_number":
			if n, err := strconv.ParseInt(v.Raw, 10, 64); err == nil && n >= 0 {
				numbered, a.sequence = true, n
				continue
			}
			numbered = true
			edits = append(edits, edit{extentOf(v), strconv.FormatInt(a.sequence, 10)})
		}
	}
	if !numbered {
		at := len(c.Raw) - 1
		edits = append(edits, edit{Extent{at, at}, `,"sequence_number":` + strconv.FormatInt(a.sequence, 10)})
	}
	a.sequence++
	return edited(c.Raw, edits), true
}

func (a *responseAnswer) Finished() bool { return a.status != "" }

// Reasons maps the final status to the finish reasons of chat completions. A completed response with
// calls for its caller ends with tool_calls.
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

// calls reports whether the output has a call that the caller must perform.
func (a *responseAnswer) calls() bool {
	for _, item := range array(Parse(a.head).Get("output")).All() {
		if performed(item.Get("type").Str) {
			return true
		}
	}
	for _, item := range a.items {
		if performed(Parse(item.raw).Get("type").Str) {
			return true
		}
	}
	return false
}

// performed reports whether the caller, and not the provider, performs calls of this type.
func performed(kind string) bool {
	switch kind {
	case "function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call":
		return true
	default:
		return false
	}
}

func (a *responseAnswer) Size() int64 { return int64(len(a.head)) + a.items.size() }

func (a *responseAnswer) ProviderID() string { return a.provider }

// Document is the last response object. If it has no output, the items so far are its output: some
// providers send a last object without output. If the stream broke off, the response is incomplete.
func (a *responseAnswer) Document() json.RawMessage {
	head := a.head
	if head == nil {
		if len(a.items) == 0 {
			return nil
		}
		head = json.RawMessage(`{"object":"response","status":"in_progress","output":[]}`)
	}
	response := Parse(head)
	edits := a.options.named(nil, response)
	ends, lists := a.status != "", false
	for name, v := range response.All() {
		switch {
		case name.Str == "status" && a.status == "":
			ends = true
			edits = append(edits, edit{extentOf(v), `"` + statusIncomplete + `"`})
		case name.Str != "output":
		case len(a.items) == 0:
			lists = true
		default:
			lists = true
			edits = append(edits, edit{extentOf(v), string(a.items.write(nil, a.status != ""))})
		}
	}
	doc := edited(head, edits)
	if !ends {
		doc = set(doc, "status", `"`+statusIncomplete+`"`)
	}
	if !lists {
		doc = set(doc, "output", string(a.items.write(nil, a.status != "")))
	}
	return doc
}
