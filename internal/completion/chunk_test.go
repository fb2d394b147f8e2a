package completion_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/weirtest/table"
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
			got, err := chat.Read("", data)
			require.NoError(t, err)
			clear(data) // the reader keeps nothing of it
			if c.raw == "" {
				c.raw = c.in
			}
			require.Equal(t, c.raw, string(got.Raw))
			require.Equal(t, c.blank, got.Blank)
			require.Equal(t, c.usage, got.Usage)
			require.Equal(t, c.fault, got.Fault)
			raw, keep := chat.Answer(completion.Options{}).Give(got)
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
		_, err := chat.Read("", []byte(in))
		require.Error(t, err, in)
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"id":"own","a":1}`:    `{"id":"own","a":1}`,
		`{"a":1}`:               `{"id":"w\"1","a":1}`,
		`{"a":1,"id":null}`:     `{"a":1,"id":"w\"1"}`,
		`{"a":1,"\u0069d":7}`:   `{"a":1,"\u0069d":"w\"1"}`,
		`{"a":{"id":"inside"}}`: `{"id":"w\"1","a":{"id":"inside"}}`,
	} {
		_, given := collect(t, schemas.DialectChat, completion.Options{ID: `w"1`, Usage: true}, in)
		require.Equal(t, []string{want}, given, in)
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
		{`{"completion_tokens":10,"total_tokens":30}`, &schemas.ChatUsage{Prompt: 20, Completion: 10, Total: 30}},
		{`{"prompt_tokens":10,"completion_tokens":0}`, &schemas.ChatUsage{Prompt: 10, Total: 10}},
		{`{"prompt_tokens":10,"completion_tokens":0,"total_tokens":12}`, &schemas.ChatUsage{Prompt: 10, Completion: 2, Total: 12}},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":null,"cached_tokens":null,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":null}}`, &schemas.ChatUsage{Prompt: 10, Completion: 5, Total: 15}},
		{`{"prompt_tokens":1073741824,"completion_tokens":5}`, &schemas.ChatUsage{Prompt: 1 << 30, Completion: 5, Total: 1<<30 + 5}},
		{`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`, nil},
		{`{"prompt_tokens":-3,"completion_tokens":5}`, nil},
		{`{"prompt_tokens":10,"completion_tokens":-5,"total_tokens":15}`, nil},
		{`{"prompt_tokens":10,"completion_tokens":"5","total_tokens":15}`, nil},
		{`{"prompt_tokens":10.5,"completion_tokens":5}`, nil},
		{`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":-4}}`, nil},
		{`{"prompt_tokens":10,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":1e18}}`, nil},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":1e18}`, nil},
		{`{"prompt_tokens":1073741825,"completion_tokens":5}`, nil},
		{`{"prompt_tokens":10,"total_tokens":5}`, nil},
		{`{"total_tokens":10}`, nil},
		{`{"cost":0.1}`, nil},
		{`[1]`, nil},
	} {
		chunk, err := chat.Read("", []byte(`{"usage":`+c.in+`}`))
		require.NoError(t, err)
		require.Equal(t, c.want, chunk.Usage, c.in)
	}
}

