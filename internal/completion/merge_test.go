package completion_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/completion"
)

func raws(chunks ...string) []json.RawMessage {
	all := make([]json.RawMessage, 0, len(chunks))
	for _, c := range chunks {
		all = append(all, json.RawMessage(c))
	}
	return all
}

func TestMerge(t *testing.T) {
	t.Parallel()
	a, b, end := choice(`{"content":"a"}`, "null"), choice(`{"content":"b"}`, "null"), choice(`{}`, `"stop"`)
	ab := choice(`{"content":"ab"}`, "null")
	for _, c := range []struct {
		name     string
		in, want []string
	}{
		{"nothing", nil, []string{}},
		{"one", []string{a}, []string{a}},
		{"two", []string{a, b}, []string{ab}},
		{"neighbours only", []string{choice(`{"role":"assistant","content":""}`, "null"), a, b, end, a}, []string{choice(`{"role":"assistant","content":""}`, "null"), ab, end, a}},
		{"an empty piece", []string{a, choice(`{"content":""}`, "null"), b}, []string{ab}},
		{"halves of a pair", []string{choice(`{"content":"\ud83d"}`, "null"), choice(`{"content":"\ude00"}`, "null")}, []string{choice(`{"content":"\ud83d\ude00"}`, "null")}},
		{"role in each", []string{choice(`{"role":"assistant","content":"a"}`, "null"), choice(`{"role":"assistant","content":"b"}`, "null")}, []string{choice(`{"role":"assistant","content":"ab"}`, "null")}},
		{"time and padding differ", []string{`{"created":1,"choices":[{"delta":{"content":"a"}}],"obfuscation":"xx"}`, `{"created":2,"choices":[{"delta":{"content":"b"}}],"obfuscation":"yyy"}`}, []string{`{"created":1,"choices":[{"delta":{"content":"ab"}}],"obfuscation":"xx"}`}},
		{"reasoning", []string{choice(`{"content":"","reasoning":"a"}`, "null"), choice(`{"content":"","reasoning":"b"}`, "null"), b}, []string{choice(`{"content":"","reasoning":"ab"}`, "null"), b}},
		{"arguments", []string{choice(`{"tool_calls":[{"index":1,"function":{"arguments":"{\""}}]}`, "null"), choice(`{"tool_calls":[{"index":1,"function":{"arguments":"a\""}}]}`, "null")}, []string{choice(`{"tool_calls":[{"index":1,"function":{"arguments":"{\"a\""}}]}`, "null")}},
		{"after an escape", []string{choice(`{"content":"\\"}`, "null"), choice(`{"content":"\""}`, "null")}, []string{choice(`{"content":"\\\""}`, "null")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, texts(completion.Merge(raws(c.in...))))
		})
	}
}

