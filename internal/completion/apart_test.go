package completion_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/schemas"
)

func TestChunks(t *testing.T) {
	t.Parallel()
	document := json.RawMessage(`{ "object":"chat.completion","id":"c-1","created":7,"model":"m","choices":[
		{"index":0,"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"t0","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"t1","type":"function","function":{"name":"g","arguments":"{\"n\":1.0}"}}]},"logprobs":null,"finish_reason":"tool_calls"},
		{"index":1,"message":{"role":"assistant","content":"ho"}}],
		"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`)
	begin := `{"id":"c-1","object":"chat.completion.chunk","created":7,"model":"m","choices":[`
	want := []string{
		begin + `{"index":0,"delta":{"role":"assistant","content":"hi","tool_calls":[{"index":0,"id":"t0","type":"function","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"t1","type":"function","function":{"name":"g","arguments":"{\"n\":1.0}"}}]},"logprobs":null,"finish_reason":null}]}`,
		begin + `{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
		begin + `{"index":1,"delta":{"role":"assistant","content":"ho"},"finish_reason":null}]}`,
	}
	got, err := completion.Chunks(document, false)
	require.NoError(t, err)
	require.Equal(t, want, texts(got))

	got, err = completion.Chunks(document, true)
	require.NoError(t, err)
	want = append(want, begin+`],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`)
	require.Equal(t, want, texts(got))

	usage, reasons, output, err := completion.Whole(document)
	require.NoError(t, err)
	require.Equal(t, &schemas.ChatUsage{Prompt: 1, Completion: 2, Total: 3}, usage)
	require.Equal(t, []string{"tool_calls"}, reasons)
	require.Positive(t, output)
}

func TestChunksOfAwkwardAnswers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		`{"choices":[]}`:   {`{"object":"chat.completion.chunk","choices":[]}`},
		`{"choices":[{}]}`: {`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":null}]}`},
		`{"choices":[{"message":{"content":"a","tool_calls":[1,{"index":7}]}}],"error":null}`: {`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a","tool_calls":[1,{"index":1}]},"finish_reason":null}]}`},
	} {
		got, err := completion.Chunks(json.RawMessage(in), true)
		require.NoError(t, err)
		require.Equal(t, want, texts(got), in)
	}
}

func TestWholeRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{``, `null`, `{}`, `{"choices":null}`, `{"choices":[1]}`, `{"choices":[],"error":{"message":"x"}}`, `<html>`, `[{"choices":[]}]`} {
		_, _, _, err := completion.Whole(json.RawMessage(in))
		require.Error(t, err, in)
	}
}

func TestApartAndTogetherIsTheSame(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		`{"id":"chatcmpl-1","object":"chat.completion","created":1741569952,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello! How can I help?","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":0}},"service_tier":"default"}`,
		`{"id":"gen-1","provider":"p","model":"m","object":"chat.completion","created":1,"choices":[{"logprobs":{"content":[{"token":"a","logprob":-0.1,"bytes":[97],"top_logprobs":[]}],"refusal":null},"finish_reason":"tool_calls","native_finish_reason":"tool_calls","index":0,"message":{"role":"assistant","content":"","refusal":null,"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","format":"unknown","index":0}],"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"a\":[1]}"}}]}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"cost":0.00014}}`,
		`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]},{"type":"text","text":"b"}]},"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":null,"function_call":{"name":"f","arguments":""}},"finish_reason":"function_call"}]}`,
	} {
		chunks, err := completion.Chunks(json.RawMessage(document), true)
		require.NoError(t, err)
		require.JSONEq(t, document, string(assemble(t, texts(chunks)...).Document()))
	}
}

func FuzzChunks(f *testing.F) {
	f.Add([]byte(`{"id":"x","choices":[{"index":1,"message":{"content":"a","tool_calls":[{"id":"t","function":{"name":"f","arguments":{}}}]},"finish_reason":"stop"},{"delta":{"content":[1]}}],"usage":{"total_tokens":1}}`))
	f.Add([]byte(`{"choices":[{"index":0,"message":{"reasoning":"a"},"logprobs":{"content":[1],"x":"y"}}],"error":null,"object":"error","m\u006fdel":1}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		chunks, err := completion.Chunks(document, true)
		if err != nil {
			return
		}
		once := assemble(t, texts(chunks)...).Document()
		if once == nil {
			return
		}
		require.True(t, json.Valid(once), "%s", once)
		again, err := completion.Chunks(once, true)
		require.NoError(t, err)
		require.Equal(t, string(once), string(assemble(t, texts(again)...).Document()))
		_, _, _, err = completion.Whole(once)
		require.NoError(t, err)
	})
}
