package completion_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/schemas"
)

// wholeAnswers are documents of both dialects that stream, with every kind of item and block.
func wholeAnswers() map[schemas.Dialect][]string {
	response := func(output string) string {
		return `{"id":"resp_act","object":"response","created_at":1,"status":"completed","completed_at":2,"error":null,"incomplete_details":null,"model":"m","output":[` + output + `],"usage":` + responseUsage + `,"x":1.50}`
	}
	return map[schemas.Dialect][]string{
		schemas.DialectResponses: {
			response(""),
			response(messageItem + "," + callItem),
			response(`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"content":[{"type":"reasoning_text","text":"c"}],"encrypted_content":"x"}`),
			response(`{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"x"},{"type":"function_call","arguments":""}`),
			response(`{"id":"m","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[{"type":"url_citation","url":"u"}],"logprobs":[{"token":"a","bytes":[97],"logprob":-0.5,"top_logprobs":[]}]},{"type":"refusal","refusal":"no"}]}`),
			response(`{"id":"c","type":"custom_tool_call","status":"completed","call_id":"x","name":"f","input":"*** Begin\n"},{"id":"d","type":"mcp_call","name":"g","arguments":"{}","output":"x"},{"id":"e","type":"code_interpreter_call","code":"1","container_id":"x","outputs":[]},{"id":"g","type":"code_interpreter_call","code":null}`),
			response(`{"id":"w","type":"web_search_call","status":"completed","action":{"type":"search","query":"q"}},{"id":"i","type":"image_generation_call","result":"AAAA"}`),
			`{"output":[],"id":"resp_act"}`,
			strings.Replace(response(messageItem), `"status":"completed","completed_at":2,"error":null,"incomplete_details":null`, `"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}`, 1),
		},
		schemas.DialectMessages: {
			messageWhole,
			`{"id":"m","type":"message","role":"assistant","content":[],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`,
			`{"id":"m","type":"message","content":[{"type":"text","text":"","citations":null},{"text":"a","type":"text","citations":[]}],"stop_reason":"stop_sequence","stop_sequence":"X","usage":{"input_tokens":1,"output_tokens":1},"container":{"id":"c"}}`,
			`{"usage":{"output_tokens":1,"input_tokens":2},"content":[{"type":"redacted_thinking","data":"x"},{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q \"x\" \ud83d"}},{"type":"web_search_tool_result","content":[{"type":"web_search_result","url":"u"}]},{"type":"tool_use","input":{}},{"type":"tool_use","input":"{\"a"}],"stop_reason":null,"type":"message","id":"m"}`,
		},
	}
}

// TestSplitOfOtherDialects: a reader of the events has the same answer, after each of them a valid
// one, and reads each text of it in deltas.
func TestSplitOfOtherDialects(t *testing.T) {
	t.Parallel()
	for d, documents := range wholeAnswers() {
		p, o := completion.For(d), completion.Options{ID: "act"}
		for _, doc := range documents {
			require.True(t, json.Valid([]byte(doc)), doc)
			events, err := p.Split(json.RawMessage(doc), false)
			require.NoError(t, err)
			a, given := collect(t, d, o, texts(events)...)
			assert.Equal(t, doc, string(a.Document()))
			assert.Equal(t, texts(events), given, "a stream of Weir's own needs no change")
			assert.True(t, len(a.Reasons()) > 0 || strings.Contains(doc, `"stop_reason":null`))
			whole, _ := collect(t, d, o, doc)
			assert.Equal(t, doc, string(whole.Document()))
			assert.Equal(t, whole.Output(), a.Output(), doc)
			assert.Equal(t, whole.Usage(), a.Usage())
			assert.Equal(t, whole.Reasons(), a.Reasons())
			for n := range events {
				part, _ := collect(t, d, o, texts(events[:n])...)
				require.True(t, n == 0 || json.Valid(part.Document()), "%s", part.Document())
			}
			last, _ := collect(t, d, o, texts(events[:len(events)-1])...)
			for _, list := range []string{"output", "content"} {
				assert.Equal(t, completion.Parse([]byte(doc)).Get(list).Raw, completion.Parse(last.Document()).Get(list).Raw, "the end brings no new text")
			}
		}
		for _, doc := range []string{`{}`, `[]`, `{"choices":[]}`, `{"type":"message"}`, `{"object":"list","data":[]}`} {
			_, err := p.Split(json.RawMessage(doc), true)
			require.Error(t, err, doc)
		}
	}
	events, err := completion.For(schemas.DialectMessages).Split(json.RawMessage(`{"type":"message","content":[]}`), false)
	require.NoError(t, err)
	sameBytes(t, `{"type":"message_start","message":{"type":"message","content":[],"usage":{"input_tokens":0,"output_tokens":0}}}`, events[0], "clients add up what they read")
}

// A block is copied once to begin, however many citations it has.
func TestSplitOfManyCitations(t *testing.T) { //nolint:paralleltest // other tests' memory would be counted
	const citations, length = 256, 256 << 10
	doc := `{"type":"message","content":[{"type":"text","citations":[{}` + strings.Repeat(",{}", citations-1) + `],"text":"` + strings.Repeat("a", length) + `"}]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	events, err := completion.For(schemas.DialectMessages).Split(json.RawMessage(doc), false)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Len(t, events, citations+6)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(citations*length/2))
}

// TestSplitOfAResponse has the events that clients of Responses need.
func TestSplitOfAResponse(t *testing.T) {
	t.Parallel()
	doc := own(ended("completed", messageItem+","+callItem, responseUsage))
	events, err := completion.For(schemas.DialectResponses).Split(json.RawMessage(doc), false)
	require.NoError(t, err)
	published := responseStream()
	want := []string{}
	for i, raw := range published {
		if i == 5 || i == 11 { // there is one delta for two
			continue
		}
		want = append(want, raw)
	}
	require.Len(t, events, len(want))
	for i, raw := range events {
		var got, as map[string]any
		require.NoError(t, json.Unmarshal(raw, &got))
		require.NoError(t, json.Unmarshal([]byte(own(want[i])), &as))
		for _, m := range []map[string]any{got, as} {
			delete(m, "sequence_number")
			delete(m, "obfuscation")
			if _, ok := m["delta"]; ok {
				m["delta"] = "text"
			}
		}
		assert.Equal(t, as, got)
		assert.Contains(t, string(raw), `"sequence_number":`)
	}
}
