package completion_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestRequestTouchesNothingElse(t *testing.T) {
	t.Parallel()
	both, background := completion.Change{Model: "m-2", Usage: true}, completion.Change{Model: "b", Drop: []string{"background"}}
	for _, c := range []struct {
		name, in string
		change   completion.Change
		want     string
	}{
		{"model in its place", `{ "temperature":1.0, "model" : "a" ,"seed":12345678901234567890}`, completion.Change{Model: "b"}, `{ "temperature":1.0, "model" : "b" ,"seed":12345678901234567890}`},
		{"model missing", `{"messages":[]}`, completion.Change{Model: "b"}, `{"messages":[],"model":"b"}`},
		{"model in an empty object", ` { } `, completion.Change{Model: "b"}, `{ "model":"b"}`},
		{"model written with an escape", `{"mod\u0065l":"a"}`, completion.Change{Model: "b"}, `{"mod\u0065l":"b"}`},
		{"model that is no text", `{"model":{"a":[1]},"n":1e0}`, completion.Change{Model: "b"}, `{"model":"b","n":1e0}`},
		{"a name that needs quoting", `{"model":"a"}`, completion.Change{Model: `a"b<`}, `{"model":"a\"b<"}`},
		{"usage at the end", "{\"model\":\"a\",\"x\":1\n}", both, "{\"model\":\"m-2\",\"x\":1\n,\"stream_options\":{\"include_usage\":true}}"},
		{"usage beside others", `{"model":"a","stream_options":{"include_obfuscation":false}}`, both, `{"model":"m-2","stream_options":{"include_obfuscation":false,"include_usage":true}}`},
		{"usage refused before", `{"stream_options":{"include_usage":false,"x":1.50},"model":"a"}`, both, `{"stream_options":{"include_usage":true,"x":1.50},"model":"m-2"}`},
		{"options that are empty", `{"stream_options":{ },"model":"a"}`, both, `{"stream_options":{ "include_usage":true},"model":"m-2"}`},
		{"a member is dropped", `{"background":true,"model":"a","x":1.50}`, background, `{"model":"b","x":1.50}`},
		{"written with an escape", `{"model":"a","b\u0061ckground":true}`, background, `{"model":"b"}`},
		{"the provider's own id", `{"model":"a","previous_response_id":"resp_w","input":"x"}`, completion.Change{Previous: `resp_"1`}, `{"model":"a","previous_response_id":"resp_\"1","input":"x"}`},
	} {
		in := json.RawMessage(c.in)
		got, err := completion.Request(in, c.change)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, string(got), c.name)
		require.Equal(t, c.in, string(in), "%s: the input stays as it is", c.name)
	}
}

func TestRequestRefusesWhatNobodyReadsAlike(t *testing.T) {
	t.Parallel()
	for _, in := range []string{``, `null`, `[]`, `"a"`, `{`, `{} {}`, `{"model":"a","model":"b"}`, `{"model":"a","mod\u0065l":"b"}`, `{"a":01}`} {
		_, err := completion.Request(json.RawMessage(in), completion.Change{Model: "m"})
		require.Error(t, err, in)
	}
}

// awkward are names of members that paths of gjson and sjson read as more than a name.
var awkward = []string{"a.b", "*", "a?", "a.*.b", "#", "@ugly", "a|b", "!x", ".", "..0", `a\b`, "0", "-1", ":1", "{a,b}", "[a]", "", "é", `q"`, "model.x", "choices.0"}

