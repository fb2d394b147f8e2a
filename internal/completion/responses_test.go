package completion_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// The published stream of a text and a call.
const (
	responseBegan = `{"id":"resp_67c9","object":"response","created_at":1741290958,"status":"in_progress","error":null,"incomplete_details":null,"instructions":"You are a helpful assistant.","max_output_tokens":null,"model":"gpt-4.1-2025-04-14","output":[],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":true,"temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":null,"user":null,"metadata":{}}`
	messageItem   = `{"id":"msg_67c9","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi there! \u00e9","annotations":[]}]}`
	callItem      = `{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"city\":\"Paris\"}","call_id":"call_1","name":"get_weather"}`
	responseUsage = `{"input_tokens":37,"input_tokens_details":{"cached_tokens":5},"output_tokens":11,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":48}`
)

// ended is the response with what it ends with.
func ended(status, output, usage string) string {
	return strings.NewReplacer(`"status":"in_progress"`, `"status":"`+status+`"`, `"output":[]`, `"output":[`+output+`]`, `"usage":null`, `"usage":`+usage).Replace(responseBegan)
}

func responseStream() []string {
	events := []string{
		`{"type":"response.created","sequence_number":0,"response":` + responseBegan + `}`,
		`{"type":"response.in_progress","sequence_number":1,"response":` + responseBegan + `}`,
		`{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"msg_67c9","type":"message","status":"in_progress","role":"assistant","content":[]}}`,
		`{"type":"response.content_part.added","sequence_number":3,"item_id":"msg_67c9","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`,
		`{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_67c9","output_index":0,"content_index":0,"delta":"Hi","logprobs":[],"obfuscation":"x"}`,
		`{"type":"response.output_text.delta","sequence_number":5,"item_id":"msg_67c9","output_index":0,"content_index":0,"delta":" there! \u00e9","logprobs":[]}`,
		`{"type":"response.output_text.done","sequence_number":6,"item_id":"msg_67c9","output_index":0,"content_index":0,"text":"Hi there! \u00e9","logprobs":[]}`,
		`{"type":"response.content_part.done","sequence_number":7,"item_id":"msg_67c9","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Hi there! \u00e9","annotations":[]}}`,
		`{"type":"response.output_item.done","sequence_number":8,"output_index":0,"item":` + messageItem + `}`,
		`{"type":"response.output_item.added","sequence_number":9,"output_index":1,"item":{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_1","name":"get_weather"}}`,
		`{"type":"response.function_call_arguments.delta","sequence_number":10,"item_id":"fc_1","output_index":1,"delta":"{\"city\":"}`,
		`{"type":"response.function_call_arguments.delta","sequence_number":11,"item_id":"fc_1","output_index":1,"delta":"\"Paris\"}"}`,
		`{"type":"response.function_call_arguments.done","sequence_number":12,"item_id":"fc_1","output_index":1,"arguments":"{\"city\":\"Paris\"}","name":"get_weather"}`,
		`{"type":"response.output_item.done","sequence_number":13,"output_index":1,"item":` + callItem + `}`,
		`{"type":"response.completed","sequence_number":14,"response":` + ended("completed", messageItem+","+callItem, responseUsage) + `}`,
	}
	return events
}

// collect gives events to an answer, and what its reader receives.
func collect(t *testing.T, d schemas.Dialect, o completion.Options, events ...string) (a completion.Answer, given []string) {
	t.Helper()
	p := completion.For(d)
	a = p.Answer(o)
	for _, raw := range events {
		c, err := p.Read("", []byte(raw))
		require.NoError(t, err, raw)
		a.Add(c)
		if raw, keep := a.Give(c); keep {
			given = append(given, string(raw))
		}
	}
	return a, given
}

// own is a document or an event with Weir's ids.
func own(raw string) string { return strings.ReplaceAll(raw, `"id":"resp_67c9"`, `"id":"resp_act"`) }

