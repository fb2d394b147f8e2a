package completion

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
)

// script builds the events of a stream from a whole answer.
type script struct {
	events   []json.RawMessage
	numbered bool // as those of DialectResponses
}

// say appends an event. members are names and values in turn.
func (s *script) say(kind string, members ...string) {
	event := appendMember([]byte{'{'}, "type", string(quote(kind)))
	if s.numbered {
		event = appendMember(event, "sequence_number", strconv.Itoa(len(s.events)))
	}
	for pair := range slices.Chunk(members, 2) {
		event = appendMember(event, pair[0], pair[1])
	}
	s.events = append(s.events, append(event, '}'))
}

// with replaces the values of members that an object has. members are names and values in turn. A
// value that is no object stays.
func with(v gjson.Result, members ...string) string {
	if !v.IsObject() {
		return v.Raw
	}
	out := []byte{'{'}
	for name, m := range v.All() {
		value := m.Raw
		for pair := range slices.Chunk(members, 2) {
			if pair[0] == name.Str {
				value = pair[1]
			}
		}
		out = appendMember(out, name.Str, value)
	}
	return string(append(out, '}'))
}

const (
	emptyText = `""`
	emptyList = "[]"
	null      = "null"
)

// splitMessage builds the events of a message. Each text is one piece.
func splitMessage(document json.RawMessage, _ bool) ([]json.RawMessage, error) {
	message := Parse(document)
	if !message.IsObject() || message.Get("type").Str != kindMessage || !message.Get("content").IsArray() {
		return nil, errNoDocument
	}
	var s script
	// Clients update the usage of message_start, so it must exist.
	usage := message.Get("usage")
	start := json.RawMessage(with(message, "content", emptyList, "stop_reason", null, "stop_sequence", null))
	if !usage.IsObject() {
		usage = gjson.Parse(`{"input_tokens":0,"output_tokens":0}`)
		start = put(start, "usage", []byte(usage.Raw))
	}
	s.say(messageStart, "message", string(start))
	for place, block := range message.Get("content").All() {
		s.block(place.String(), block)
	}
	end := []byte{'{'}
	for _, name := range []string{"stop_reason", "stop_sequence"} {
		if v := message.Get(name); v.Exists() {
			end = appendMember(end, name, v.Raw)
		} else if name == "stop_reason" {
			end = appendMember(end, name, null)
		}
	}
	s.say(messageDelta, "delta", string(append(end, '}')), "usage", usage.Raw)
	s.say(messageStop)
	return s.events, nil
}

// block appends the events of a block.
func (s *script) block(index string, v gjson.Result) {
	begin := []string{}
	type piece struct{ kind, name, value string }
	var pieces []piece
	kind := v.Get("type").Str
	for name, m := range object(v).All() {
		switch text := m.Type == gjson.String && !hollow(m); {
		case name.Str == "text" && text:
			begin = append(begin, "text", emptyText)
			pieces = append(pieces, piece{"text_delta", "text", m.Raw})
		case name.Str == "thinking" && text:
			begin = append(begin, "thinking", emptyText)
			pieces = append(pieces, piece{"thinking_delta", "thinking", m.Raw})
		case name.Str == "signature" && text && kind == "thinking":
			begin = append(begin, "signature", emptyText)
			pieces = append(pieces, piece{"signature_delta", "signature", m.Raw})
		case name.Str == "citations" && m.IsArray():
			begin = append(begin, "citations", emptyList)
			for _, citation := range m.All() {
				pieces = append(pieces, piece{"citations_delta", "citation", citation.Raw})
			}
		case name.Str == "input" && m.IsObject() && !hollow(m):
			begin = append(begin, "input", "{}")
			pieces = append(pieces, piece{"input_json_delta", "partial_json", string(quote(m.Raw))})
		}
	}
	s.say(blockStart, "index", index, "content_block", with(v, begin...))
	for _, p := range pieces {
		s.say(blockDelta, "index", index, "delta", `{"type":"`+p.kind+`","`+p.name+`":`+p.value+`}`)
	}
	s.say(blockStop, "index", index)
}

