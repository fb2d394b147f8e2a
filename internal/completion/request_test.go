package completion_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
)

func TestRequestTouchesNothingElse(t *testing.T) {
	t.Parallel()
	both := completion.Change{Model: "m-2", Usage: true}
	for _, c := range []struct {
		name, in string
		change   completion.Change
		want     string
	}{
		{"model in its place", `{ "temperature":1.0, "model" : "a" ,"seed":12345678901234567890}`, completion.Change{Model: "b"}, `{ "temperature":1.0, "model" : "b" ,"seed":12345678901234567890}`},
		{"model missing", `{"messages":[]}`, completion.Change{Model: "b"}, `{"model":"b","messages":[]}`},
		{"model in an empty object", ` { } `, completion.Change{Model: "b"}, ` {"model":"b" } `},
		{"model written with an escape", `{"mod\u0065l":"a"}`, completion.Change{Model: "b"}, `{"mod\u0065l":"b"}`},
		{"model that is no text", `{"model":{"a":[1]},"n":1e0}`, completion.Change{Model: "b"}, `{"model":"b","n":1e0}`},
		{"a name that needs quoting", `{"model":"a"}`, completion.Change{Model: `a"b<`}, `{"model":"a\"b<"}`},
		{"nothing to change", `{"model":"a"}`, completion.Change{}, `{"model":"a"}`},
		{"another model inside", `{"metadata":{"model":"x"},"model":"a"}`, completion.Change{Model: "b"}, `{"metadata":{"model":"x"},"model":"b"}`},
		{"usage at the end", "{\"model\":\"a\",\"x\":1\n}", both, "{\"model\":\"m-2\",\"x\":1,\"stream_options\":{\"include_usage\":true}\n}"},
		{"usage beside others", `{"model":"a","stream_options":{"include_obfuscation":false}}`, both, `{"model":"m-2","stream_options":{"include_obfuscation":false,"include_usage":true}}`},
		{"usage refused before", `{"stream_options":{"include_usage":false,"x":1.50},"model":"a"}`, both, `{"stream_options":{"include_usage":true,"x":1.50},"model":"m-2"}`},
		{"options that are null", `{"stream_options":null,"model":"a"}`, both, `{"stream_options":{"include_usage":true},"model":"m-2"}`},
		{"options that are empty", `{"stream_options":{ },"model":"a"}`, both, `{"stream_options":{"include_usage":true },"model":"m-2"}`},
		{"half of a pair stays", `{"model":"a","user":"\ud83d"}`, completion.Change{Model: "b"}, `{"model":"b","user":"\ud83d"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := json.RawMessage(c.in)
			got, err := completion.Request(in, c.change)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
			require.Equal(t, c.in, string(in), "the input stays as it is")
		})
	}
}

func TestRequestRefusesWhatNobodyReadsAlike(t *testing.T) {
	t.Parallel()
	for _, in := range []string{``, `null`, `[]`, `"a"`, `{`, `{} {}`, `{"model":"a","model":"b"}`, `{"model":"a","mod\u0065l":"b"}`, `{"a":01}`} {
		_, err := completion.Request(json.RawMessage(in), completion.Change{Model: "m"})
		require.Error(t, err, in)
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"models":["a"]}`:                         `{}`,
		`{"models":["a"], "b":1}`:                  `{"b":1}`,
		`{"a":1.0 , "models":["a"] , "b":1}`:       `{"a":1.0 , "b":1}`,
		`{"a":{"models":1},"models":2}`:            `{"a":{"models":1}}`,
		`{"models":1,"models":2,"b":3,"models":4}`: `{"b":3}`,
		`{"a":1,"models":1,"models":2,"b":3}`:      `{"a":1,"b":3}`,
		`{"a":1,"m\u006fdels":1}`:                  `{"a":1}`,
		`{"a":1}`:                                  `{"a":1}`,
		`{}`:                                       `{}`,
		`[1]`:                                      `[1]`,
	} {
		require.Equal(t, want, string(completion.Without(json.RawMessage(in), "models")), in)
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
		if model != "" {
			require.NotEmpty(t, completion.Named(got, "id"))
		}
		bare := completion.Without(got, "model")
		require.True(t, jsontext.Value(bare).IsValid(jsontext.AllowInvalidUTF8(true)), "%s", bare)
		for _, m := range membersOf(t, bare) {
			require.NotEqual(t, "model", m.name)
		}
		size := completion.Prompt(body)
		require.GreaterOrEqual(t, min(size.Bytes, size.Images, size.Media), int64(0))
	})
}
