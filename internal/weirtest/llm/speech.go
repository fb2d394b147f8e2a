package llm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"weir/internal/weirtest/doubles"
	"weir/schemas"
)

// Speech is an answer of a dialect as its provider streams it, in events, and as a document.
type Speech struct {
	Begin, Pieces, End []string
	Document           string
}

// Say is the answer with these texts. Dialects without streams have the document alone, as their end.
func Say(d schemas.Dialect, texts ...string) Speech { return speech(d, "", texts, nil) }

// speech is the answer with texts, or with calls of tools in their place. It continues a response, if one is named.
func speech(d schemas.Dialect, previous string, texts []string, tools []Tool) (s Speech) {
	switch d {
	case schemas.DialectResponses:
		s = responses(previous, texts, tools)
	case schemas.DialectMessages:
		s = messages(texts, tools)
	case schemas.DialectEmbeddings:
		s.Document = `{"object":"list","model":"real","data":[{"object":"embedding","index":0,"embedding":[0.5]}]}`
		s.End = []string{s.Document}
	case schemas.DialectCount:
		s.Document = `{"input_tokens":9}`
		s.End = []string{s.Document}
	default:
		const head = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"real","choices":[{"index":0,"delta":{`
		for _, text := range texts {
			s.Pieces = append(s.Pieces, head+`"content":`+doubles.Encode(text)+`},"finish_reason":null}]}`)
		}
		s.End = []string{head + `},"finish_reason":"stop"}]}`}
	}
	return s
}

func responses(previous string, texts []string, tools []Tool) (s Speech) {
	sequence := 0
	event := func(list *[]string, kind, members string) {
		*list = append(*list, fmt.Sprintf(`{"type":"response.%s","sequence_number":%d,%s}`, kind, sequence, members))
		sequence++
	}
	response := func(status, output, usage string) string {
		before := "null"
		if previous != "" {
			before = doubles.Encode(previous)
		}
		return `{"id":"resp_theirs","object":"response","created_at":1764000000,"status":"` + status + `","error":null,"incomplete_details":null,"instructions":null,` +
			`"metadata":{},"model":"real","output":[` + output + `],"parallel_tool_calls":true,"previous_response_id":` + before +
			`,"temperature":1,"tool_choice":"auto","tools":[],"top_p":1,"usage":` + usage + `}`
	}
	var items []string
	event(&s.Begin, "created", `"response":`+response("in_progress", "", "null"))
	if tools == nil {
		const at = `"item_id":"m1","output_index":0,"content_index":0,`
		all := doubles.Encode(strings.Join(texts, ""))
		item := func(status, content string) string {
			return `{"type":"message","id":"m1","status":"` + status + `","role":"assistant","content":[` + content + `]}`
		}
		part := func(text string) string { return `{"type":"output_text","text":` + text + `,"annotations":[]}` }
		event(&s.Begin, "output_item.added", `"output_index":0,"item":`+item("in_progress", ""))
		event(&s.Begin, "content_part.added", at+`"part":`+part(`""`))
		for _, text := range texts {
			event(&s.Pieces, "output_text.delta", at+`"delta":`+doubles.Encode(text))
		}
		items = []string{item("completed", part(all))}
		event(&s.End, "output_text.done", at+`"text":`+all)
		event(&s.End, "content_part.done", at+`"part":`+part(all))
		event(&s.End, "output_item.done", `"output_index":0,"item":`+items[0])
	}
	for i, tool := range tools {
		item := func(status, arguments string) string {
			return fmt.Sprintf(`{"type":"function_call","id":"fc_%s","call_id":%q,"name":%q,"status":%q,"arguments":%s}`, tool.ID, tool.ID, tool.Name, status, doubles.Encode(arguments))
		}
		at, all := fmt.Sprintf(`"output_index":%d,`, i), strings.Join(tool.Arguments, "")
		event(&s.Pieces, "output_item.added", at+`"item":`+item("in_progress", ""))
		for _, piece := range tool.Arguments {
			event(&s.Pieces, "function_call_arguments.delta", at+`"item_id":"fc_`+tool.ID+`","delta":`+doubles.Encode(piece))
		}
		event(&s.Pieces, "function_call_arguments.done", at+`"item_id":"fc_`+tool.ID+`","name":"`+tool.Name+`","arguments":`+doubles.Encode(all))
		items = append(items, item("completed", all))
		event(&s.Pieces, "output_item.done", at+`"item":`+items[i])
	}
	s.Document = response("completed", strings.Join(items, ","), `{"input_tokens":7,"output_tokens":3,"total_tokens":10}`)
	event(&s.End, "completed", `"response":`+s.Document)
	return s
}

func messages(texts []string, tools []Tool) (s Speech) {
	const head = `{"id":"msg_theirs","type":"message","role":"assistant","model":"real","content":[`
	const used = `{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":`
	s.Begin = []string{`{"type":"message_start","message":` + head + `],"stop_reason":null,"stop_sequence":null,"usage":` + used + `1}}}`}
	delta := func(i int, kind, member, piece string) {
		s.Pieces = append(s.Pieces, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":%q,%q:%s}}`, i, kind, member, doubles.Encode(piece)))
	}
	reason, blocks := "end_turn", []string(nil)
	if tools == nil {
		s.Begin = append(s.Begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
		for _, text := range texts {
			delta(0, "text_delta", "text", text)
		}
		blocks = []string{`{"type":"text","text":` + doubles.Encode(strings.Join(texts, "")) + `}`}
		s.End = []string{`{"type":"content_block_stop","index":0}`}
	}
	for i, tool := range tools {
		block := func(input string) string {
			return fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, tool.ID, tool.Name, input)
		}
		s.Pieces = append(s.Pieces, fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, block("{}")))
		for _, piece := range tool.Arguments {
			delta(i, "input_json_delta", "partial_json", piece)
		}
		s.Pieces = append(s.Pieces, fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
		reason, blocks = "tool_use", append(blocks, block(strings.Join(tool.Arguments, "")))
	}
	end := `"stop_reason":"` + reason + `","stop_sequence":null`
	s.Document = head + strings.Join(blocks, ",") + `],` + end + `,"usage":` + used + `3}}`
	s.End = append(s.End, `{"type":"message_delta","delta":{`+end+`},"usage":{"output_tokens":3}}`, `{"type":"message_stop"}`)
	return s
}

// speak answers in another dialect than that of chat; false: not all of it. A stream of Messages has a ping.
func (x *Exchange) speak() bool {
	texts := x.act.Texts
	if texts == nil {
		texts = []string{"Hello", ", ", "world"}
	}
	s := speech(x.Dialect, gjson.GetBytes(x.Body, "previous_response_id").Str, texts, x.act.Tools)
	if !x.Asked.Stream {
		document := s.Document
		if gjson.GetBytes(x.Body, "encoding_format").Str == "base64" {
			document = strings.Replace(document, "[0.5]", `"AAAAPw=="`, 1)
		}
		if !x.Wait(x.act.Hold) {
			return false
		}
		x.Begin(200, "application/json")
		return x.Write(document)
	}
	x.Stream()
	event := func(data string) bool {
		return x.Event("event: " + gjson.Get(data, "type").Str + "\ndata: " + data + "\n\n")
	}
	if x.Dialect == schemas.DialectMessages {
		s.Begin = slices.Insert(s.Begin, 1, `{"type":"ping"}`)
	}
	for i, data := range slices.Concat(s.Begin, s.Pieces, s.End) {
		at := i - len(s.Begin)
		if at >= 0 && at < len(s.Pieces) && !x.Wait(x.act.Step) || at == len(s.Pieces) && !x.Wait(x.act.Hold) || !event(data) {
			return false
		}
	}
	return true
}
