package completion_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/completion"
)

// read gives the texts of chunks, as lane:text, and a mark where a choice ends.
func read(t *testing.T, chunks ...string) []string {
	t.Helper()
	var texts completion.Texts
	var found completion.Found
	var list []string
	for _, raw := range chunks {
		c, err := completion.ReadChunk([]byte(raw))
		require.NoError(t, err, raw)
		require.True(t, texts.Read(c.Raw, &found))
		for _, text := range found.Texts {
			list = append(list, fmt.Sprintf("%d:%s", text.Lane, text.Append(nil, found.Raw)))
		}
		for _, choice := range found.Ended {
			list = append(list, fmt.Sprintf("end %d", choice))
		}
		for _, v := range found.Tokens {
			list = append(list, "tokens "+string(found.Raw[v.From:v.To]))
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
	for name, tt := range map[string]struct {
		chunks, want []string
	}{
		"members":   {[]string{`{"id":"x","choices":[{"delta":{"role":"r","content":"a","x":{"y":["b",1,{"z":"c"},[["d"]]]}},"finish_reason":"stop"}]}`}, []string{"0:r", "1:a", "2:b", "3:c", "2:d", "4:stop", "end 0"}},
		"again":     {[]string{`{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}`, `{"choices":[{"index":1,"delta":{"content":"c"}},{"index":0,"delta":{"content":"d"}}]}`}, []string{"0:a", "1:b", "1:c", "0:d"}},
		"nothing":   {[]string{`{"choices":[]}`, `{}`, `{"choices":null}`, `{"choices":[{}]}`, `{"choices":[{"delta":"a"},{"delta":{"content":""},"x":[],"y":{},"z":[[],""]}]}`}, nil},
		"parts":     {[]string{`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":[{"type":"text","text":"b"},{"index":1,"text":"c"},{"text":{"value":"d"}},"e"]}}]}`}, []string{"0:a", "1:text", "0:b", "2:c", "3:d", "0:e"}},
		"ends":      {[]string{`{"choices":[{"index":7,"finish_reason":null},{"index":7,"finish_reason":""},{"index":7,"finish_reason":1},{"index":7,"finish_reason":"x"}]}`}, []string{"0:x", "end 0"}},
		"tokens":    {[]string{`{"choices":[{"logprobs":{"content":[{"token":"a","logprobs":{"token":"b"}}]}},{"logprobs":null}]}`}, []string{"0:a", "1:b", `tokens {"content":[{"token":"a","logprobs":{"token":"b"}}]}`, `tokens {"token":"b"}`}},
		"arguments": {[]string{`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":{"a":"b"}},"custom":{"input":1}},{"function":{"arguments":null}}]}}]}`}, []string{`0:{"a":"b"}`, "1:1"}},
		"twice":     {[]string{`{"choices":[{"delta":{"content":"a"}}],"choices":[{"delta":{"x":"1","x":{"y":"z","y":"w"},"content":null,"x":"2"},"delta":{"x":"b"}}]}`}, []string{"1:b"}},
		"not twice": {[]string{`{"choices":[{"delta":{"content":"a"}},{"index":0,"delta":{"content":"b"}}]}`}, []string{"0:a", "0:b"}},
		"halves":    {[]string{`{"choices":[{"delta":{"content":"\ud83d\ud83d\ude00\n\u00e9x\\"}}]}`}, []string{"0:\\ud83d\U0001F600\né" + `x\`}},
		"lists":     {[]string{deep(5, two)}, []string{"0:a", "1:b", "2:c"}},
		// To find an index a list is gone over once more; that is not done at any depth.
		"deep lists": {[]string{deep(100, two)}, []string{"0:a", "0:b", "0:c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, read(t, tt.chunks...))
		})
	}
}

// TestTextsOfOneChunkTwice: what a chunk has said twice is gone, and nothing else.
func TestTextsOfOneChunkTwice(t *testing.T) {
	t.Parallel()
	var texts completion.Texts
	var found completion.Found
	raw := `{"a":1,"a":2,"choices":[{"x":{"y":"1"},"index":0,"index":1,"x":"2","delta":{"content":"a","role":"r","content":"b"}}]}`
	require.True(t, texts.Read(json.RawMessage(raw), &found))
	want := `{"a":1,"a":2,"choices":[{"index":0,"index":1,"x":"2","delta":{"role":"r","content":"b"}}]}`
	require.Equal(t, want, string(found.Raw))
}

func FuzzTexts(f *testing.F) {
	f.Add(`{"choices":[{"index":0,"delta":{"content":"a\ud83d","tool_calls":[{"index":0,"id":"x","function":{"arguments":1}}]},"message":{}}]}`, `{"choices":[{"message":{"content":"b"}}]}`)
	f.Add(`{"choices":[{"x":[[{"index":3}]],"x":"y","logprobs":{"a":{"logprobs":{}}},"finish_reason":"z"}],"choices":[{"delta":null}]}`, `{"choices":[{}]}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		var texts completion.Texts
		var found completion.Found
		for _, raw := range []string{a, b} {
			c, err := completion.ReadChunk([]byte(raw))
			if err != nil {
				continue
			}
			require.True(t, texts.Read(c.Raw, &found))
			again, err := completion.ReadChunk(found.Raw)
			require.NoError(t, err, "%s of %s", found.Raw, c.Raw)
			require.Equal(t, string(found.Raw), string(again.Raw))
			at := 0
			for _, text := range found.Texts {
				require.GreaterOrEqual(t, text.From, at)
				at = text.To
				require.True(t, json.Valid(found.Raw[text.From:text.To]))
				text.Append(nil, found.Raw)
			}
			for _, v := range found.Tokens {
				require.True(t, json.Valid(found.Raw[v.From:v.To]))
			}
		}
	})
}

func BenchmarkTexts(b *testing.B) {
	c, err := completion.ReadChunk([]byte(streamed))
	require.NoError(b, err)
	var texts completion.Texts
	var found completion.Found
	b.ReportAllocs()
	for b.Loop() {
		texts.Read(c.Raw, &found)
	}
}