// TestAwkwardNames: a member with such a name is no other's, and is edited by its own name.
func TestAwkwardNames(t *testing.T) {
	t.Parallel()
	for _, name := range awkward {
		quoted, err := json.Marshal(name)
		require.NoError(t, err)
		member := string(quoted) + `:{"b":1.50,"*":"x"}`
		body := `{` + member + `,"a":{"b":2,"x":{"b":3}},"model":"m"}`
		got, err := completion.Request(json.RawMessage(body), completion.Change{Model: "n", Usage: true})
		require.NoError(t, err)
		require.Equal(t, `{`+member+`,"a":{"b":2,"x":{"b":3}},"model":"n","stream_options":{"include_usage":true}}`, string(got))
		rest := `{"a":{"b":2,"x":{"b":3}},"model":"m"}`
		require.Equal(t, rest, string(completion.Without(json.RawMessage(body), name)), name)

		// It is put together and split by its own name, and its texts are found.
		chunk := `{` + member + `,"choices":[{"index":0,"delta":{` + string(quoted) + `:"te"},` + string(quoted) + `:1.50}]}`
		a := chat.Answer(completion.Options{})
		add(t, a, chunk, strings.Replace(chunk, `"te"`, `"xt"`, 1))
		want := `{"id":null,"object":"chat.completion",` + member + `,"choices":[{"index":0,"message":{"role":"assistant","content":null,` + string(quoted) + `:"text"},` +
			`"finish_reason":null,` + string(quoted) + `:1.50}]}`
		require.Equal(t, want, string(a.Document()))
		chunks, err := chat.Split(a.Document(), true)
		require.NoError(t, err)
		require.Equal(t, want, string(assemble(t, texts(chunks)...).Document()))
		require.Equal(t, []string{"0:te", "0:xt"}, read(t, chat, chunk, strings.Replace(chunk, `"te"`, `"xt"`, 1)), name)
	}
}

// member is one of an object, as it is written.
type member struct{ name, value string }

func membersOf(t *testing.T, object []byte) []member {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowInvalidUTF8(true))
	_, err := dec.ReadToken()
	require.NoError(t, err)
	var all []member
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		require.NoError(t, err)
		text := name.String()
		value, err := dec.ReadValue()
		require.NoError(t, err)
		all = append(all, member{text, string(value)})
	}
	return all
}

func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`{"model":"a","messages":[{"role":"user","content":"h\"i\\"}],"seed":1.50e3,"stream_options":{"x":[1,{"y":null}]}}`,
		`{"mod\u0065l":1,"":{}, "a" : [ ] }`, ` {} `, `{"stream_options":"x"}`, `{"a":"\ud800","b":"\\\""}`,
	} {
		f.Add([]byte(seed), "m", true)
	}
	f.Fuzz(func(t *testing.T, body []byte, model string, usage bool) {
		got, err := completion.Request(body, completion.Change{Model: model, Usage: usage})
		if err != nil {
			return
		}
		require.True(t, jsontext.Value(got).IsValid(jsontext.AllowInvalidUTF8(true)), "%s", got)
		after := membersOf(t, got)
		changed := func(name string) bool {
			return name == "model" && model != "" || name == "stream_options" && usage
		}
		var was, is []member
		for _, m := range membersOf(t, body) {
			if !changed(m.name) {
				was = append(was, m)
			}
		}
		for _, m := range after {
			if !changed(m.name) {
				is = append(is, m)
				continue
			}
			if m.name == "model" {
				var set string
				require.NoError(t, json.Unmarshal([]byte(m.value), &set))
				require.Equal(t, string(bytes.ToValidUTF8([]byte(model), []byte("\uFFFD"))), set)
				continue
			}
			var set struct {
				IncludeUsage bool `json:"include_usage"`
			}
			require.NoError(t, json.Unmarshal([]byte(m.value), &set))
			require.True(t, set.IncludeUsage)
		}
		require.Equal(t, was, is)
		bare := completion.Without(got, "model")
		require.True(t, jsontext.Value(bare).IsValid(jsontext.AllowInvalidUTF8(true)), "%s", bare)
		for _, m := range membersOf(t, bare) {
			require.NotEqual(t, "model", m.name)
		}
		for _, d := range schemas.Dialects() {
			size := completion.Prompt(d, body)
			require.GreaterOrEqual(t, min(size.Bytes, size.Images, size.Media), int64(0))
		}
	})
}