// splitResponse builds the events of a response. Each text is one piece. The last event has the response.
func splitResponse(document json.RawMessage, _ bool) ([]json.RawMessage, error) {
	response := Parse(document)
	if !response.IsObject() || !response.Get("output").IsArray() && response.Get("object").Str != "response" {
		return nil, errNoDocument
	}
	s := script{numbered: true}
	begun := with(response, "status", `"`+statusRunning+`"`, "output", emptyList, "usage", null,
		"completed_at", null, "incomplete_details", null, "error", null)
	s.say("response.created", "response", begun)
	s.say("response.in_progress", "response", begun)
	for place, item := range array(response.Get("output")).All() {
		s.item(place.String(), item)
	}
	switch status := endOf("", response); status {
	case statusIncomplete, statusFailed:
		s.say("response."+status, "response", string(document))
	default:
		s.say("response.completed", "response", string(document))
	}
	return s.events, nil
}

// item appends the events of an item.
func (s *script) item(index string, v gjson.Result) {
	begin := []string{"status", `"` + statusRunning + `"`}
	kind := v.Get("type").Str
	for _, list := range []string{"content", "summary"} {
		if v.Get(list).IsArray() && (kind == "message" || kind == "reasoning") {
			begin = append(begin, list, emptyList)
		}
	}
	base, member := "", part{}
	switch kind {
	case "function_call", "mcp_call":
		base = kind + "_arguments"
	case "custom_tool_call":
		base = kind + "_input"
	case "code_interpreter_call":
		base = kind + "_code"
	}
	value := gjson.Result{}
	if base != "" {
		member = partOf(base, v)
		if value = v.Get(member.name); value.Type != gjson.String {
			base = ""
		} else {
			begin = append(begin, member.name, emptyText)
		}
	}
	s.say("response.output_item.added", "output_index", index, "item", with(v, begin...))
	at := []string{"item_id", emptyText, "output_index", index}
	if id := v.Get("id"); id.Type == gjson.String {
		at[1] = id.Raw
	}
	switch {
	case base != "":
		s.say("response."+base+".delta", append(at, "delta", value.Raw)...)
		done := append(slices.Clone(at), member.name, value.Raw)
		if name := v.Get("name"); kind == "function_call" && name.Exists() {
			done = append(done, "name", name.Raw)
		}
		s.say("response."+base+".done", done...)
	case kind == "message" || kind == "reasoning":
		s.parts("reasoning_summary_part", at, "summary_index", v.Get("summary"))
		s.parts("content_part", at, "content_index", v.Get("content"))
	}
	s.say("response.output_item.done", "output_index", index, "item", v.Raw)
}

// parts appends the events of the elements of a list.
func (s *script) parts(name string, at []string, index string, list gjson.Result) {
	for place, v := range array(list).All() {
		at := append(slices.Clone(at), index, place.String())
		say := func(kind string, more ...string) { s.say("response."+kind, append(slices.Clone(at), more...)...) }
		base, member, notes := v.Get("type").Str, "text", v.Get("annotations")
		switch base {
		case "refusal":
			member = base
		case "summary_text":
			base = "reasoning_summary_text"
		}
		value := v.Get(member)
		begin := []string{"annotations", emptyList, "logprobs", emptyList}
		if value.Type == gjson.String {
			begin = append(begin, member, emptyText)
		}
		say(name+".added", "part", with(v, begin...))
		if value.Type == gjson.String {
			tokens := []string(nil)
			if base == "output_text" {
				tokens = []string{likelihoods, emptyList}
				if v := v.Get(likelihoods); v.IsArray() {
					tokens[1] = v.Raw
				}
			}
			say(base+".delta", append([]string{"delta", value.Raw}, tokens...)...)
			for n, note := range array(notes).All() {
				say(base+".annotation.added", "annotation_index", n.String(), "annotation", note.Raw)
			}
			say(base+".done", append([]string{member, value.Raw}, tokens...)...)
		}
		say(name+".done", "part", v.Raw)
	}
}