func TestResponse(t *testing.T) {
	t.Parallel()
	events := responseStream()
	a, given := collect(t, schemas.DialectResponses, completion.Options{ID: "act"}, events...)
	require.Len(t, given, len(events))
	for i, raw := range given {
		assert.Equal(t, own(events[i]), raw, "every other byte stays")
	}
	assert.Equal(t, own(ended("completed", messageItem+","+callItem, responseUsage)), string(a.Document()))
	assert.Equal(t, []string{"tool_calls"}, a.Reasons())
	assert.Equal(t, "resp_67c9", a.ProviderID())
	want := &schemas.ChatUsage{Prompt: 37, Completion: 11, Total: 48, Cached: 5, Reasoning: 2}
	assert.Equal(t, want, a.Usage())
	assert.Equal(t, want, a.Spent())
	assert.Equal(t, completion.Tokens(int64(len(`Hi there! xxx`)+len(`{"city":"Paris"}`))), a.Output())
	assert.Equal(t, int64(len(ended("completed", messageItem+","+callItem, responseUsage))), a.Size())

	again, twice := collect(t, schemas.DialectResponses, completion.Options{ID: "act"}, given...)
	assert.Equal(t, given, twice)
	assert.Equal(t, string(a.Document()), string(again.Document()), "the log has the same answer")
	assert.Empty(t, again.ProviderID(), "the id in the log is not the provider's")
}

// TestResponseBroke: after each event the part so far is an incomplete response.
func TestResponseBroke(t *testing.T) {
	t.Parallel()
	const part = `{"type":"output_text","text":%s,"annotations":[]}`
	message := func(status, parts string) string {
		return `{"id":"msg_67c9","type":"message","status":"` + status + `","role":"assistant","content":[` + parts + `]}`
	}
	call := func(arguments string) string {
		return `{"id":"fc_1","type":"function_call","status":"incomplete","arguments":` + arguments + `,"call_id":"call_1","name":"get_weather"}`
	}
	whole := fmt.Sprintf(part, `"Hi there! \u00e9"`)
	want := []string{
		"", "",
		message("incomplete", ""),
		message("incomplete", fmt.Sprintf(part, `""`)),
		message("incomplete", fmt.Sprintf(part, `"Hi"`)),
		message("incomplete", whole),
		message("incomplete", whole),
		message("incomplete", whole),
		messageItem,
		messageItem + "," + call(`""`),
		messageItem + "," + call(`"{\"city\":"`),
		messageItem + "," + call(`"{\"city\":\"Paris\"}"`),
		messageItem + "," + call(`"{\"city\":\"Paris\"}"`),
		messageItem + "," + callItem,
	}
	events := responseStream()
	for n, output := range want {
		a, _ := collect(t, schemas.DialectResponses, completion.Options{ID: "act"}, events[:n+1]...)
		assert.Equal(t, own(ended("incomplete", output, "null")), string(a.Document()), events[n])
		assert.Nil(t, a.Reasons())
		assert.Nil(t, a.Spent())
	}
	a, _ := collect(t, schemas.DialectResponses, completion.Options{ID: "act"})
	assert.Nil(t, a.Document())
	a, _ = collect(t, schemas.DialectResponses, completion.Options{ID: "act"}, events[2:5]...)
	assert.Equal(t, `{"id":"resp_act","object":"response","status":"incomplete","output":[`+want[4]+`]}`, string(a.Document()))
}