func TestPrompt(t *testing.T) {
	t.Parallel()
	message := func(content string) string {
		return `{"model":"a-long-name","metadata":{"a":"b"},"logit_bias":{"1":2},"messages":[{"role":"user","content":` + content + `}]}`
	}
	const (
		frame = 16 + 4             // and the role
		data  = "AAAAAAAAAAAAAAAA" // 16 bytes
	)
	long := strings.Repeat(data, 1000)
	type testCase struct {
		dialect schemas.Dialect
		in      string
		want    completion.Size
	}
	c, r, m, e := schemas.DialectChat, schemas.DialectResponses, schemas.DialectMessages, schemas.DialectEmbeddings
	table.Run(t, map[string]testCase{
		"nothing":                       {c, `{}`, completion.Size{}},
		"text":                          {c, message(`"hello"`), completion.Size{Bytes: frame + 5}},
		"escapes":                       {c, message(`"a\n\u00e9\""`), completion.Size{Bytes: frame + 1 + 1 + 3 + 1}},
		"bytes, not letters":            {c, message(`"日本"`), completion.Size{Bytes: frame + 6}},
		"parts":                         {c, message(`[{"type":"text","text":"hello"}]`), completion.Size{Bytes: frame + 4 + 5}},
		"an image by its data":          {c, message(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 9999) + `","detail":"high"}}]`), completion.Size{Bytes: frame + 9 + 4, Images: 1}},
		"an image by its address":       {c, message(`[{"type":"image_url","image_url":"https://a.example/b.png"}]`), completion.Size{Bytes: frame + 9, Images: 1}},
		"sound":                         {c, message(`[{"type":"input_audio","input_audio":{"data":"` + strings.Repeat("A", 320_000) + `","format":"mp3"}}]`), completion.Size{Bytes: frame + 11 + 3, Media: 10_000}},
		"a document":                    {c, message(`[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,` + strings.Repeat("A", 40_000) + `"}}]`), completion.Size{Bytes: frame + 4 + 5, Media: 10_007}},
		"tools and the like":            {c, `{"tools":[ {"type":"function"} ],"response_format":{"type":"json_object"},"input":"abc","n":1}`, completion.Size{Bytes: 21 + 22 + 5}},
		"a call":                        {c, `{"messages":[{"tool_calls":[{"id":"t0","function":{"name":"f","arguments":"{\"a\":1}"}}]}]}`, completion.Size{Bytes: 16 + 2 + 1 + 7}},
		"a text of Responses":           {r, `{"model":"a","input":"a\n日","instructions":"xyz","store":false}`, completion.Size{Bytes: 16 + 5 + 16 + 3}},
		"items":                         {r, `{"input":[{"role":"user","content":[{"type":"input_text","text":"hello"}]},{"type":"function_call_output","output":"abc"}]}`, completion.Size{Bytes: 16 + 4 + 10 + 5 + 16 + 20 + 3}},
		"an input image by its address": {r, `{"input":[{"content":[{"type":"input_image","image_url":"https://a.example/b.png"}]}]}`, completion.Size{Bytes: 16 + 11, Images: 1}},
		"a screenshot":                  {r, `{"input":[{"output":{"type":"computer_screenshot","image_url":"data:image/png;base64,` + long + `"}}]}`, completion.Size{Bytes: 16 + 19, Images: 1}},
		"a file of Responses":           {r, `{"input":[{"content":[{"type":"input_file","file_data":"` + long + `"}]}]}`, completion.Size{Bytes: 16 + 10, Media: 4000}},
		"a tool counts whole":           {r, `{"tools":[{"type":"x"}],"client_metadata":{"a":"b"},"prompt_cache_key":"k","include":["a"]}`, completion.Size{Bytes: int64(len(`[{"type":"x"}]`))}},
		"messages and a system text":    {m, `{"system":"abc","messages":[{"role":"user","content":"hello"}],"stop_sequences":["x"]}`, completion.Size{Bytes: 16 + 3 + 16 + 4 + 5}},
		"system blocks":                 {m, `{"system":[{"type":"text","text":"abc"},{"type":"text","text":"d"}]}`, completion.Size{Bytes: 2*(16+4) + 3 + 1}},
		"an image block":                {m, `{"messages":[{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + long + `"}}]}]}`, completion.Size{Bytes: 16 + 5 + 6 + 9, Images: 1}},
		"a document block":              {m, `{"messages":[{"content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"` + long + `"}}]}]}`, completion.Size{Bytes: 16 + 8 + 6 + 15, Media: 4000}},
		"an image in a tool's result":   {m, `{"messages":[{"content":[{"type":"tool_result","content":[{"type":"image","source":{"data":"` + data + `"}}]}]}]}`, completion.Size{Bytes: 16 + 11 + 5, Images: 1}},
		"a text to embed":               {e, `{"input":"hello","dimensions":8,"encoding_format":"float"}`, completion.Size{Bytes: 5}},
		"texts to embed":                {e, `{"input":["hello","ab"]}`, completion.Size{Bytes: 7}},
		"tokens to embed":               {e, `{"input":[1,2,3]}`, completion.Size{Media: 3}},
		"parts to embed":                {e, `{"input":[{"type":"image_url","image_url":"https://a.example"},{"type":"text","text":"abc"}]}`, completion.Size{Bytes: 9 + 4 + 3, Images: 1}},
	}, func(t *testing.T, tt testCase) {
		require.True(t, json.Valid([]byte(tt.in)))
		assert.Equal(t, tt.want, completion.Prompt(tt.dialect, json.RawMessage(tt.in)))
	})
}

