package completion_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestTextsOfResponses(t *testing.T) {
	t.Parallel()
	delta := func(kind, more, text string) string {
		return `{"type":"response.` + kind + `.delta",` + more + `,"delta":"` + text + `"}`
	}
	done := func(kind, more string) string { return `{"type":"response.` + kind + `.done",` + more + `,"text":"x"}` }
	const first = `"item_id":"i","output_index":0,"content_index":0`
	type testCase struct{ events, want []string }
	table.Run(t, map[string]testCase{
		"the published stream": {responseStream(), []string{"0:Hi", "0: there! é", "end 0", "end 0", `1:{"city":`, `1:"Paris"}`, "end 1", "end 1"}},
		"by its part":          {[]string{delta("output_text", first, "a"), delta("output_text", `"item_id":"i","output_index":0,"content_index":1`, "b"), done("output_text", first)}, []string{"0:a", "1:b", "end 0"}},
		"by its item":          {[]string{delta("output_text", first, "a"), delta("output_text", `"output_index":1,"content_index":0`, "b")}, []string{"0:a", "1:b"}},
		"an item loses its index": {
			[]string{delta("function_call_arguments", first, "a"), delta("function_call_arguments", `"item_id":"i"`, "b"), `{"type":"response.output_item.done","item":{"id":"i"}}`},
			[]string{"0:a", "0:b", "end 0"},
		},
		"an item loses its id": {[]string{delta("output_text", first, "a"), delta("output_text", `"output_index":0`, "b")}, []string{"0:a", "0:b"}},
		"the id alone":         {[]string{delta("refusal", `"item_id":"i"`, "a"), delta("refusal", `"item_id":"j"`, "b"), delta("refusal", `"item_id":"i"`, "c")}, []string{"0:a", "1:b", "0:c"}},
		"reasoning": {[]string{
			delta("reasoning_summary_text", `"output_index":0,"summary_index":0`, "a"), delta("reasoning_summary_text", `"output_index":0,"summary_index":1`, "b"),
			delta("reasoning_text", `"output_index":0,"content_index":0`, "c"), done("reasoning_summary_text", `"output_index":0,"summary_index":1`),
		}, []string{"0:a", "1:b", "2:c", "end 1"}},
		"a part begins with a text": {[]string{
			`{"type":"response.content_part.added",` + first + `,"part":{"type":"output_text","text":"a"}}`, delta("output_text", first, "b"),
			`{"type":"response.content_part.added","output_index":1,"content_index":0,"part":{"type":"refusal","refusal":"c"}}`, delta("refusal", `"output_index":1,"content_index":0`, "d"),
			`{"type":"response.reasoning_summary_part.added","output_index":2,"summary_index":1,"part":{"type":"summary_text","text":"e"}}`, delta("reasoning_summary_text", `"output_index":2,"summary_index":1`, "f"),
		}, []string{"0:a", "0:b", "1:c", "1:d", "2:e", "2:f"}},
		"an item begins with a text": {[]string{
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"i","arguments":"a"}}`, delta("function_call_arguments", first, "b"),
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"j","content":[{"type":"output_text","text":"c"}]}}`, delta("output_text", `"output_index":1,"content_index":0`, "d"),
			`{"type":"response.output_item.added","output_index":2,"item":7}`,
		}, []string{"0:a", "0:b", "1:c", "1:d"}},
		"a part's own":      {[]string{delta("output_text", first, "a"), delta("content_part", first, "b"), delta("output_text", first, "c")}, []string{"0:a", "1:b", "0:c"}},
		"a kind to come":    {[]string{delta("new", first, "a"), delta("newer", first, "b"), delta("new", first, "c"), done("new", first)}, []string{"0:a", "1:b", "0:c", "end 0"}},
		"others":            {[]string{delta("shell_call_command", `"output_index":0`, "a"), delta("audio.transcript", `"x":1`, "b"), delta("audio.transcript", `"x":1`, "c")}, []string{"0:a", "1:b", "1:c"}},
		"no text":           {[]string{delta("output_text", first, ""), `{"type":"response.x.delta","delta":{"a":"b"}}`, `{"type":"response.x","delta":"a"}`, `{"type":"response.y.done","text":"a"}`}, nil},
		"the delta's place": {[]string{`{"type":"response.output_text.delta","delta":"a","output_index":3}`, `{"d\u0065lta":"b","output_index":3,"type":"response.output_text.delta"}`}, []string{"0:a", "0:b"}},
		"its tokens": {[]string{
			`{"type":"response.output_text.delta","logprobs":[{"token":"a","top_logprobs":[{"token":"z"}]},{"token":"b"}],` + first + `,"delta":"ab"}`,
			`{"type":"response.output_text.delta",` + first + `,"delta":"c","logprobs":[{"token":"c"}]}`,
			`{"type":"response.output_text.done",` + first + `,"text":"abc","logprobs":[{"token":"abc"}]}`,
		}, []string{
			"0:a", "0:b", "1:ab", `tokens [{"token":"a","top_logprobs":[{"token":"z"}]},{"token":"b"}]`,
			"1:c", "0:c", `tokens [{"token":"c"}]`, "2:abc", "end 2", "end 1", "end 0", `tokens [{"token":"abc"}]`,
		}},
		"tokens of a whole": {[]string{
			`{"type":"response.completed","response":{"output":[{"content":[{"text":"ab","logprobs":[{"token":"a"},{"token":"b"},7]}]}]}}`, `{"object":"response","output":[{"content":[{"logprobs":[{"token":"c"}]}]}]}`,
		}, []string{"0:a", "0:b", "end 0", `tokens [{"token":"a"},{"token":"b"},7]`, "0:c", "end 0", `tokens [{"token":"c"}]`}},
	}, func(t *testing.T, tt testCase) {
		assert.Equal(t, tt.want, read(t, completion.For(schemas.DialectResponses), tt.events...))
	})
}

