package llm

import (
	"strings"

	"weir/schemas"
)

// Speech is an answer of a dialect as its provider streams it, in events, and as a document.
type Speech struct {
	Begin, Pieces, End []string
	Document           string
}

// Say is the answer with these texts. Dialects without streams have the document alone, as their end.
func Say(d schemas.Dialect, texts ...string) Speech {
	var s Speech
	piece := func(before, after string) {
		for _, text := range texts {
			s.Pieces = append(s.Pieces, before+encode(text)+after)
		}
	}
	all := encode(strings.Join(texts, ""))
	switch d {
	case schemas.DialectResponses:
		item := `{"type":"message","id":"m1","status":"completed","role":"assistant","content":[{"type":"output_text","text":` + all + `,"annotations":[]}]}`
		s.Document = `{"id":"resp_theirs","object":"response","status":"completed","model":"real","output":[` + item + `],"usage":{"input_tokens":7,"output_tokens":3,"total_tokens":10}}`
		s.Begin = []string{
			`{"type":"response.created","sequence_number":0,"response":{"id":"resp_theirs","object":"response","status":"in_progress","model":"real","output":[]}}`,
			`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"message","id":"m1","status":"in_progress","role":"assistant","content":[]}}`,
			`{"type":"response.content_part.added","sequence_number":2,"item_id":"m1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`,
		}
		const at = `"item_id":"m1","output_index":0,"content_index":0,`
		piece(`{"type":"response.output_text.delta",`+at+`"delta":`, `}`)
		s.End = []string{
			`{"type":"response.output_text.done",` + at + `"text":` + all + `}`,
			`{"type":"response.output_item.done","output_index":0,"item":` + item + `}`,
			`{"type":"response.completed","response":` + s.Document + `}`,
		}
	case schemas.DialectMessages:
		const head = `{"id":"msg_theirs","type":"message","role":"assistant","model":"real","content":[`
		s.Document = head + `{"type":"text","text":` + all + `}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":3}}`
		s.Begin = []string{
			`{"type":"message_start","message":` + head + `],"stop_reason":null,"usage":{"input_tokens":7,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		}
		piece(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`, `}}`)
		s.End = []string{
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":3}}`,
			`{"type":"message_stop"}`,
		}
	case schemas.DialectEmbeddings:
		s.Document = `{"object":"list","model":"real","data":[{"object":"embedding","index":0,"embedding":[0.5]}]}`
		s.End = []string{s.Document}
	case schemas.DialectCount:
		s.Document = `{"input_tokens":9}`
		s.End = []string{s.Document}
	default:
		const head = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"real","choices":[{"index":0,"delta":{`
		piece(head+`"content":`, `},"finish_reason":null}]}`)
		s.End = []string{head + `},"finish_reason":"stop"}]}`}
	}
	return s
}