func TestPromptOfDeepRequests(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`[`, 5000) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`]`, 5000)
	require.Greater(t, completion.Prompt(schemas.DialectChat, json.RawMessage(`{"messages":[{"content":`+deep+`}]}`)).Bytes, int64(1<<20))
}

// TestDocsListTheMembers compares the list in docs/reference/configuration.md with the one in the code.
func TestDocsListTheMembers(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	of := schemas.Dialect("")
	for _, m := range completion.Known() {
		if m.Dialect != of {
			of = m.Dialect
			b.WriteString("### `POST " + of.Route() + "`\n\n")
			if tools := completion.CallerTools(of); len(tools) > 0 && of != schemas.DialectCount {
				b.WriteString("Tools that the caller performs have these types: " + code(tools) + ".\n\n")
			}
		}
		b.WriteString("**" + string(m.Object) + "**\n\n- protocol: " + code(m.Protocol) + "\n")
		if len(m.Common) > 0 {
			b.WriteString("- servers and clients: " + code(m.Common) + "\n")
		}
		b.WriteString("\n")
	}
	fixture.Page(t, "../../docs/reference/configuration.md", "members", b.String())
}

func code(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "` `") + "`"
}

// TestMembers: a name is in one list of an object once, in order, and none of them is one
// that is refused or names a stored object.
func TestMembers(t *testing.T) {
	t.Parallel()
	for _, m := range completion.Known() {
		all := slices.Concat(m.Protocol, m.Common)
		assert.True(t, slices.IsSorted(m.Protocol), m.Object)
		assert.True(t, slices.IsSorted(m.Common), m.Object)
		slices.Sort(all)
		assert.Equal(t, slices.Compact(slices.Clone(all)), all, m.Object)
		for _, name := range all {
			assert.True(t, completion.ValidMember(name), name)
			assert.True(t, completion.Knows(m.Dialect, m.Object, name), name)
			own := name == "previous_response_id" // Weir puts the provider's own id in its place
			assert.False(t, completion.Refused(name) || completion.Stored(completion.Fold(name)) && !own, name)
			assert.False(t, completion.Knows(m.Dialect, m.Object, strings.ToUpper(name)), "names are read as they are spelled")
		}
	}
	for _, name := range []string{"", "*", "a b", "a/b", "--", "é", strings.Repeat("a", completion.MaxMember+1)} {
		assert.False(t, completion.ValidMember(name), name)
	}
}
