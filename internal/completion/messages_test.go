package completion_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// messageStream is the published stream of thinking, a text with a citation, and a call of a tool.
func messageStream() []string {
	return []string{
		`{"type":"message_start","message":{"id":"msg_014p","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":20,"output_tokens":1,"service_tier":"standard"}}}`,
		`{"type":"ping"}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"see\n"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB=="}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Okay, \ud83d"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"\ude00!"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"type":"char_location","cited_text":"a","start_char_index":0}}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"location\": \"San"}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":" Francisco\", \"n\": 1.50}"}}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89},"context_management":{"applied_edits":[]}}`,
		`{"type":"message_stop"}`,
	}
}

const messageWhole = `{"id":"msg_014p","type":"message","role":"assistant","model":"claude-x","content":[` +
	`{"type":"thinking","thinking":"Let me see\n","signature":"EqQB=="},` +
	`{"type":"text","text":"Okay, \ud83d\ude00!","citations":[{"type":"char_location","cited_text":"a","start_char_index":0}]},` +
	`{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"location":"San Francisco","n":1.50}}` +
	`],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":20,"output_tokens":89,"service_tier":"standard"},"context_management":{"applied_edits":[]}}`

// sameBytes compares documents with the order of their members and the spelling of their values.
func sameBytes(t *testing.T, want string, got []byte, why ...any) {
	t.Helper()
	assert.Equal(t, want, string(got), why...)
}

func TestMessage(t *testing.T) {
	t.Parallel()
	events := messageStream()
	a, given := collect(t, schemas.DialectMessages, completion.Options{ID: "act"}, events...)
	assert.Equal(t, append([]string{events[0]}, events[2:]...), given, "all but the ping")
	sameBytes(t, messageWhole, a.Document())
	assert.Equal(t, []string{"tool_calls"}, a.Reasons())
	assert.Empty(t, a.ProviderID())
	want := &schemas.ChatUsage{Prompt: 35, Completion: 89, Total: 124, Cached: 20, CacheWrites: 5}
	assert.Equal(t, want, a.Usage())
	assert.Equal(t, want, a.Spent())
	assert.Positive(t, a.Size())

	again, _ := collect(t, schemas.DialectMessages, completion.Options{ID: "act"}, given...)
	sameBytes(t, messageWhole, again.Document(), "the log has the same answer")
	whole, given := collect(t, schemas.DialectMessages, completion.Options{ID: "act"}, messageWhole)
	sameBytes(t, messageWhole, whole.Document())
	assert.Equal(t, []string{messageWhole}, given)
	assert.Equal(t, a.Output(), whole.Output())
	assert.Equal(t, want, whole.Usage())
	assert.Equal(t, []string{"tool_calls"}, whole.Reasons())
}

func TestMessageBroke(t *testing.T) {
	t.Parallel()
	events := messageStream()
	message := func(blocks string) string {
		return `{"id":"msg_014p","type":"message","role":"assistant","model":"claude-x","content":[` + blocks + `],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":20,"output_tokens":1,"service_tier":"standard"}}`
	}
	type testCase struct {
		n      int
		blocks string
		output int64
	}
	const thought, said = `{"type":"thinking","thinking":"Let me see\n","signature":"EqQB=="}`, `{"type":"text","text":"Okay, \ud83d\ude00!","citations":[{"type":"char_location","cited_text":"a","start_char_index":0}]}`
	table.Run(t, map[string]testCase{
		"the beginning":    {2, "", 0},
		"half a thought":   {4, `{"type":"thinking","thinking":"Let me ","signature":""}`, 2},
		"half a character": {9, thought + `,{"type":"text","text":"Okay, \ud83d"}`, 5},
		"no input":         {14, thought + "," + said + `,{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{}}`, 6},
		"half an input":    {15, thought + "," + said + `,{"type":"tool_use","id":"toolu_1","name":"get_weather","input":"{\"location\": \"San"}`, 11},
		"without its end":  {17, strings.TrimSuffix(strings.SplitN(messageWhole, `"content":[`, 2)[1], `],"stop_reason"`+strings.SplitN(messageWhole, `],"stop_reason"`, 2)[1]), 16},
		"the first event":  {1, "", 0},
	}, func(t *testing.T, tt testCase) {
		a, _ := collect(t, schemas.DialectMessages, completion.Options{ID: "act"}, events[:tt.n]...)
		assert.Equal(t, message(tt.blocks), string(a.Document()))
		assert.Nil(t, a.Reasons())
		assert.Equal(t, tt.output, a.Output())
		spent := a.Spent()
		assert.Equal(t, int64(35), spent.Prompt)
		assert.Equal(t, 1+tt.output, spent.Completion, "what came after the usage is estimated")
		assert.Equal(t, tt.output > 0, spent.Estimated)
	})
	a, _ := collect(t, schemas.DialectMessages, completion.Options{ID: "act"})
	assert.Nil(t, a.Document())
	assert.Nil(t, a.Spent())
	a, _ = collect(t, schemas.DialectMessages, completion.Options{ID: "act"}, events[7:9]...)
	sameBytes(t, `{"id":"msg_act","type":"message","role":"assistant","content":[{"type":"text","text":"Okay, \ud83d"}],"stop_reason":null,"stop_sequence":null}`, a.Document())
}