func TestMergeLeavesApart(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]string{
		"choices":              {`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, `{"choices":[{"index":1,"delta":{"content":"a"}}]}`},
		"two choices":          {`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1}]}`, `{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1}]}`},
		"ends":                 {choice(`{"content":"a"}`, `"stop"`), choice(`{"content":"a"}`, `"stop"`)},
		"models":               {`{"model":"a","choices":[{"delta":{"content":"a"}}]}`, `{"model":"b","choices":[{"delta":{"content":"a"}}]}`},
		"kinds of text":        {choice(`{"content":"a"}`, "null"), choice(`{"refusal":"a"}`, "null")},
		"two texts":            {choice(`{"content":"a","reasoning":"b"}`, "null"), choice(`{"content":"a","reasoning":"b"}`, "null")},
		"probabilities":        {`{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[1]}}]}`, `{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[1]}}]}`},
		"unknown text":         {choice(`{"content":"a","x":"y"}`, "null"), choice(`{"content":"a","x":"y"}`, "null")},
		"details":              {choice(`{"content":"a","reasoning_details":[1]}`, "null"), choice(`{"content":"a","reasoning_details":[1]}`, "null")},
		"the first of a call":  {choice(`{"tool_calls":[{"index":0,"id":"x","function":{"arguments":"a"}}]}`, "null"), choice(`{"tool_calls":[{"index":0,"id":"x","function":{"arguments":"a"}}]}`, "null")},
		"calls":                {choice(`{"tool_calls":[{"index":0,"function":{"arguments":"a"}}]}`, "null"), choice(`{"tool_calls":[{"index":1,"function":{"arguments":"a"}}]}`, "null")},
		"calls with no index":  {choice(`{"tool_calls":[{"function":{"arguments":"a"}}]}`, "null"), choice(`{"tool_calls":[{"function":{"arguments":"a"}}]}`, "null")},
		"faults":               {`{"choices":[{"delta":{"content":"a"}}],"error":{"x":1}}`, `{"choices":[{"delta":{"content":"a"}}],"error":{"x":1}}`},
		"usage":                {`{"choices":[{"delta":{"content":"a"}}],"usage":{"total_tokens":1}}`, `{"choices":[{"delta":{"content":"a"}}],"usage":{"total_tokens":2}}`},
		"a time that is there": {`{"created":null,"choices":[{"delta":{"content":"a"}}]}`, `{"created":1,"choices":[{"delta":{"content":"a"}}]}`},
		"no text":              {`{"choices":[]}`, `{"choices":[]}`},
		"no JSON":              {`x`, `x`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, pair[:], texts(completion.Merge(raws(pair[:]...))))
		})
	}
}

func FuzzAssemble(f *testing.F) {
	f.Add([]byte(strings.Join([]string{choice(`{"role":"assistant","content":""}`, "null"), choice(`{"content":"a"}`, "null"), choice(`{"content":"\ud83d"}`, "null"), choice(`{}`, `"stop"`), `{"choices":[],"usage":{"prompt_tokens":1}}`}, "\n")))
	f.Add([]byte(strings.Join([]string{choice(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}`, "null"), choice(`{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}`, "null"), choice(`{"tool_calls":[{"index":0,"function":{"arguments":"2"}}]}`, "null")}, "\n")))
	f.Add([]byte(choice(`{"content":[{"type":"x"}],"reasoning":"a","reasoning_content":"a"}`, "null") + "\n" + choice(`{"content":"b","function_call":{"name":"f"}}`, "null") + "\n" + choice(`{"content":"c"}`, "null")))
	f.Add([]byte(`{"choices":[{"index":3,"message":{"content":"m"},"logprobs":{"content":[1]},"usage":{"total_tokens":1}}],"error":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var whole, merged completion.Assembler
		var chunks []json.RawMessage
		for part := range strings.SplitSeq(string(data), "\n") {
			c, err := completion.ReadChunk([]byte(part))
			if err != nil {
				continue
			}
			require.True(t, json.Valid(c.Raw))
			require.NotContains(t, string(c.Raw), "\r")
			again, err := completion.ReadChunk(c.Raw)
			require.NoError(t, err)
			require.Equal(t, c, again, "what is read is read again")
			bare, _ := completion.WithoutUsage(c)
			require.True(t, json.Valid(bare), "%s", bare)
			require.True(t, json.Valid(completion.Named(c.Raw, "id")))
			whole.Add(c)
			chunks = append(chunks, c.Raw)
		}
		together := completion.Merge(chunks)
		require.LessOrEqual(t, len(together), len(chunks))
		for _, raw := range together {
			c, err := completion.ReadChunk(raw)
			require.NoError(t, err)
			merged.Add(c)
		}
		document := whole.Document()
		require.Equal(t, string(document), string(merged.Document()))
		require.Equal(t, whole.Output(), merged.Output())
		require.Equal(t, whole.Reasons(), merged.Reasons())
		require.Equal(t, whole.Usage(), merged.Usage())
		require.Equal(t, whole.Finished(1), merged.Finished(1))
		if document == nil {
			return
		}
		require.True(t, json.Valid(document), "%s", document)
		apart, err := completion.Chunks(document, true)
		require.NoError(t, err)
		again := assemble(t, texts(apart)...)
		require.Equal(t, string(document), string(again.Document()))
		usage, reasons, _, err := completion.Whole(document)
		require.NoError(t, err)
		require.Equal(t, whole.Usage(), usage)
		require.Equal(t, whole.Reasons(), reasons)
		require.Equal(t, string(completion.Named(document, "x")), string(completion.Named(again.Document(), "x")))
	})
}