// TestResponsesOfOtherProviders: events without members that the protocol has.
func TestResponsesOfOtherProviders(t *testing.T) {
	t.Parallel()
	type testCase struct {
		events []string
		want   string
	}
	const head = `{"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}`
	answer := func(status, output string) string {
		return `{"id":"resp_act","status":"` + status + `","output":[` + output + `]}`
	}
	table.Run(t, map[string]testCase{
		"the end has no output": {[]string{
			head, `{"type":"response.output_item.done","output_index":0,"item":{"id":"i","type":"message","content":[]}}`,
			`{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}`,
		}, answer("completed", `{"id":"i","type":"message","content":[]}`)},
		"no parts": {[]string{
			head, `{"type":"response.output_item.added","output_index":0,"item":{"id":"i","type":"message","status":"in_progress"}}`,
			`{"type":"response.output_text.delta","item_id":"i","content_index":1,"delta":"b"}`,
			`{"type":"response.refusal.delta","item_id":"i","content_index":0,"delta":"a"}`,
		}, answer("incomplete", `{"id":"i","type":"message","status":"incomplete","content":[{"type":"refusal","refusal":"a"},{"type":"output_text","text":"b","annotations":[]}]}`)},
		"no index": {[]string{
			head, `{"type":"response.output_item.added","item":{"id":"i","type":"custom_tool_call","input":"x"}}`,
			`{"type":"response.output_item.added","item":{"id":"j","type":"custom_tool_call","input":""}}`,
			`{"type":"response.custom_tool_call_input.delta","item_id":"i","delta":"y"}`,
		}, answer("incomplete", `{"id":"i","type":"custom_tool_call","input":"xy"},{"id":"j","type":"custom_tool_call","input":""}`)},
		"reasoning": {[]string{
			head, `{"type":"response.output_item.added","output_index":0,"item":{"id":"i","type":"reasoning","summary":[{"type":"summary_text","text":"a"}]}}`,
			`{"type":"response.reasoning_summary_text.delta","item_id":"i","output_index":0,"summary_index":0,"delta":"b"}`,
			`{"type":"response.reasoning_summary_part.added","item_id":"i","output_index":0,"summary_index":1,"part":{"type":"summary_text","text":""}}`,
			`{"type":"response.reasoning_summary_text.delta","item_id":"i","output_index":0,"summary_index":1,"delta":"c"}`,
			`{"type":"response.reasoning_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"d"}`,
		}, answer("incomplete", `{"id":"i","type":"reasoning","summary":[{"type":"summary_text","text":"ab"},{"type":"summary_text","text":"c"}],"content":[{"type":"reasoning_text","text":"d"}]}`)},
		"the last object counts": {[]string{
			head, `{"type":"response.queued","response":{"id":"r","status":"queued","output":[],"x":1.50}}`,
		}, `{"id":"resp_act","status":"incomplete","output":[],"x":1.50}`},
		"a text of no item is left out": {[]string{head, `{"type":"response.output_text.delta","output_index":3,"delta":"x"}`}, answer("incomplete", "")},
		"an item beyond the limit":      {[]string{head, `{"type":"response.output_item.added","output_index":1024,"item":{}}`, `{"type":"response.output_item.added","output_index":-1,"item":{}}`}, answer("incomplete", "")},
		"indexes that are none": {[]string{
			head, `{"type":"response.output_item.done","output_index":99999999999999999999,"item":{"id":"a"}}`, `{"type":"response.output_item.done","output_index":99999999999999999999,"item":{"id":"b"}}`,
		}, answer("incomplete", `{"id":"a"},{"id":"b"}`)},
		"no status, no output, no id": {[]string{`{"type":"response.created","response":{"x":1}}`}, `{"output":[],"status":"incomplete","id":"resp_act","x":1}`},
	}, func(t *testing.T, tt testCase) {
		a, _ := collect(t, schemas.DialectResponses, completion.Options{ID: "act"}, tt.events...)
		assert.JSONEq(t, tt.want, string(a.Document()))
		assert.NotZero(t, a.Size())
	})
}

