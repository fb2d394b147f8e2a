package completion

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// script builds the events of a stream from a whole answer.
type script struct {
	events []json.RawMessage
	prefix string // of the events' types, which are numbered then, as those of DialectResponses
}

// say appends an event with members, each a name and its value as they are written.
func (s *script) say(kind string, members ...string) {
	head := `{"type":` + string(quote(s.prefix+kind))
	if s.prefix != "" {
		head += `,"sequence_number":` + strconv.Itoa(len(s.events))
	}
	s.events = append(s.events, json.RawMessage(strings.Join(append([]string{head}, members...), ",")+"}"))
}

// with replaces the values of members that an object has. members are names and values in turn. A
// value that is no object stays.
func with(v gjson.Result, members ...string) string {
	doc := []byte(v.Raw)
	for pair := range slices.Chunk(members, 2) {
		if object(v).Get(pair[0]).Exists() {
			doc = put(doc, pair[0], []byte(pair[1]))
		}
	}
	return string(doc)
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
		return nil, errForeign
	}
	head := []byte(c.Raw)
	for _, name := range []string{"choices", "usage", "error"} {
		head = Without(head, name)
	}
	head = put(head, "object", []byte(`"chat.completion.chunk"`))
	head = append(appendName(head[:len(head)-1], "choices"), '[')
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
	first := appendMember(appendMember([]byte{'{'}, "index", index), "delta", deltaOf(said))
	for name, v := range whole.All() {
		switch name.Str {
		case "index", "message", "delta", "finish_reason":
		default:
			first = appendMember(first, name.Str, v.Raw)
		}
	}
	first = append(appendMember(first, "finish_reason", null), '}')
	end := whole.Get("finish_reason")
	if hollow(end) {
		return [][]byte{first}
	}
	second := appendMember(appendMember([]byte{'{'}, "index", index), "delta", "{}")
	return [][]byte{first, append(appendMember(second, "finish_reason", end.Raw), '}')}
}

// deltaOf is a message as a delta: its tool calls have an index.
func deltaOf(message gjson.Result) string {
	var calls []string
	for place, call := range array(message.Get("tool_calls")).All() {
		if call.IsObject() {
			call.Raw = string(set([]byte(call.Raw), "index", place.String()))
		}
		calls = append(calls, call.Raw)
	}
	if calls == nil {
		return cmp.Or(message.Raw, "{}")
	}
	return with(message, "tool_calls", "["+strings.Join(calls, ",")+"]")
}

// splitMessage builds the events of a message. Each text is one piece.
func splitMessage(document json.RawMessage, _ bool) ([]json.RawMessage, error) {
	message := Parse(document)
	if !message.IsObject() || message.Get("type").Str != kindMessage || !message.Get("content").IsArray() {
		return nil, errForeign
	}
	var s script
	start := with(message, "content", emptyList, "stop_reason", null, "stop_sequence", null)
	usage := object(message.Get("usage")).Raw
	if usage == "" { // clients update the usage of message_start, so it must exist
		usage = `{"input_tokens":0,"output_tokens":0}`
		start = string(put([]byte(start), "usage", []byte(usage)))
	}
	s.say(messageStart, `"message":`+start)
	for place, block := range message.Get("content").All() {
		s.block(`"index":`+place.String(), block)
	}
	end := `"delta":{"stop_reason":` + cmp.Or(message.Get("stop_reason").Raw, null)
	if v := message.Get("stop_sequence"); v.Exists() {
		end += `,"stop_sequence":` + v.Raw
	}
	s.say(messageDelta, end+"}", `"usage":`+usage)
	s.say(messageStop)
	return s.events, nil
}

// block appends the events of a block.
func (s *script) block(at string, v gjson.Result) {
	var begin, pieces []string
	piece := func(member, empty, kind, name, value string) {
		if !slices.Contains(begin, member) { // a block with many citations is not copied for each
			begin = append(begin, member, empty)
		}
		pieces = append(pieces, `"delta":{"type":"`+kind+`","`+name+`":`+value+`}`)
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
	s.say(blockStart, at, `"content_block":`+with(v, begin...))
	for _, delta := range pieces {
		s.say(blockDelta, at, delta)
	}
	s.say(blockStop, at)
}

// splitResponse builds the events of a response. Each text is one piece. The last event has the
// response.
func splitResponse(document json.RawMessage, _ bool) ([]json.RawMessage, error) {
	response := Parse(document)
	if !response.IsObject() || !response.Get("output").IsArray() && response.Get("object").Str != "response" {
		return nil, errForeign
	}
	s := script{prefix: "response."}
	begun := `"response":` + with(response, "output", emptyList, "status", `"`+statusRunning+`"`, "usage", null,
		"completed_at", null, "incomplete_details", null, "error", null)
	s.say("created", begun)
	s.say(statusRunning, begun)
	for place, item := range array(response.Get("output")).All() {
		s.item(`"output_index":`+place.String(), item)
	}
	status := endOf("", response)
	if status != statusIncomplete && status != statusFailed {
		status = statusCompleted
	}
	s.say(status, `"response":`+string(document))
	return s.events, nil
}

// item appends the events of an item.
func (s *script) item(at string, v gjson.Result) {
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
	s.say("output_item.added", at, `"item":`+with(v, begin...))
	switch of := `"item_id":` + id + "," + at; {
	case name != "":
		s.text(base, of, name, v)
	case spoken:
		s.parts("reasoning_summary_part", of+`,"summary_index":`, v.Get("summary"))
		s.parts("content_part", of+`,"content_index":`, v.Get("content"))
	}
	s.say("output_item.done", at, `"item":`+v.Raw)
}

// parts appends the events of the elements of a list. of ends with the name of their index.
func (s *script) parts(name, of string, list gjson.Result) {
	for place, v := range array(list).All() {
		at := of + place.String()
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
		s.say(name+".added", at, `"part":`+with(v, begin...))
		if spoken {
			s.text(base, at, member, v)
		}
		s.say(name+".done", at, `"part":`+v.Raw)
	}
}

// text appends the events of a text, which is a member of an item or of one of its parts.
func (s *script) text(base, at, member string, v gjson.Result) {
	value, more := v.Get(member).Raw, []string{at}
	if base == "output_text" {
		more = []string{at, `"` + likelihoods + `":` + cmp.Or(array(v.Get(likelihoods)).Raw, emptyList)}
	}
	s.say(base+".delta", append(more, `"delta":`+value)...)
	for n, note := range array(v.Get("annotations")).All() {
		s.say(base+".annotation.added", at, `"annotation_index":`+n.String(), `"annotation":`+note.Raw)
	}
	if name := v.Get("name"); base == "function_call_arguments" && name.Exists() {
		more = append(more, `"name":`+name.Raw)
	}
	s.say(base+".done", append(more, `"`+member+`":`+value)...)
}
