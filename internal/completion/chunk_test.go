package completion_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/schemas"
)

func TestReadChunk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in  string
		raw       string // "": as it came
		blank     bool
		usage     *schemas.ChatUsage
		fault     *completion.Fault
		forOthers string // without usage; "": not kept
	}{
		{name: "text", in: `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`, forOthers: `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`},
		{name: "white space", in: "{\n \"choices\" : [ ] }", raw: `{"choices":[]}`, blank: true},
		{name: "an escape and a number stay", in: `{"choices":[{"delta":{"content":"\u00e9\/\ud83d"}}],"x":1.50}`, forOthers: `{"choices":[{"delta":{"content":"\u00e9\/\ud83d"}}],"x":1.50}`},
		{name: "bytes that are no text", in: "{\"choices\":[{\"delta\":{\"content\":\"a\xff\"}}]}", raw: `{"choices":[{"delta":{"content":"a` + "\uFFFD" + `"}}]}`, forOthers: `{"choices":[{"delta":{"content":"a` + "\uFFFD" + `"}}]}`},
		{name: "role", in: `{"choices":[{"delta":{"role":"assistant","content":""}}],"usage":null}`, forOthers: `{"choices":[{"delta":{"role":"assistant","content":""}}]}`},
		{name: "end", in: `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, forOthers: `{"choices":[{"delta":{},"finish_reason":"stop"}]}`},
		{name: "tool call", in: `{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}`, forOthers: `{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}`},
		{name: "empty text", in: `{"choices":[{"index":0,"delta":{"content":"","tool_calls":null},"finish_reason":null}]}`, blank: true},
		{name: "no choice", in: `{"id":"a"}`, blank: true},
		{name: "usage only", in: `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`, blank: true, usage: &schemas.ChatUsage{Prompt: 3, Completion: 4, Total: 7}},
		{name: "usage with the end", in: `{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4},"x":1}`, usage: &schemas.ChatUsage{Prompt: 3, Completion: 4, Total: 7}, forOthers: `{"choices":[{"finish_reason":"stop"}],"x":1}`},
		{name: "usage in a choice", in: `{"choices":[{"index":0,"delta":{},"usage":{"prompt_tokens":1,"completion_tokens":1}}]}`, blank: true, usage: &schemas.ChatUsage{Prompt: 1, Completion: 1, Total: 2}},
		{name: "usage elsewhere", in: `{"choices":[],"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":1}}}`, blank: true, usage: &schemas.ChatUsage{Prompt: 1, Completion: 1, Total: 2}},
		{name: "fault", in: `{"error":{"message":"too many","code":429}}`, blank: true, fault: &completion.Fault{Status: 429, Message: "too many"}},
		{name: "fault beside a choice", in: `{"choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"message":"gone","code":"server_error"}}`, fault: &completion.Fault{Status: 500, Message: "gone", Code: "server_error"}, forOthers: `{"choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"message":"gone","code":"server_error"}}`},
		{name: "fault as an object", in: `{"object":"error","message":"bad","code":400}`, blank: true, fault: &completion.Fault{Status: 400, Message: "bad"}},
		{name: "error that is none", in: `{"error":null,"choices":null}`, blank: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			data := []byte(c.in)
			got, err := completion.ReadChunk(data)
			require.NoError(t, err)
			clear(data) // the reader keeps nothing of it
			if c.raw == "" {
				c.raw = c.in
			}
			require.Equal(t, c.raw, string(got.Raw))
			require.Equal(t, c.blank, got.Blank)
			require.Equal(t, c.usage, got.Usage)
			require.Equal(t, c.fault, got.Fault)
			raw, keep := completion.WithoutUsage(got)
			require.Equal(t, c.forOthers != "", keep)
			if keep {
				require.Equal(t, c.forOthers, string(raw))
			}
			require.Equal(t, c.raw, string(got.Raw), "the chunk stays")
		})
	}
}

func TestReadChunkRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "[DONE]", "null", "1", `"x"`, "[]", "{", `{"choices":"x"}`, `{"choices":[1]}`, `{"choices":{}}`, `{} {}`, "<html>", strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300)} {
		_, err := completion.ReadChunk([]byte(in))
		require.Error(t, err, in)
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"id":"own","a":1}`:    `{"id":"own","a":1}`,
		`{"a":1}`:               `{"id":"w\"1","a":1}`,
		`{}`:                    `{"id":"w\"1"}`,
		`{"a":1,"id":""}`:       `{"a":1,"id":"w\"1"}`,
		`{"a":1,"id":null}`:     `{"a":1,"id":"w\"1"}`,
		`{"a":1,"\u0069d":7}`:   `{"a":1,"\u0069d":"w\"1"}`,
		`{"a":{"id":"inside"}}`: `{"id":"w\"1","a":{"id":"inside"}}`,
		`[]`:                    `[]`,
	} {
		require.Equal(t, want, string(completion.Named(json.RawMessage(in), `w"1`)), in)
	}
}

func TestReadUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want *schemas.ChatUsage
	}{
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":1},"completion_tokens_details":{"reasoning_tokens":2}}`, &schemas.ChatUsage{Prompt: 10, Completion: 5, Total: 15, Cached: 4, Reasoning: 2}},
		{`{"input_tokens":10,"output_tokens":5,"input_tokens_details":{"cached_tokens":1},"cache_read_input_tokens":3}`, &schemas.ChatUsage{Prompt: 10, Completion: 5, Total: 15, Cached: 3}},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":3}`, &schemas.ChatUsage{Prompt: 10, Completion: 5, Total: 15}},
		{`{"prompt_tokens":10,"total_tokens":30}`, &schemas.ChatUsage{Prompt: 10, Completion: 20, Total: 30}},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":40}`, &schemas.ChatUsage{Prompt: 10, Completion: 5, Total: 40}},
		{`{"prompt_tokens":10.0,"completion_tokens":5e0,"prompt_cache_hit_tokens":8}`, &schemas.ChatUsage{Prompt: 10, Completion: 5, Total: 15, Cached: 8}},
		{`{"completion_tokens":10,"total_tokens":30}`, &schemas.ChatUsage{Prompt: 20, Completion: 10, Total: 30}},
		{`{"prompt_tokens":10,"completion_tokens":0}`, &schemas.ChatUsage{Prompt: 10, Total: 10}},
		{`{"prompt_tokens":10,"completion_tokens":0,"total_tokens":12}`, &schemas.ChatUsage{Prompt: 10, Completion: 2, Total: 12}},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":null,"cached_tokens":null,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":null}}`, &schemas.ChatUsage{Prompt: 10, Completion: 5, Total: 15}},
		{`{"prompt_tokens":1073741824,"completion_tokens":5}`, &schemas.ChatUsage{Prompt: 1 << 30, Completion: 5, Total: 1<<30 + 5}},
		{`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`, nil},
		{`{"prompt_tokens":-3,"completion_tokens":5}`, nil},
		{`{"prompt_tokens":10,"completion_tokens":-5,"total_tokens":15}`, nil},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":-15}`, nil},
		{`{"prompt_tokens":10,"completion_tokens":"5","total_tokens":15}`, nil},
		{`{"prompt_tokens":10,"completion_tokens":true,"total_tokens":15}`, nil},
		{`{"prompt_tokens":10,"completion_tokens":{},"total_tokens":15}`, nil},
		{`{"prompt_tokens":10.5,"completion_tokens":5}`, nil},
		{`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":-4}}`, nil},
		{`{"prompt_tokens":10,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":1e18}}`, nil},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":1e18}`, nil},
		{`{"prompt_tokens":9223372036854775807,"completion_tokens":5}`, nil},
		{`{"prompt_tokens":1073741825,"completion_tokens":5}`, nil},
		{`{"prompt_tokens":10}`, nil},
		{`{"prompt_tokens":10,"total_tokens":5}`, nil},
		{`{"completion_tokens":10,"total_tokens":5}`, nil},
		{`{"completion_tokens":10}`, nil},
		{`{"total_tokens":10}`, nil},
		{`{"prompt_tokens":1e300,"completion_tokens":99999999999999999999}`, nil},
		{`{"prompt_tokens":"10"}`, nil},
		{`{"cost":0.1}`, nil},
		{`{}`, nil},
		{`null`, nil},
		{`[1]`, nil},
		{``, nil},
	} {
		require.Equal(t, c.want, completion.ReadUsage(json.RawMessage(c.in)), c.in)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	for in, want := range map[int64]int64{-1: 0, 0: 0, 1: 1, 4: 1, 5: 2} {
		require.Equal(t, want, completion.Tokens(in))
	}
}
