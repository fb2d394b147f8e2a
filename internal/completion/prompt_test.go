package completion_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestPromptOfOtherDialects(t *testing.T) {
	t.Parallel()
	const data = "AAAAAAAAAAAAAAAA" // 16 bytes
	long := strings.Repeat(data, 1000)
	type testCase struct {
		dialect schemas.Dialect
		in      string
		want    completion.Size
	}
	r, m, e := schemas.DialectResponses, schemas.DialectMessages, schemas.DialectEmbeddings
	table.Run(t, map[string]testCase{
		"a text of Responses":            {r, `{"model":"a","input":"a\n日","instructions":"xyz","store":false}`, completion.Size{Bytes: 16 + 5 + 16 + 3}},
		"items":                          {r, `{"input":[{"role":"user","content":[{"type":"input_text","text":"hello"}]},{"type":"function_call_output","output":"abc"}]}`, completion.Size{Bytes: 16 + 4 + 10 + 5 + 16 + 20 + 3}},
		"an image by its address":        {r, `{"input":[{"content":[{"type":"input_image","image_url":"https://a.example/b.png"}]}]}`, completion.Size{Bytes: 16 + 11, Images: 1}},
		"a screenshot":                   {r, `{"input":[{"output":{"type":"computer_screenshot","image_url":"data:image/png;base64,` + long + `"}}]}`, completion.Size{Bytes: 16 + 19, Images: 1}},
		"a made image":                   {r, `{"input":[{"type":"image_generation_call","result":"` + long + `"}]}`, completion.Size{Bytes: 16 + 21, Images: 1}},
		"a file of Responses":            {r, `{"input":[{"content":[{"type":"input_file","file_data":"` + long + `"}]}]}`, completion.Size{Bytes: 16 + 10, Media: 4000}},
		"a tool counts whole":            {r, `{"tools":[{"type":"x"}],"client_metadata":{"a":"b"},"prompt_cache_key":"k","include":["a"]}`, completion.Size{Bytes: int64(len(`[{"type":"x"}]`))}},
		"a continued response":           {r, `{"previous_response_id":"resp_1","input":""}`, completion.Size{Bytes: 16}},
		"messages and a system text":     {m, `{"system":"abc","messages":[{"role":"user","content":"hello"}],"stop_sequences":["x"]}`, completion.Size{Bytes: 16 + 3 + 16 + 4 + 5}},
		"system blocks":                  {m, `{"system":[{"type":"text","text":"abc"},{"type":"text","text":"d"}]}`, completion.Size{Bytes: 2*(16+4) + 3 + 1}},
		"an image block":                 {m, `{"messages":[{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + long + `"}}]}]}`, completion.Size{Bytes: 16 + 5 + 6 + 9, Images: 1}},
		"an image block by its address":  {m, `{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://a.example/b.png"}}]}]}`, completion.Size{Bytes: 16 + 5 + 3, Images: 1}},
		"a document block":               {m, `{"messages":[{"content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"` + long + `"}}]}]}`, completion.Size{Bytes: 16 + 8 + 6 + 15, Media: 4000}},
		"an image in a tool's result":    {m, `{"messages":[{"content":[{"type":"tool_result","content":[{"type":"image","source":{"data":"` + data + `"}}]}]}]}`, completion.Size{Bytes: 16 + 11 + 5, Images: 1}},
		"count_tokens":                   {schemas.DialectCount, `{"system":"abc"}`, completion.Size{Bytes: 16 + 3}},
		"a text to embed":                {e, `{"input":"hello","dimensions":8,"encoding_format":"float"}`, completion.Size{Bytes: 5}},
		"texts to embed":                 {e, `{"input":["hello","ab"]}`, completion.Size{Bytes: 7}},
		"tokens to embed":                {e, `{"input":[1,2,3]}`, completion.Size{Media: 3}},
		"lists of tokens to embed":       {e, `{"input":[[1,2,3],[4]]}`, completion.Size{Media: 4}},
		"parts to embed":                 {e, `{"input":[{"type":"image_url","image_url":"https://a.example"},{"type":"text","text":"abc"}]}`, completion.Size{Bytes: 9 + 4 + 3, Images: 1}},
		"chat reads no input by its way": {schemas.DialectChat, `{"input":"abc","system":"d"}`, completion.Size{Bytes: 5 + 3}},
		"no dialect is chat":             {"", `{"messages":[{"content":"abc"}]}`, completion.Size{Bytes: 16 + 3}},
	}, func(t *testing.T, tt testCase) {
		require.True(t, json.Valid([]byte(tt.in)))
		assert.Equal(t, tt.want, completion.Prompt(tt.dialect, json.RawMessage(tt.in)))
	})
}

func TestRequestOfAResponse(t *testing.T) {
	t.Parallel()
	type testCase struct {
		in     string
		change completion.Change
		want   string
	}
	background := completion.Change{Model: "b", Drop: []string{"background"}}
	table.Run(t, map[string]testCase{
		"a member is dropped":       {`{"background":true,"model":"a","x":1.50}`, background, `{"model":"b","x":1.50}`},
		"a missing one is no error": {`{"model":"a","a":{"background":true}}`, background, `{"model":"b","a":{"background":true}}`},
		"written with an escape":    {`{"model":"a","b\u0061ckground":true}`, background, `{"model":"b"}`},
		"the provider's own id": {
			`{"model":"a","previous_response_id":"resp_w","input":"x"}`,
			completion.Change{Previous: `resp_"1`},
			`{"model":"a","previous_response_id":"resp_\"1","input":"x"}`,
		},
		"no id to replace": {`{"model":"a","previous_response_id":null}`, completion.Change{}, `{"model":"a","previous_response_id":null}`},
	}, func(t *testing.T, tt testCase) {
		got, err := completion.Request(json.RawMessage(tt.in), tt.change)
		require.NoError(t, err)
		assert.Equal(t, tt.want, string(got))
	})
}