func TestResponseIDs(t *testing.T) {
	t.Parallel()
	next := completion.Options{ID: "act", Previous: "before"}
	type testCase struct {
		options completion.Options
		in      []string
		want    []string
	}
	table.Run(t, map[string]testCase{
		"its own": {
			completion.Options{ID: "act"},
			[]string{`{"type":"response.created","response":{"x":"r","id":"r","a":{"id":"r"}},"sequence_number":3}`},
			[]string{`{"type":"response.created","response":{"x":"r","id":"resp_act","a":{"id":"r"}},"sequence_number":3}`},
		},
		"the one before": {
			next,
			[]string{`{"type":"response.created","response":{"previous_response_id":"p","id":"r"},"sequence_number":0}`},
			[]string{`{"type":"response.created","response":{"previous_response_id":"resp_before","id":"resp_act"},"sequence_number":0}`},
		},
		"the caller has named none": {
			completion.Options{ID: "act"},
			[]string{`{"id":"r","object":"response","previous_response_id":"p"}`, `{"id":"r","object":"response","previous_response_id":null}`},
			[]string{`{"id":"resp_act","object":"response","previous_response_id":null}`, `{"id":"resp_act","object":"response","previous_response_id":null}`},
		},
		"none": {
			next,
			[]string{`{"type":"response.created","response":{"id":7},"sequence_number":0}`, `{"type":"response.created","response":{},"sequence_number":1}`},
			[]string{`{"type":"response.created","response":{"id":"resp_act"},"sequence_number":0}`, `{"type":"response.created","response":{"id":"resp_act"},"sequence_number":1}`},
		},
		"beside it": {
			next,
			[]string{`{"response_id":"r","type":"response.x","sequence_number":0}`, `{"response_id":null,"type":"response.x","sequence_number":1}`},
			[]string{`{"response_id":"resp_act","type":"response.x","sequence_number":0}`, `{"response_id":null,"type":"response.x","sequence_number":1}`},
		},
		"numbers in order": {
			completion.Options{},
			[]string{`{"type":"a"}`, `{"type":"b","sequence_number":null}`, `{"type":"keepalive","sequence_number":7}`, `{"type":"c","sequence_number":7}`, `{"type":"d","x":1}`},
			[]string{`{"type":"a","sequence_number":0}`, `{"type":"b","sequence_number":1}`, `{"type":"c","sequence_number":7}`, `{"type":"d","x":1,"sequence_number":8}`},
		},
	}, func(t *testing.T, tt testCase) {
		_, given := collect(t, schemas.DialectResponses, tt.options, tt.in...)
		assert.Equal(t, tt.want, given)
	})
}

func TestResponseReasons(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"object":"response","status":"completed","output":[{"type":"message"}]}`:                                                "stop",
		`{"object":"response","status":"completed","output":[{"type":"custom_tool_call"}]}`:                                       "tool_calls",
		`{"object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`:             "length",
		`{"object":"response","status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}`:                "content_filter",
		`{"object":"response","status":"incomplete","incomplete_details":{"reason":"secret words"},"output":[]}`:                  "other",
		`{"object":"response","status":"secret words","output":[]}`:                                                               "other",
		`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}`:                         "length",
		`{"type":"response.completed","response":{"status":"completed","output":[{"type":"function_call","name":"f"}],"x":null}}`: "tool_calls",
	} {
		a, _ := collect(t, schemas.DialectResponses, completion.Options{ID: "act"}, in)
		assert.Equal(t, []string{want}, a.Reasons(), in)
	}
}

