package completion_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

var chat = completion.For(schemas.DialectChat)

// assemble reads chunks and puts them together.
func assemble(t *testing.T, chunks ...string) completion.Answer {
	t.Helper()
	a := chat.Answer(completion.Options{})
	add(t, a, chunks...)
	return a
}

func add(t *testing.T, a completion.Answer, chunks ...string) {
	t.Helper()
	for _, raw := range chunks {
		c, err := chat.Read("", []byte(raw))
		require.NoError(t, err, raw)
		a.Add(c)
	}
}

// choice is a chunk of the first choice.
func choice(delta, finish string) string {
	return `{"id":"c-1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
}

const head = `{"id":"c-1","object":"chat.completion","created":7,"model":"m","choices":[`

func TestAssemble(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		chunks []string
		want   string
	}{
		{"text", []string{
			choice(`{"role":"assistant","content":"","refusal":null}`, "null"), choice(`{"content":"He"}`, "null"), choice(`{"content":"llo"}`, "null"), choice(`{}`, `"stop"`),
			`{"id":"c-1","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"cost":0.10}}`,
		}, head + `{"index":0,"message":{"role":"assistant","content":"Hello","refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"cost":0.10}}`},
		{"no role, no end", []string{choice(`{"content":"a"}`, "null")}, head + `{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":null}]}`},
		{"halves of a pair and escapes", []string{choice(`{"content":"\ud83d"}`, "null"), choice(`{"content":"\ude00\n\"é"}`, "null")}, head + `{"index":0,"message":{"role":"assistant","content":"\ud83d\ude00\n\"é"},"finish_reason":null}]}`},
		{"refusal", []string{choice(`{"refusal":"I "}`, "null"), choice(`{"refusal":"won't"}`, `"stop"`)}, head + `{"index":0,"message":{"role":"assistant","content":null,"refusal":"I won't"},"finish_reason":"stop"}]}`},
		{"reasoning", []string{
			choice(`{"role":"assistant","content":null,"reasoning_content":"let "}`, "null"), choice(`{"content":null,"reasoning_content":"me"}`, "null"), choice(`{"content":"ok","reasoning_content":null}`, `"stop"`),
		}, head + `{"index":0,"message":{"role":"assistant","content":"ok","reasoning_content":"let me"},"finish_reason":"stop"}]}`},
		{"reasoning in details", []string{
			choice(`{"content":"","reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","index":0}]}`, "null"), choice(`{"content":"","reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","index":0}]}`, "null"),
		}, head + `{"index":0,"message":{"role":"assistant","content":"","reasoning":"ab","reasoning_details":[{"type":"reasoning.text","text":"a","index":0},{"type":"reasoning.text","text":"b","index":0}]},"finish_reason":null}]}`},
		{"tool calls", []string{
			choice(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"t0","type":"function","function":{"name":"f","arguments":""}}]}`, "null"),
			choice(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}`, "null"),
			choice(`{"tool_calls":[{"index":1,"id":"t1","type":"function","function":{"name":"g","arguments":"{}"}},{"index":0,"function":{"arguments":"1}"}}]}`, "null"),
			choice(`{}`, `"tool_calls"`),
		}, head + `{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"t1","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`},
		{"tool calls with one index", []string{
			choice(`{"tool_calls":[{"index":0,"id":"t0","function":{"name":"f","arguments":"{}"}}]}`, "null"), choice(`{"tool_calls":[{"index":0,"id":"t1","function":{"name":"f","arguments":"[]"}}]}`, "null"),
		}, head + `{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t0","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"t1","type":"function","function":{"name":"f","arguments":"[]"}}]},"finish_reason":null}]}`},
		{"tool calls without an index", []string{
			choice(`{"tool_calls":[{"id":"t0","function":{"name":"f","arguments":"{"}},{"id":"t1","function":{"name":"g","arguments":{"x":"y"}}}]}`, "null"), choice(`{"tool_calls":[{"id":"t0","function":{"arguments":"}"}}]}`, "null"), choice(`{"tool_calls":[{"function":{"arguments":"!"}}]}`, "null"),
		}, head + `{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t0","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"t1","type":"function","function":{"name":"g","arguments":"{\"x\":\"y\"}!"}}]},"finish_reason":null}]}`},
		{"a name that is repeated, a type, a signature", []string{
			choice(`{"tool_calls":[{"index":0,"id":"t0","type":"function","function":{"name":"f"},"extra_content":{"s":1}}]}`, "null"), choice(`{"tool_calls":[{"index":0,"id":"","type":null,"function":{"name":"f","arguments":"{}"}}]}`, "null"),
		}, head + `{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t0","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"s":1}}]},"finish_reason":null}]}`},
		{"function call", []string{
			choice(`{"function_call":{"name":"f","arguments":""}}`, "null"), choice(`{"function_call":{"arguments":"{}"}}`, `"function_call"`),
		}, head + `{"index":0,"message":{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"function_call"}]}`},
		{"parts, then text", []string{
			choice(`{"content":[{"type":"thinking","thinking":"hm"}]}`, "null"), choice(`{"content":"a"}`, "null"), choice(`{"content":"b"}`, "null"), choice(`{"content":[]}`, "null"),
		}, head + `{"index":0,"message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"ab"}]},"finish_reason":null}]}`},
		{"text, then parts", []string{
			choice(`{"content":"a"}`, "null"), choice(`{"content":[{"type":"text","text":"b"}]}`, "null"),
		}, head + `{"index":0,"message":{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},"finish_reason":null}]}`},
		{"parts give way to a value, and begin anew", []string{
			choice(`{"images":[1]}`, "null"), choice(`{"images":"a"}`, "null"), choice(`{"images":7}`, "null"), choice(`{"images":[]}`, "null"), choice(`{"images":"b"}`, "null"), choice(`{"images":"c"}`, "null"),
		}, head + `{"index":0,"message":{"role":"assistant","content":null,"images":[{"type":"text","text":"bc"}]},"finish_reason":null}]}`},
		{"unknown members", []string{
			choice(`{"x_text":"a","x_object":{"n":1.0},"x_list":[1],"audio":{"id":"u"}}`, "null"), choice(`{"x_text":"b","x_object":{"n":2.0},"x_list":[2],"audio":{"data":"AA"}}`, "null"),
		}, head + `{"index":0,"message":{"role":"assistant","content":null,"x_text":"ab","x_object":{"n":2.0},"x_list":[2],"audio":{"data":"AA"}},"finish_reason":null}]}`},
		{"log probabilities, native reason", []string{
			`{"id":"c-1","created":7,"model":"m","choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"}],"refusal":null},"finish_reason":null,"native_finish_reason":null}]}`,
			`{"id":"c-1","created":8,"model":"other","choices":[{"index":0,"delta":{"content":"b"},"logprobs":{"content":[{"token":"b"}],"refusal":null},"finish_reason":"stop","native_finish_reason":"completed"}]}`,
		}, head + `{"index":0,"message":{"role":"assistant","content":"ab"},"finish_reason":"stop","logprobs":{"content":[{"token":"a"},{"token":"b"}],"refusal":null},"native_finish_reason":"completed"}]}`},
		{"choices in any order", []string{
			`{"id":"c-1","created":7,"model":"m","choices":[{"index":1,"delta":{"content":"b"}}]}`, choice(`{"content":"a"}`, `"length"`), `{"choices":[{"index":1,"delta":{"content":"B"},"finish_reason":"stop"}]}`, `{"choices":[{"index":-1,"delta":{"content":"B"}},{"index":1024,"delta":{"content":"B"}}]}`,
		}, head + `{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"length"},{"index":1,"message":{"role":"assistant","content":"bB"},"finish_reason":"stop"}]}`},
		{"what comes late", []string{
			`{"id":"","model":null,"choices":[{"delta":{"content":"a"}}]}`, `{"id":"c-1","created":7,"model":"m","choices":[],"obfuscation":"xyz"}`, `{"id":"c-2","system_fingerprint":"fp","choices":[]}`,
		}, `{"id":"c-1","object":"chat.completion","created":7,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":null}]}`},
		{"a fault is no answer", []string{choice(`{"content":"a"}`, "null"), `{"choices":[{"delta":{"content":"no"},"finish_reason":"error"}],"error":{"message":"x"}}`}, head + `{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":null}]}`},
	} {
		document := assemble(t, c.chunks...).Document()
		require.Equal(t, c.want, string(document), c.name)
		require.True(t, json.Valid(document), c.name)
		apart, err := chat.Split(document, true)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, string(assemble(t, texts(apart)...).Document()), "%s: apart and together again", c.name)
	}
}