func TestTextsOfMessages(t *testing.T) {
	t.Parallel()
	type testCase struct{ events, want []string }
	table.Run(t, map[string]testCase{
		"the published stream": {messageStream(), []string{
			"0:Let me ", "0:see\n", "1:EqQB==", "end 0", "end 1", `2:Okay, \ud83d`, `2:\ude00!`, "end 2", `3:{"location": "San`, `3: Francisco", "n": 1.50}`, "end 3",
		}},
		"a block begins with a text": {[]string{
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","id":"x","name":"n","text":"a","citations":[]}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}`,
		}, []string{"0:a", "0:b"}},
		"by the block":   {[]string{`{"type":"content_block_delta","index":0,"delta":{"text":"a"}}`, `{"type":"content_block_delta","index":1,"delta":{"text":"b"}}`, `{"type":"content_block_stop","index":0}`, `{"type":"content_block_stop","index":7}`}, []string{"0:a", "1:b", "end 0"}},
		"no index":       {[]string{`{"type":"content_block_delta","delta":{"text":"a"}}`, `{"type":"content_block_delta","index":0,"delta":{"text":"b"}}`}, []string{"0:a", "0:b"}},
		"a kind to come": {[]string{`{"type":"content_block_delta","index":0,"delta":{"type":"x_delta","a":"1","b":2}}`}, []string{"0:1"}},
		"others":         {[]string{`{"type":"message_delta","delta":{"stop_reason":"x"}}`, `{"type":"message","content":[{"text":"x"}]}`, `{"type":"content_block_delta","delta":"x"}`}, nil},
	}, func(t *testing.T, tt testCase) {
		assert.Equal(t, tt.want, read(t, completion.For(schemas.DialectMessages), tt.events...))
	})
}

// TestTextsAreBounded: an answer with more texts, or more bytes of names, than any has is refused.
func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 70<<10)
	for name, tt := range map[string]struct {
		dialect schemas.Dialect
		event   string
	}{
		"items":      {schemas.DialectResponses, `{"type":"response.output_text.delta","output_index":%d,"delta":"x"}`},
		"long ids":   {schemas.DialectResponses, `{"type":"response.x.delta","item_id":"` + long + `%d","delta":"x"}`},
		"long kinds": {schemas.DialectResponses, `{"type":"response.` + long + `%d.delta","delta":"x"}`},
		"blocks":     {schemas.DialectMessages, `{"type":"content_block_delta","index":%d,"delta":{"text":"x"}}`},
	} {
		reader := completion.For(tt.dialect).Texts()
		var found completion.Found
		n := 0
		for n < 10_000 && reader.Read(json.RawMessage(fmt.Sprintf(tt.event, n)), &found) {
			n++
		}
		assert.Less(t, n, 8193, name)
	}
	var found completion.Found
	many := strings.TrimSuffix(strings.Repeat(`{"token":"x"},`, 140_000), ",")
	assert.False(t, completion.For(schemas.DialectResponses).Texts().Read(json.RawMessage(`{"type":"response.x.done","logprobs":[`+many+`]}`), &found))
}