// TestMessagesOfOtherProviders: blocks and members that differ from the published ones.
func TestMessagesOfOtherProviders(t *testing.T) {
	t.Parallel()
	const head = `{"type":"message_start","message":{"id":"m","type":"message","content":[]}}`
	block := func(index, v string) string {
		return `{"type":"content_block_start","index":` + index + `,"content_block":` + v + `}`
	}
	delta := func(index, v string) string {
		return `{"type":"content_block_delta","index":` + index + `,"delta":` + v + `}`
	}
	type testCase struct {
		events []string
		want   string // the content, and what follows it
	}
	table.Run(t, map[string]testCase{
		"a text that begins with one": {[]string{block("0", `{"type":"text","text":"a","citations":[{"x":1}]}`), delta("0", `{"type":"text_delta","text":"b"}`), delta("0", `{"type":"citations_delta","citation":{"x":2}}`)}, `[{"type":"text","text":"ab","citations":[{"x":1},{"x":2}]}]`},
		"citations that are null":     {[]string{block("0", `{"citations":null,"type":"text","text":""}`), delta("0", `{"type":"citations_delta","citation":{"x":2}}`)}, `[{"citations":[{"x":2}],"type":"text","text":""}]`},
		"a whole input":               {[]string{block("0", `{"type":"tool_use","input":{"a":1}}`)}, `[{"type":"tool_use","input":{"a":1}}]`},
		"an input that is no object":  {[]string{block("0", `{"type":"tool_use","input":{}}`), delta("0", `{"type":"input_json_delta","partial_json":"[1]"}`)}, `[{"type":"tool_use","input":"[1]"}]`},
		"an input with half a pair":   {[]string{block("0", `{"type":"tool_use"}`), delta("0", `{"type":"input_json_delta","partial_json":"{\"a\":\"\ud83d\"}"}`)}, `[{"type":"tool_use","input":"{\"a\":\"\ud83d\"}"}]`},
		"an input with a name twice":  {[]string{block("0", `{"type":"tool_use"}`), delta("0", `{"type":"input_json_delta","partial_json":"{\"a\":1,\"a\":2}"}`)}, `[{"type":"tool_use","input":{"a":2}}]`},
		"a kind to come":              {[]string{block("0", `{"type":"compaction","content":null}`), delta("0", `{"type":"compaction_delta","content":"a","n":1}`), delta("0", `{"type":"compaction_delta","content":"b"}`)}, `[{"type":"compaction","content":"ab"}]`},
		"a result as it is":           {[]string{block("0", `{"type":"web_search_tool_result","content":[{"url":"u"}]}`)}, `[{"type":"web_search_tool_result","content":[{"url":"u"}]}]`},
		"by the index":                {[]string{block("1", `{"n":1}`), block("0", `{"n":0}`), block("-1", `{"n":2}`), block("1024", `{"n":3}`)}, `[{"n":0},{"n":1}]`},
		"a piece without a beginning": {[]string{delta("0", `{"type":"text_delta","text":"b"}`)}, `[{"text":"b"}]`},
		"ends":                        {[]string{`{"type":"message_delta","delta":{"stop_reason":"end_turn","container":{"id":"c"}}}`, `{"type":"message_delta","delta":{"stop_reason":null}}`}, `[],"stop_reason":"end_turn","container":{"id":"c"}`},
		"a usage at the end alone":    {[]string{`{"type":"message_delta","delta":{},"usage":{"input_tokens":1,"output_tokens":2}}`}, `[],"usage":{"input_tokens":1,"output_tokens":2}`},
		"awkward names":               {[]string{`{"type":"message_delta","delta":{"a.b":1,"*":2,"":3}}`, block("0", `{"type":"x","a.b":"1","a":{"b":"2"}}`), delta("0", `{"type":"x_delta","a.b":"3"}`)}, `[{"type":"x","a.b":"13","a":{"b":"2"}}],"a.b":1,"*":2,"":3`},
	}, func(t *testing.T, tt testCase) {
		a, given := collect(t, schemas.DialectMessages, completion.Options{ID: "act"}, append([]string{head}, tt.events...)...)
		assert.Equal(t, `{"id":"m","type":"message","content":`+tt.want+`}`, string(a.Document()))
		assert.Equal(t, tt.events, given[1:])
	})
	a, given := collect(t, schemas.DialectMessages, completion.Options{ID: "act"}, `{"type":"message_start","message":{"type":"message","id":""}}`, `{"type":"message_start","message":{"type":"message"}}`)
	sameBytes(t, `{"id":"msg_act","type":"message","content":[]}`, a.Document())
	assert.Equal(t, []string{`{"type":"message_start","message":{"type":"message","id":"msg_act"}}`, `{"type":"message_start","message":{"id":"msg_act","type":"message"}}`}, given)
}