// TestReadFault: an error has a status, a message, and its code, type and place, where each is a word.
func TestReadFault(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 129)
	for _, c := range []struct {
		in   string
		want completion.Fault
	}{
		{`{"error":{"message":"no such model","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, completion.Fault{Status: 404, Message: "no such model", Code: "model_not_found", Type: "invalid_request_error"}},
		{`{"error":{"message":"slow down","code":429,"metadata":{"provider_name":"x","raw":"over capacity"}}}`, completion.Fault{Status: 429, Message: "slow down: over capacity"}},
		{`{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"{\"error\":{\"message\":\"deep\",\"code\":503}}"}}}`, completion.Fault{Status: 502, Message: "Provider returned error: deep"}},
		{`{"error":{"message":"the server had an error","type":"server_error","param":null,"code":null}}`, completion.Fault{Status: 500, Message: "the server had an error", Type: "server_error"}},
		{`{"error":"just text"}`, completion.Fault{Message: "just text"}},
		{`{"detail":"Not Found"}`, completion.Fault{Message: "Not Found"}},
		{`{"detail":[{"loc":["body","n"],"msg":"must be more"}]}`, completion.Fault{Message: "must be more"}},
		{`[{"error":{"code":503,"message":"try later","status":"UNAVAILABLE"}}]`, completion.Fault{Status: 503, Message: "try later"}},
		{`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, completion.Fault{Status: 503, Message: "Overloaded", Type: "overloaded_error"}},
		{`{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, completion.Fault{Status: 413, Message: "Request exceeds the maximum size", Type: "request_too_large"}},
		{`{"code":"invalid_prompt","message":"no"}`, completion.Fault{Status: 400, Message: "no", Code: "invalid_prompt"}},
		{`{"errors":[{"message":"first"},{"message":"second"}]}`, completion.Fault{Message: "first"}},
		{`{"title":"Forbidden","detail":"not you","status":403}`, completion.Fault{Status: 403, Message: "not you"}},
		{`{"fault":{"faultstring":"quota","detail":{"errorcode":"x"}}}`, completion.Fault{Message: "quota"}},
		{`{"error":{"code":"429","message":"as text"}}`, completion.Fault{Status: 429, Message: "as text", Code: "429"}},
		{`{"error":{"code":500}}`, completion.Fault{Status: 500}},
		{`{"error":{"message":"a\n\u0000\u001b[31mb\u2028"}}`, completion.Fault{Message: "a   [31mb"}},
		{`  {"error":{"message":" é "}}  `, completion.Fault{Message: "é"}},
		{"no healthy upstream\n", completion.Fault{Message: "no healthy upstream"}},
		{`{"error":{"message":"m","type":"invalid_request_error","param":"messages[0].content","code":"context_length_exceeded"}}`, completion.Fault{Status: 400, Message: "m", Code: "context_length_exceeded", Type: "invalid_request_error", Param: "messages[0].content"}},
		{`{"code":"outer","error":{"message":"m","code":"inner"}}`, completion.Fault{Message: "m", Code: "inner"}},
		{`{"error":{"message":"m","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"deep\",\"code\":\"context_length_exceeded\"}}"}}}`, completion.Fault{Status: 400, Message: "m: deep", Code: "context_length_exceeded"}},
		{`{"error":{"message":"m","code":"two words","type":"` + long + `","param":"a\u001bb"}}`, completion.Fault{Message: "m"}},
	} {
		require.Equal(t, &c.want, completion.ReadFault([]byte(c.in)), c.in)
	}
}

func TestReadFaultFindsNone(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", " \n", "<html><h1>502 Bad Gateway</h1>", "{", `{"error":`, "[]", "{}", "null", "12", `{"error":null}`, "a\xff", strings.Repeat("x", 5000), `{"a":{"message":"not here"}}`, `{"error":{"message":"a"},"pad":"` + strings.Repeat("x", 256<<10) + `"}`, strings.Repeat(`{"error":`, 300) + "1" + strings.Repeat("}", 300), `{"error":{"message":"x` + strings.Repeat(`\"x`, 80<<10)} {
		require.Nil(t, completion.ReadFault([]byte(in)), in)
	}
}

func FuzzReadFault(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"a","code":1,"metadata":{"raw":"{}"}},"detail":[{"msg":1}]}`))
	f.Add([]byte("plain"))
	f.Add([]byte(`{"error":{"message":"a` + strings.Repeat("\U0001F600", 4000) + `"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := completion.ReadFault(body)
		if got == nil {
			return
		}
		require.True(t, utf8.ValidString(got.Message))
		require.LessOrEqual(t, len(got.Message), 4<<10)
		require.False(t, strings.ContainsAny(got.Message, "\r\n\x00\x1b"))
		require.True(t, got.Status == 0 || got.Status >= 400 && got.Status <= 599)
		require.True(t, got.Status != 0 || got.Message != "")
	})
}

// read gives the texts of chunks, as lane:text, and a mark where a lane ends.
func read(t *testing.T, p completion.Protocol, chunks ...string) []string {
	t.Helper()
	texts := p.Texts()
	var found completion.Found
	var list []string
	var lanes []completion.Text // the first text of each, as they come
	for _, raw := range chunks {
		c, err := p.Read("", []byte(raw))
		require.NoError(t, err, raw)
		require.True(t, texts.Read(c.Raw, &found))
		for _, text := range found.Texts {
			n := slices.IndexFunc(lanes, func(l completion.Text) bool { return l.Lane == text.Lane })
			if n < 0 {
				n, lanes = len(lanes), append(lanes, text)
			}
			list = append(list, fmt.Sprintf("%d:%s", n, text.Append(nil, c.Raw)))
		}
		for _, ended := range found.Ended {
			for n, l := range lanes {
				if ended == l.Lane || ended == l.Choice {
					list = append(list, fmt.Sprintf("end %d", n))
				}
			}
		}
		for _, v := range found.Tokens {
			list = append(list, "tokens "+string(c.Raw[v.From:v.To]))
		}
	}
	return list
}

