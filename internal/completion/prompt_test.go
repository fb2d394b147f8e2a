package completion_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/completion"
)

func TestPrompt(t *testing.T) {
	t.Parallel()
	message := func(content string) string {
		return `{"model":"a-long-name","metadata":{"a":"b"},"logit_bias":{"1":2},"messages":[{"role":"user","content":` + content + `}]}`
	}
	const frame = 16 + 4 // and the role
	for _, c := range []struct {
		name, in string
		want     completion.Size
	}{
		{"nothing", `{}`, completion.Size{}},
		{"text", message(`"hello"`), completion.Size{Bytes: frame + 5}},
		{"escapes", message(`"a\n\u00e9\""`), completion.Size{Bytes: frame + 1 + 1 + 3 + 1}},
		{"bytes, not letters", message(`"日本"`), completion.Size{Bytes: frame + 6}},
		{"parts", message(`[{"type":"text","text":"hello"}]`), completion.Size{Bytes: frame + 4 + 5}},
		{"an image by its data", message(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 9999) + `","detail":"high"}}]`), completion.Size{Bytes: frame + 9 + 4, Images: 1}},
		{"an image by its address", message(`[{"type":"image_url","image_url":"https://a.example/b.png"}]`), completion.Size{Bytes: frame + 9, Images: 1}},
		{"images", message(`[{"type":"image_url","image_url":{"url":"https://a.example/b.png"}},{"type":"input_image","file_id":"f"}]`), completion.Size{Bytes: frame + 9 + 11, Images: 2}},
		{"text in the place of an image", message(`[{"type":"image_url","text":"` + strings.Repeat("a", 9999) + `"}]`), completion.Size{Bytes: frame + 9 + 9999, Images: 1}},
		{"sound", message(`[{"type":"input_audio","input_audio":{"data":"` + strings.Repeat("A", 320_000) + `","format":"mp3"}}]`), completion.Size{Bytes: frame + 11 + 3, Media: 10_000}},
		{"a document", message(`[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,` + strings.Repeat("A", 40_000) + `"}}]`), completion.Size{Bytes: frame + 4 + 5, Media: 10_007}},
		{"a document by its name", message(`[{"type":"file","file":{"file_id":"f-1"}}]`), completion.Size{Bytes: frame + 4, Media: 32768}},
		{"tools and the like", `{"tools":[ {"type":"function"} ],"response_format":{"type":"json_object"},"input":"abc","n":1}`, completion.Size{Bytes: 21 + 22 + 5}},
		{"a call", `{"messages":[{"tool_calls":[{"id":"t0","function":{"name":"f","arguments":"{\"a\":1}"}}]}]}`, completion.Size{Bytes: 16 + 2 + 1 + 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, completion.Prompt(json.RawMessage(c.in)))
		})
	}
}

func TestPromptOfDeepRequests(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`[`, 5000) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`]`, 5000)
	require.Greater(t, completion.Prompt(json.RawMessage(`{"messages":[{"content":`+deep+`}]}`)).Bytes, int64(1<<20))
}