func TestMessageReasons(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		`"end_turn"`: {"stop"}, `"stop_sequence"`: {"stop"}, `"max_tokens"`: {"length"}, `"tool_use"`: {"tool_calls"}, `"refusal"`: {"content_filter"},
		`"model_context_window_exceeded"`: {"length"}, `"pause_turn"`: {"other"}, `"secret words"`: {"other"}, `null`: nil,
	} {
		a, _ := collect(t, schemas.DialectMessages, completion.Options{}, `{"type":"message_delta","delta":{"stop_reason":`+in+`}}`)
		assert.Equal(t, want, a.Reasons(), in)
	}
}

// TestMessageUsage: what an event counts is of all so far.
func TestMessageUsage(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]*schemas.ChatUsage{
		`{"input_tokens":1,"output_tokens":2}`: {Prompt: 1, Completion: 2, Total: 3},
		`{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4,"cache_creation":{"ephemeral_5m_input_tokens":4}}`: {Prompt: 8, Completion: 2, Total: 10, Cached: 3, CacheWrites: 4},
		`{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":null,"output_tokens_details":{"thinking_tokens":1}}`:                                 {Prompt: 1, Completion: 2, Total: 3, Reasoning: 1},
		`{"output_tokens":2}`:                                                       nil,
		`{"input_tokens":2}`:                                                        nil,
		`{"input_tokens":0,"output_tokens":0}`:                                      nil,
		`{"input_tokens":-1,"output_tokens":2}`:                                     nil,
		`{"input_tokens":"1","output_tokens":2}`:                                    nil,
		`{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":"x"}`:        nil,
		`{"input_tokens":1073741824,"output_tokens":2,"cache_read_input_tokens":1}`: nil,
	} {
		c, err := completion.For(schemas.DialectMessages).Read("", []byte(`{"type":"message","content":[],"usage":`+in+`}`))
		require.NoError(t, err)
		assert.Equal(t, want, c.Usage, in)
	}
	a, _ := collect(t, schemas.DialectMessages, completion.Options{},
		`{"type":"message_start","message":{"usage":{"input_tokens":0,"cache_read_input_tokens":7,"output_tokens":0}}}`,
		`{"type":"message_delta","usage":{"input_tokens":3,"output_tokens":9,"cache_read_input_tokens":null}}`,
		`{"type":"message_delta","usage":{"output_tokens":4}}`)
	assert.Equal(t, &schemas.ChatUsage{Prompt: 10, Completion: 9, Total: 19, Cached: 7}, a.Usage(), "usage never decreases")
}