// FuzzProtocols: for any input all results are valid, and the events in the log, merged or not, give the
// same answer, as those of a whole completion do.
func FuzzProtocols(f *testing.F) {
	list := schemas.Dialects()
	for i, events := range map[int][]string{1: responseStream(), 2: messageStream()} {
		f.Add(byte(i), strings.Join(events, "\n"))
	}
	for d, docs := range wholeAnswers() {
		for _, doc := range docs {
			f.Add(byte(slices.Index(list, d)), doc)
		}
	}
	f.Add(byte(3), `{"data":[],"usage":{"total_tokens":1}}`)
	f.Add(byte(0), `{"choices":[{"index":0,"delta":{"content":"a\ud83d","tool_calls":[{"index":0,"id":"x","function":{"arguments":1}}]},"message":{}}]}`+"\n"+`{"choices":[{"message":{"content":"b"}}]}`)
	f.Add(byte(0), `{"choices":[{"x":[[{"index":3}]],"x":"y","logprobs":{"a":{"logprobs":{}}},"finish_reason":"z"}],"choices":[{"delta":null}]}`+"\n"+`{"choices":[{}]}`)
	for _, chunks := range [][]string{
		{choice(`{"role":"assistant","content":""}`, "null"), choice(`{"content":"a"}`, "null"), choice(`{"content":"\ud83d"}`, "null"), choice(`{}`, `"stop"`), `{"choices":[],"usage":{"prompt_tokens":1}}`},
		{choice(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}`, "null"), choice(`{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}`, "null"), choice(`{"tool_calls":[{"index":0,"function":{"arguments":"2"}}]}`, "null")},
		{choice(`{"content":[{"type":"x"}],"reasoning":"a","reasoning_content":"a"}`, "null"), choice(`{"content":"b","function_call":{"name":"f"}}`, "null"), choice(`{"content":"c"}`, "null")},
		{`{"choices":[{"index":3,"message":{"content":"m"},"logprobs":{"content":[1],"x":"y"},"usage":{"total_tokens":1}}],"error":{}}`},
		{`{"id":"x","choices":[{"index":1,"message":{"content":"a","tool_calls":[{"id":"t","function":{"name":"f","arguments":{}}}]},"finish_reason":"stop"},{"delta":{"content":[1]}}],"usage":{"total_tokens":1}}`},
	} {
		f.Add(byte(0), strings.Join(chunks, "\n"))
	}
	f.Fuzz(func(t *testing.T, which byte, stream string) {
		d := list[int(which)%len(list)]
		p, o := completion.For(d), completion.Options{ID: "act", Previous: "before", Usage: true}
		a, again, reader := p.Answer(o), p.Answer(o), p.Texts()
		var found completion.Found
		var given []json.RawMessage
		for data := range strings.SplitSeq(stream, "\n") {
			c, err := p.Read("name", []byte(data))
			if err != nil {
				continue
			}
			require.True(t, json.Valid(c.Raw))
			require.NotContains(t, string(c.Raw), "\r")
			same, err := p.Read("", c.Raw)
			require.NoError(t, err)
			require.Equal(t, c, same, "what is read is read again")
			require.True(t, reader.Read(c.Raw, &found))
			at := 0
			for _, text := range found.Texts {
				require.GreaterOrEqual(t, text.From, at)
				at = text.To
				require.True(t, json.Valid(c.Raw[text.From:text.To]))
				text.Append(nil, c.Raw)
			}
			for _, v := range found.Tokens {
				require.True(t, json.Valid(c.Raw[v.From:v.To]))
			}
			a.Add(c)
			if raw, keep := a.Give(c); keep {
				require.True(t, json.Valid(raw) && utf8.Valid(raw) && !bytes.ContainsAny(raw, "\r\n"), "a frame has it as it is: %s", raw)
				given = append(given, raw)
			}
			if whole, err := p.Split(c.Raw, true); err == nil && c.Type == "" {
				for _, raw := range whole {
					require.True(t, json.Valid(raw), "%s", raw)
				}
			}
		}
		for _, raw := range given {
			c, err := p.Read("", raw)
			require.NoError(t, err, "%s", raw)
			again.Add(c)
		}
		doc := a.Document()
		require.True(t, doc == nil || json.Valid(doc), "%s", doc)
		require.GreaterOrEqual(t, min(a.Size(), a.Output()), int64(0))
		require.Equal(t, a.Finished(), again.Finished())
		require.Equal(t, string(doc), string(again.Document()))
		require.Equal(t, a.Reasons(), again.Reasons())
		if doc == nil || d != schemas.DialectChat {
			return
		}
		require.Equal(t, a.Output(), again.Output())
		require.Equal(t, a.Usage(), again.Usage())
		apart, err := p.Split(doc, true)
		require.NoError(t, err)
		require.Equal(t, string(doc), string(assemble(t, texts(apart)...).Document()))
	})
}