func texts(chunks []json.RawMessage) []string {
	all := make([]string, 0, len(chunks))
	for _, c := range chunks {
		all = append(all, string(c))
	}
	return all
}

func TestAssemblerTells(t *testing.T) {
	t.Parallel()
	a := chat.Answer(completion.Options{})
	require.Nil(t, a.Document())
	require.False(t, a.Finished())
	require.Nil(t, a.Usage())
	require.Empty(t, a.Reasons())
	require.Zero(t, a.Output())

	add(t, a, `{"id":"a","choices":[]}`)
	add(t, a, `{"choices":[{"index":0,"delta":{"content":""}}]}`)
	require.Nil(t, a.Document())
	add(t, a, `{"error":{"message":"x"}}`)
	require.Nil(t, a.Document())
	add(t, a, `{"choices":[{"index":0,"delta":{"role":"assistant"}}]}`)
	require.NotNil(t, a.Document())
	add(t, a, `{"choices":[{"index":0,"delta":{"content":"12345"}},{"index":1,"delta":{"reasoning":"1234","reasoning_content":"1234"}}]}`)
	require.EqualValues(t, 3, a.Output())
	add(t, a, `{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"123"}}]},"finish_reason":"length"}]}`)
	require.EqualValues(t, 3, a.Output())
	require.False(t, a.Finished())
	add(t, a, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"},{"index":2,"delta":{},"finish_reason":"length"},{"index":3,"finish_reason":"see <b>"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	require.True(t, a.Finished())
	require.Equal(t, []string{"stop", "length", "other"}, a.Reasons())
	add(t, a, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":9}}`)
	require.EqualValues(t, 9, a.Usage().Completion)
	add(t, a, `{"choices":[],"usage":null}`)
	require.EqualValues(t, 9, a.Usage().Completion)
}

// TestUsageToldAgain counts where it is not smaller, as running totals are not.
func TestUsageToldAgain(t *testing.T) {
	t.Parallel()
	const small, large = `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1}}`, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":9}}`
	const cached = `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":2}}}`
	const hidden = `{"choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":900}}`
	const failed = `{"error":{"message":"x"},"usage":{"prompt_tokens":5,"completion_tokens":10}}`
	type testCase struct {
		chunks                   []string
		completion, cached, late int64
	}
	table.Run(t, map[string]testCase{
		"it rises":         {[]string{small, large}, 9, 0, 0},
		"it falls":         {[]string{large, small}, 9, 0, 0},
		"it falls between": {[]string{small, large, small, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":8}}`}, 9, 0, 0},
		"it says more":     {[]string{large, cached}, 9, 2, 0},
		"not whole":        {[]string{small, hidden}, 1, 0, 0},
		"with an error":    {[]string{large, failed}, 10, 0, 0},
		"text behind it":   {[]string{large, says(0, "12345678")}, 9, 0, 2},
		"text with it":     {[]string{`{"choices":[{"index":0,"delta":{"content":"12345678"}}],"usage":{"prompt_tokens":5,"completion_tokens":9}}`}, 9, 0, 0},
		"text before less": {[]string{large, says(0, "12345678"), small}, 9, 0, 2},
	}, func(t *testing.T, tt testCase) {
		a := chat.Answer(completion.Options{})
		require.Nil(t, a.Spent())
		add(t, a, tt.chunks...)
		u := schemas.ChatUsage{Prompt: 5, Completion: tt.completion, Total: 5 + tt.completion, Cached: tt.cached}
		require.Equal(t, &u, a.Usage())
		u.Completion, u.Total, u.Estimated = u.Completion+tt.late, u.Total+tt.late, tt.late > 0
		require.Equal(t, &u, a.Spent())
	})
}

// says is a chunk with a text of a choice.
func says(index int, text string) string {
	return fmt.Sprintf(`{"choices":[{"index":%d,"delta":{"content":%q}}]}`, index, text)
}

// TestOutputCountsAll text that comes, that of what is left out of the document too.
func TestOutputCountsAll(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 400)
	many := strings.Repeat(`"m%d":1,`, 64)
	var names []any
	for i := range 64 {
		names = append(names, i)
	}
	calls := []string{}
	for i := range 256 {
		calls = append(calls, fmt.Sprintf(`{"index":%d}`, i))
	}
	type testCase struct {
		chunks []string
		kept   bool
	}
	table.Run(t, map[string]testCase{
		"in its place":     {[]string{says(0, text)}, true},
		"negative":         {[]string{says(-1, text)}, false},
		"the first beyond": {[]string{says(1024, text)}, false},
		"absurd":           {[]string{says(1<<40, text)}, false},
		"a member of many": {[]string{`{"choices":[{"index":0,"delta":{` + fmt.Sprintf(many, names...) + `"content":"` + text + `"}}]}`}, false},
		"a call of many": {[]string{
			`{"choices":[{"index":0,"delta":{"tool_calls":[` + strings.Join(calls, ",") + `]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":256,"function":{"arguments":"` + text + `"}}]}}]}`,
		}, false},
	}, func(t *testing.T, tt testCase) {
		a := chat.Answer(completion.Options{})
		add(t, a, tt.chunks...)
		require.EqualValues(t, 100, a.Output())
		require.Equal(t, tt.kept, strings.Contains(string(a.Document()), text))
	})
}

func TestAssemblerIsBounded(t *testing.T) {
	t.Parallel()
	a := chat.Answer(completion.Options{})
	for i := range 1000 {
		n := strings.Repeat("x", i%100) + string(rune('a'+i%26))
		add(t, a, `{"`+n+`":1,"choices":[{"index":0,"`+n+`":1,"delta":{"`+n+`":"a","tool_calls":[{"id":"`+n+`","`+n+`":1}]}}]}`)
	}
	require.Less(t, len(a.Document()), 1<<20)
	require.InEpsilon(t, len(a.Document()), a.Size(), 0.5, "which leaves out the punctuation")
}

// TestLargeObjects: an object of very many members stays whole, grows, and counts once.
func TestLargeObjects(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for n := range 100_000 {
		fmt.Fprintf(&many, `,"%d":0`, n)
	}
	block, item, whole := `{"type":"text","text":""`+many.String()+`}`, `{"id":"i","arguments":""`+many.String()+`}`, `{"x":0`+many.String()+`}`
	for d, events := range map[schemas.Dialect][]string{
		schemas.DialectChat: {choice(`{"content":"a","x":`+whole+`}`, "null"), choice(`{"content":"a"}`, "null")},
		schemas.DialectMessages: {
			`{"type":"message_start","message":` + block + `}`, `{"type":"content_block_start","index":0,"content_block":` + block + `}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`,
		},
		schemas.DialectResponses: {
			`{"type":"response.output_item.added","output_index":0,"item":` + item + `}`, `{"type":"response.function_call_arguments.delta","output_index":0,"delta":"a"}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"a"}`,
		},
	} {
		a, _ := collect(t, d, completion.Options{}, events...)
		require.InEpsilon(t, len(a.Document()), a.Size(), 0.01, d)
		require.Contains(t, string(a.Document()), many.String()+"}", d)
		require.Contains(t, string(a.Document()), `:"aa"`, d)
	}
}

// TestStreamHasOneID: a chunk without an id has that of the first one, and Weir's id stays once it
// was given.
func TestStreamHasOneID(t *testing.T) {
	t.Parallel()
	with := func(id string) string { return `{` + id + `"choices":[{"index":0,"delta":{"content":"a"}}]}` }
	long := strings.Repeat("x", 1<<10)
	type testCase struct{ in, want []string }
	table.Run(t, map[string]testCase{
		"the first has none":   {[]string{"", `"id":"p",`, `"id":null,`}, []string{"act", "act", "act"}},
		"a later one has none": {[]string{`"id":"p",`, "", `"id":"p",`}, []string{"p", "p", "p"}},
		"each has its own":     {[]string{`"id":"p",`, `"id":"q",`}, []string{"p", "q"}},
		"too long to repeat":   {[]string{`"id":"` + long + `",`, ""}, []string{"act", "act"}},
		"all have Weir's":      {[]string{`"id":"act",`, `"id":"act",`}, []string{"act", "act"}},
	}, func(t *testing.T, tt testCase) {
		a := chat.Answer(completion.Options{ID: "act"})
		c, err := chat.Read("", []byte(`{"choices":[]}`))
		require.NoError(t, err)
		_, keep := a.Give(c)
		require.False(t, keep, "the id of what is not given does not count")
		var given []string
		for _, id := range tt.in {
			c, err := chat.Read("", []byte(with(id)))
			require.NoError(t, err)
			a.Add(c)
			raw, _ := a.Give(c)
			given = append(given, completion.Parse(raw).Get("id").Str)
		}
		require.Equal(t, tt.want, given)
		require.Equal(t, tt.want[0], completion.Parse(a.Document()).Get("id").Str)
	})
}

func TestSplit(t *testing.T) {
	t.Parallel()
	document := json.RawMessage(`{ "id":"c-1","object":"chat.completion","created":7,"model":"m","choices":[
		{"index":0,"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"t0","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"t1","type":"function","function":{"name":"g","arguments":"{\"n\":1.0}"}}]},"logprobs":null,"finish_reason":"tool_calls"},
		{"index":1,"message":{"role":"assistant","content":"ho"}}],
		"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`)
	begin := `{"id":"c-1","object":"chat.completion.chunk","created":7,"model":"m","choices":[`
	want := []string{
		begin + `{"index":0,"delta":{"role":"assistant","content":"hi","tool_calls":[{"index":0,"id":"t0","type":"function","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"t1","type":"function","function":{"name":"g","arguments":"{\"n\":1.0}"}}]},"logprobs":null,"finish_reason":null}]}`,
		begin + `{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
		begin + `{"index":1,"delta":{"role":"assistant","content":"ho"},"finish_reason":null}]}`,
	}
	got, err := chat.Split(document, false)
	require.NoError(t, err)
	require.Equal(t, want, texts(got))

	got, err = chat.Split(document, true)
	require.NoError(t, err)
	want = append(want, begin+`],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`)
	require.Equal(t, want, texts(got))

	whole := assemble(t, texts(got)...)
	require.Equal(t, &schemas.ChatUsage{Prompt: 1, Completion: 2, Total: 3}, whole.Usage())
	require.Equal(t, []string{"tool_calls"}, whole.Reasons())
	require.Positive(t, whole.Output())
}

// TestSplitOfADelta: a whole answer with delta in the place of message keeps its text and its
// calls.
func TestSplitOfADelta(t *testing.T) {
	t.Parallel()
	for _, none := range []string{``, `"message":null,`} {
		got, err := chat.Split(json.RawMessage(`{"id":"c-1","created":7,"model":"m","choices":[{`+none+`"delta":{"content":"hi","tool_calls":[{"id":"t0"}]},"finish_reason":"stop"}]}`), false)
		require.NoError(t, err)
		require.JSONEq(t, choice(`{"content":"hi","tool_calls":[{"index":0,"id":"t0"}]}`, "null"), string(got[0]))
		require.JSONEq(t, choice(`{}`, `"stop"`), string(got[1]))
		require.Len(t, got, 2)
	}
}

func TestSplitRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{``, `null`, `{}`, `{"choices":null}`, `{"choices":[1]}`, `{"choices":[],"error":{"message":"x"}}`, `<html>`, `[{"choices":[]}]`} {
		_, err := chat.Split(json.RawMessage(in), false)
		require.Error(t, err, in)
	}
}
