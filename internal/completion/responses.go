package completion

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// readResponse reads an event of DialectResponses, or a response object.
func readResponse(name string, data []byte) (Chunk, error) {
	e, c, err := open(name, data, schemas.DialectResponses)
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

// namedResponse is a response with Weir's ids: its own names its action, and previous_response_id names
// the action before.
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

const previousID = "previous_response_id"

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
			a.text += a.items.apply(c.Type, event)
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
	if n, err := strconv.ParseInt(event.Get("sequence_number").Raw, 10, 64); err == nil && n >= 0 {
		a.sequence = n
	} else {
		raw = put(raw, "sequence_number", strconv.AppendInt(nil, a.sequence, 10))
	}
	a.sequence++
	return raw, true
}

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
	doc := namedResponse(head, a.options)
	if a.status == "" {
		doc = set(doc, "status", `"`+statusIncomplete+`"`)
	}
	if len(a.items) > 0 || !Parse(doc).Get("output").Exists() {
		doc = set(doc, "output", string(a.items.write(nil, a.status != "")))
	}
	return doc
}