func TestTexts(t *testing.T) {
	t.Parallel()
	deep := func(n int, s string) string {
		return `{"choices":[{"delta":{"x":` + strings.Repeat(`[{"x":`, n) + s + strings.Repeat(`}]`, n) + `}}]}`
	}
	const two = `[{"index":0,"t":"a"},{"index":1,"t":"b"},{"t":"c"}]`
	type testCase struct {
		chunks, want []string
	}
	table.Run(t, map[string]testCase{
		"members":   {[]string{`{"id":"x","choices":[{"delta":{"role":"r","content":"a","x":{"y":["b",1,{"z":"c"},[["d"]]]}},"finish_reason":"stop"}]}`}, []string{"0:r", "1:a", "2:b", "3:c", "2:d", "4:stop", "end 0", "end 1", "end 2", "end 3", "end 4"}},
		"again":     {[]string{`{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}`, `{"choices":[{"index":1,"delta":{"content":"c"}},{"index":0,"delta":{"content":"d"}}]}`}, []string{"0:a", "1:b", "1:c", "0:d"}},
		"nothing":   {[]string{`{"choices":[]}`, `{}`, `{"choices":null}`, `{"choices":[{}]}`, `{"choices":[{"delta":"a"},{"delta":{"content":""},"x":[],"y":{},"z":[[],""]}]}`}, nil},
		"parts":     {[]string{`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":[{"type":"text","text":"b"},{"index":1,"text":"c"},{"text":{"value":"d"}},"e"]}}]}`}, []string{"0:a", "1:text", "0:b", "2:c", "3:d", "0:e"}},
		"ends":      {[]string{`{"choices":[{"index":7,"finish_reason":null},{"index":7,"finish_reason":""},{"index":7,"finish_reason":1},{"index":7,"finish_reason":"x"}]}`}, []string{"0:x", "end 0"}},
		"tokens":    {[]string{`{"choices":[{"logprobs":{"content":[{"token":"a","logprobs":{"token":"b"}}]}},{"logprobs":null}]}`}, []string{"0:a", "1:b", `tokens {"content":[{"token":"a","logprobs":{"token":"b"}}]}`, `tokens {"token":"b"}`}},
		"arguments": {[]string{`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":{"a":"b"}},"custom":{"input":1}},{"function":{"arguments":null}}]}}]}`}, []string{`0:{"a":"b"}`, "1:1"}},
		"twice":     {[]string{`{"choices":[{"delta":{"content":"a"}}],"choices":[{"delta":{"x":"1","x":{"y":"z","y":"w"},"content":null,"x":"2"},"delta":{"x":"b"}}]}`}, []string{"0:b"}},
		"not twice": {[]string{`{"choices":[{"delta":{"content":"a"}},{"index":0,"delta":{"content":"b"}}]}`}, []string{"0:a", "0:b"}},
		"halves":    {[]string{`{"choices":[{"delta":{"content":"\ud83d\ud83d\ude00\n\u00e9x\\"}}]}`}, []string{"0:\\ud83d\U0001F600\né" + `x\`}},
		"lists":     {[]string{deep(5, two)}, []string{"0:a", "1:b", "2:c"}},
		// To find an index a list is gone over once more; that is not done at any depth.
		"deep lists": {[]string{deep(25, two)}, []string{"0:a", "0:b", "0:c"}},
	}, func(t *testing.T, tt testCase) {
		require.Equal(t, tt.want, read(t, chat, tt.chunks...))
	})
}

// TestReadChunkOfDuplicateNames: of several members of one name the last stays, and nothing
// else is lost.
func TestReadChunkOfDuplicateNames(t *testing.T) {
	t.Parallel()
	raw := `{"a":1,"\u0061":2.50,"choices":[{"x":{"y":"1"},"index":0,"index":1,"x":"2<","delta":{"content":"a","role":"r","content":"b"}}]}`
	want := `{"a":2.50,"choices":[{"delta":{"content":"b","role":"r"},"index":1,"x":"2<"}]}`
	c, err := chat.Read("", []byte(raw))
	require.NoError(t, err)
	require.Equal(t, want, string(c.Raw))
}
