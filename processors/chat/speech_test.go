package chat_test

import (
	"encoding/json"
	"strings"

	"weir/schemas"
)

// speech is how an upstream streams texts in a dialect.
type speech struct {
	begin []string
	piece func(said string) string
	end   func(texts []string) []string
}

func speechOf(d schemas.Dialect) speech {
	switch d {
	case schemas.DialectResponses:
		return speech{
			begin: []string{
				`{"type":"response.created","sequence_number":0,"response":{"id":"resp_theirs","object":"response","status":"in_progress","model":"real","output":[]}}`,
				`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"message","id":"m1","status":"in_progress","role":"assistant","content":[]}}`,
				`{"type":"response.content_part.added","sequence_number":2,"item_id":"m1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`,
			},
			piece: func(said string) string {
				return `{"type":"response.output_text.delta","item_id":"m1","output_index":0,"content_index":0,"delta":` + text(said) + `}`
			},
			end: func(texts []string) []string {
				item := `{"type":"message","id":"m1","status":"completed","role":"assistant","content":[{"type":"output_text","text":` + text(strings.Join(texts, "")) + `,"annotations":[]}]}`
				return []string{
					`{"type":"response.output_item.done","output_index":0,"item":` + item + `}`,
					`{"type":"response.completed","response":{"id":"resp_theirs","object":"response","status":"completed","model":"real","output":[` + item + `]}}`,
				}
			},
		}
	case schemas.DialectMessages:
		return speech{
			begin: []string{
				`{"type":"message_start","message":{"id":"msg_theirs","type":"message","role":"assistant","model":"real","content":[],"stop_reason":null}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			},
			piece: func(said string) string {
				return `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + text(said) + `}}`
			},
			end: func(texts []string) []string {
				stop := []string{`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null}}`, `{"type":"message_stop"}`}
				if len(texts) == 0 {
					return append([]string{`{"type":"message_start","message":{"id":"msg_theirs","type":"message","role":"assistant","model":"real","content":[],"stop_reason":null}}`}, stop...)
				}
				return append([]string{`{"type":"content_block_stop","index":0}`}, stop...)
			},
		}
	case schemas.DialectEmbeddings:
		return speech{end: func([]string) []string {
			return []string{`{"object":"list","model":"real","data":[{"object":"embedding","index":0,"embedding":[0.5]}]}`}
		}}
	case schemas.DialectCount:
		return speech{end: func([]string) []string { return []string{`{"input_tokens":9}`} }}
	default:
		return speech{piece: chunk, end: func([]string) []string { return []string{last} }}
	}
}

// in is an order in a dialect.
func in(d schemas.Dialect, o schemas.ChatOrder) schemas.ChatOrder {
	if d == schemas.DialectChat {
		return o
	}
	o.Dialect = d
	if d.Family() == schemas.DialectMessages {
		o.Headers = []schemas.Header{{Name: "anthropic-version", Value: "2023-06-01"}}
	}
	o.Body = json.RawMessage(strings.Replace(string(o.Body), `"messages"`, `"input"`, 1))
	return o
}

// streamed are the dialects that have streams.
func streamed() []schemas.Dialect {
	return []schemas.Dialect{schemas.DialectChat, schemas.DialectResponses, schemas.DialectMessages}
}