// TestReadEvents: an event has the type that it says or its name, and what is of another protocol is refused.
func TestReadEvents(t *testing.T) {
	t.Parallel()
	type testCase struct {
		name, in string
		want     completion.Chunk // but for Raw, which is in unless it is here
		refused  bool
	}
	for d, cases := range map[schemas.Dialect]map[string]testCase{schemas.DialectResponses: {
		"white space":              {in: `{ "type" : "response.x" }`, want: completion.Chunk{Raw: json.RawMessage(`{"type":"response.x"}`), Type: "response.x"}},
		"its name alone":           {name: "response.x", in: `{"a":1}`, want: completion.Chunk{Raw: json.RawMessage(`{"type":"response.x","a":1}`), Type: "response.x"}},
		"its type before its name": {name: "other", in: `{"type":"response.x"}`, want: completion.Chunk{Type: "response.x"}},
		"a ping":                   {name: "ping", in: `{}`, want: completion.Chunk{Raw: json.RawMessage(`{"type":"ping"}`), Type: "ping", Blank: true}},
		"a document":               {in: `{"id":"r","object":"response","output":[],"usage":` + responseUsage + `}`, want: completion.Chunk{Last: true, Usage: &schemas.ChatUsage{Prompt: 37, Completion: 11, Total: 48, Cached: 5, Reasoning: 2}}},
		"the end":                  {in: `{"type":"response.incomplete","response":{"usage":{"input_tokens":1,"output_tokens":2}}}`, want: completion.Chunk{Type: "response.incomplete", Last: true, Usage: &schemas.ChatUsage{Prompt: 1, Completion: 2, Total: 3}}},
		"failed": {
			in:   `{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow down"},"usage":null}}`,
			want: completion.Chunk{Type: "response.failed", Last: true, Fault: &completion.Fault{Status: 429, Message: "slow down", Code: "rate_limit_exceeded"}},
		},
		"failed without a reason": {
			in:   `{"object":"response","status":"failed","error":null}`,
			want: completion.Chunk{Last: true, Fault: &completion.Fault{Message: "the provider reports an error and gives no reason"}},
		},
		"an error": {
			in:   `{"type":"error","code":"server_error","message":"gone","param":null,"sequence_number":1}`,
			want: completion.Chunk{Type: "error", Fault: &completion.Fault{Status: 500, Message: "gone", Code: "server_error"}},
		},
		"an error of an older form": {
			name: "error", in: `{"error":{"type":"invalid_request_error","message":"bad"}}`,
			want: completion.Chunk{Raw: json.RawMessage(`{"type":"error","error":{"type":"invalid_request_error","message":"bad"}}`), Type: "error", Fault: &completion.Fault{Status: 400, Message: "bad", Type: "invalid_request_error"}},
		},
		"an error in the place of an answer": {
			in:   `{"error":{"code":"model_not_found","message":"no"}}`,
			want: completion.Chunk{Last: true, Fault: &completion.Fault{Status: 404, Message: "no", Code: "model_not_found"}},
		},
		"a chunk of chat":     {in: `{"object":"chat.completion.chunk","choices":[]}`, refused: true},
		"a message":           {in: `{"type":"message","content":[]}`, refused: true},
		"a start of Messages": {name: "message_start", in: `{"type":"message_start"}`, refused: true},
		"a list":              {in: `[]`, refused: true},
		"the end of chat":     {in: `[DONE]`, refused: true},
	}, schemas.DialectMessages: {
		"the end": {name: "message_stop", in: `{"type":"message_stop"}`, want: completion.Chunk{Type: "message_stop", Last: true}},
		"an error": {
			name: "error", in: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}`,
			want: completion.Chunk{Type: "error", Fault: &completion.Fault{Status: 503, Message: "Overloaded", Type: "overloaded_error"}},
		},
		"an error without a reason": {in: `{"type":"error"}`, want: completion.Chunk{Type: "error", Fault: &completion.Fault{Message: "the provider reports an error and gives no reason"}}},
		"an error of a proxy":       {in: `{"error":"no route"}`, want: completion.Chunk{Fault: &completion.Fault{Message: "no route"}}},
		"a response's event":        {in: `{"type":"response.created"}`, refused: true},
		"a completion":              {in: `{"object":"chat.completion","choices":[]}`, refused: true},
		"nothing":                   {name: "message", in: `{}`, refused: true},
	}} {
		table.Run(t, cases, func(t *testing.T, tt testCase) {
			data := []byte(tt.in)
			got, err := completion.For(d).Read(tt.name, data)
			clear(data) // nothing of it is kept
			if tt.refused {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			if tt.want.Raw == nil {
				tt.want.Raw = json.RawMessage(tt.in)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}
