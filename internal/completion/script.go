package completion

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
)

// script builds the events of a stream from a whole answer.
type script struct {
	events []json.RawMessage
	prefix string // of the events' types, which are numbered then, as those of DialectResponses
}

// say appends an event. Both lists of its members are names and values in turn.
func (s *script) say(kind string, at []string, more ...string) {
	event := appendMember([]byte{'{'}, "type", string(quote(s.prefix+kind)))
	if s.prefix != "" {
		event = appendMember(event, "sequence_number", strconv.Itoa(len(s.events)))
	}
	for pair := range slices.Chunk(slices.Concat(at, more), 2) {
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

// splitCompletion makes chunks of a completion: one for each choice, and another for its end.
func splitCompletion(document json.RawMessage, usage bool) ([]json.RawMessage, error) {
	c, err := readChunk("", document)
	whole := Parse(c.Raw)
	choices := whole.Get("choices")
	if err != nil || !choices.IsArray() || says(whole.Get("error")) {
		return nil, errNoCompletion
	}
	head := []byte{'{'}
	if id := whole.Get("id"); id.Exists() {
		head = appendMember(head, "id", id.Raw)
	}
	head = appendMember(head, "object", `"chat.completion.chunk"`)
	for name, v := range whole.All() {
		switch name.Str {
		case "id", "object", "choices", "usage", "error":
		default:
			head = appendMember(head, name.Str, v.Raw)
		}
	}
	head = append(appendName(head, "choices"), '[')
	var chunks []json.RawMessage
	for place, choice := range choices.All() {
		for _, part := range splitChoice(choice, strconv.Itoa(indexOf(choice, int(place.Num)))) {
			chunks = append(chunks, slices.Concat(head, part, []byte("]}")))
		}
	}
	if usage && c.rawUsage != "" {
		chunks = append(chunks, append(appendMember(append(head, ']'), "usage", c.rawUsage), '}'))
	} else if len(chunks) == 0 {
		chunks = append(chunks, append(head, "]}"...))
	}
	return chunks, nil
}

// splitChoice makes the choice of a chunk of a whole one, and another that ends it if it has ended.
// Some providers write delta in the place of message.
func splitChoice(whole gjson.Result, index string) [][]byte {
	said := object(whole.Get("message"))
	if !said.Exists() {
		said = object(whole.Get("delta"))
	}
	first := append(appendName(appendMember([]byte{'{'}, "index", index), "delta"), deltaOf(said)...)
	second := appendMember(appendMember([]byte{'{'}, "index", index), "delta", "{}")
	ended := false
	for name, v := range whole.All() {
		switch name.Str {
		case "index", "message", "delta":
		case "finish_reason", "native_finish_reason":
			ended = ended || !hollow(v)
			second = appendMember(second, name.Str, v.Raw)
		default:
			first = appendMember(first, name.Str, v.Raw)
		}
	}
	first = append(appendMember(first, "finish_reason", null), '}')
	if !ended {
		return [][]byte{first}
	}
	return [][]byte{first, append(second, '}')}
}

// deltaOf is a message as a delta: its tool calls have an index.
func deltaOf(message gjson.Result) string {
	list := []byte{'['}
	for place, call := range array(message.Get("tool_calls")).All() {
		raw := []byte(call.Raw)
		if call.IsObject() {
			raw = set(raw, "index", place.String())
		}
		list = append(appendComma(list), raw...)
	}
	switch {
	case !message.Exists():
		return "{}"
	case len(list) == 1:
		return message.Raw
	default:
		return with(message, "tool_calls", string(append(list, ']')))
	}
}

// splitMessage builds the events of a message. Each text is one piece.
func splitMessage(document json.RawMessage, _ bool) ([]json.RawMessage, error) {
	message := Parse(document)
	if !message.IsObject() || message.Get("type").Str != kindMessage || !message.Get("content").IsArray() {
		return nil, errNoDocument
	}
	var s script
	start := json.RawMessage(with(message, "content", emptyList, "stop_reason", null, "stop_sequence", null))
	usage := message.Get("usage")
	if !usage.IsObject() { // clients update the usage of message_start, so it must exist
		usage = gjson.Parse(`{"input_tokens":0,"output_tokens":0}`)
		start = put(start, "usage", []byte(usage.Raw))
	}
	s.say(messageStart, nil, "message", string(start))
	for place, block := range message.Get("content").All() {
		s.block([]string{"index", place.String()}, block)
	}
	end := appendMember([]byte{'{'}, "stop_reason", cmp.Or(message.Get("stop_reason").Raw, null))
	if v := message.Get("stop_sequence"); v.Exists() {
		end = appendMember(end, "stop_sequence", v.Raw)
	}
	s.say(messageDelta, nil, "delta", string(append(end, '}')), "usage", usage.Raw)
	s.say(messageStop, nil)
	return s.events, nil
}

// block appends the events of a block.
func (s *script) block(at []string, v gjson.Result) {
	var begin, pieces []string
	piece := func(member, empty, kind, name, value string) {
		if !slices.Contains(begin, member) {
			begin = append(begin, member, empty)
		}
		pieces = append(pieces, `{"type":"`+kind+`","`+name+`":`+value+`}`)
	}
	for name, m := range object(v).All() {
		is, text := name.Str, m.Type == gjson.String && !hollow(m)
		switch is {
		case "text", "thinking":
			if text {
				piece(is, emptyText, is+"_delta", is, m.Raw)
			}
		case "signature":
			if text && v.Get("type").Str == "thinking" {
				piece(is, emptyText, "signature_delta", is, m.Raw)
			}
		case "citations":
			for _, citation := range array(m).All() {
				piece(is, emptyList, "citations_delta", "citation", citation.Raw)
			}
		case "input":
			if m.IsObject() && !hollow(m) {
				piece(is, "{}", "input_json_delta", "partial_json", string(quote(m.Raw)))
			}
		}
	}
	s.say(blockStart, at, "content_block", with(v, begin...))
	for _, delta := range pieces {
		s.say(blockDelta, at, "delta", delta)
	}
	s.say(blockStop, at)
}

// splitResponse builds the events of a response. Each text is one piece. The last event has the
// response.
func splitResponse(document json.RawMessage, _ bool) ([]json.RawMessage, error) {
	response := Parse(document)
	if !response.IsObject() || !response.Get("output").IsArray() && response.Get("object").Str != "response" {
		return nil, errNoDocument
	}
	s := script{prefix: "response."}
	begun := with(response, "status", `"`+statusRunning+`"`, "output", emptyList, "usage", null,
		"completed_at", null, "incomplete_details", null, "error", null)
	s.say("created", nil, "response", begun)
	s.say(statusRunning, nil, "response", begun)
	for place, item := range array(response.Get("output")).All() {
		s.item([]string{"output_index", place.String()}, item)
	}
	status := endOf("", response)
	if status != statusIncomplete && status != statusFailed {
		status = statusCompleted
	}
	s.say(status, nil, "response", string(document))
	return s.events, nil
}

// item appends the events of an item.
func (s *script) item(at []string, v gjson.Result) {
	kind, base, name := v.Get("type").Str, "", ""
	begin := []string{"status", `"` + statusRunning + `"`}
	for _, member := range texts() { // of the item itself
		if base = kind + "_" + member; parts[base] == (part{name: member}) && v.Get(member).Type == gjson.String {
			name = member
			begin = append(begin, name, emptyText)
			break
		}
	}
	spoken := kind == "message" || kind == "reasoning"
	for _, list := range lists() {
		if spoken && v.Get(list).IsArray() {
			begin = append(begin, list, emptyList)
		}
	}
	id := emptyText
	if own := v.Get("id"); own.Type == gjson.String {
		id = own.Raw
	}
	s.say("output_item.added", at, "item", with(v, begin...))
	switch of := slices.Concat([]string{"item_id", id}, at); {
	case name != "":
		s.text(base, of, name, v)
	case spoken:
		s.parts("reasoning_summary_part", append(of, "summary_index"), v.Get("summary"))
		s.parts("content_part", append(of, "content_index"), v.Get("content"))
	}
	s.say("output_item.done", at, "item", v.Raw)
}

// parts appends the events of the elements of a list. of ends with the name of their index.
func (s *script) parts(name string, of []string, list gjson.Result) {
	for place, v := range array(list).All() {
		at := slices.Concat(of, []string{place.String()})
		base, member := v.Get("type").Str, "text"
		switch base {
		case "refusal":
			member = base
		case "summary_text":
			base = "reasoning_summary_text"
		}
		begin, spoken := []string{"annotations", emptyList, likelihoods, emptyList}, v.Get(member).Type == gjson.String
		if spoken {
			begin = append(begin, member, emptyText)
		}
		s.say(name+".added", at, "part", with(v, begin...))
		if spoken {
			s.text(base, at, member, v)
		}
		s.say(name+".done", at, "part", v.Raw)
	}
}

// text appends the events of a text, which is a member of an item or of one of its parts.
func (s *script) text(base string, at []string, member string, v gjson.Result) {
	var more []string
	if base == "output_text" {
		more = []string{likelihoods, cmp.Or(array(v.Get(likelihoods)).Raw, emptyList)}
	}
	value := v.Get(member).Raw
	s.say(base+".delta", at, append([]string{"delta", value}, more...)...)
	for n, note := range array(v.Get("annotations")).All() {
		s.say(base+".annotation.added", at, "annotation_index", n.String(), "annotation", note.Raw)
	}
	if name := v.Get("name"); base == "function_call_arguments" && name.Exists() {
		more = []string{"name", name.Raw}
	}
	s.say(base+".done", at, append([]string{member, value}, more...)...)
}
