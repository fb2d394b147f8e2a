package strict_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress/strict"
)

// door is a document of every sort of member that the surfaces have.
type door struct {
	Text    string            `json:"text"`
	Count   int               `json:"count"`
	Flag    bool              `json:"flag"`
	List    []string          `json:"list"`
	Map     map[string]string `json:"map"`
	Inner   *door             `json:"inner"`
	Raw     json.RawMessage   `json:"raw"`
	Pointer *string           `json:"pointer"`
}

// FuzzDecode holds the strict reader against the lenient one of the standard
// library. What the strict one takes, the lenient one reads as the same; it
// takes no document that two readers could read differently; and what it
// passes on keeps its bytes.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"text":"a","count":1,"flag":true,"list":["x"],"map":{"k":"v"},"inner":{"text":"b"},"raw":{"n":1.50},"pointer":null}`,
		`{"text":"a","text":"b"}`, `{"Text":"a"}`, `{"text":"a","TEXT":"b"}`, `{"t\u0065xt":"a","text":"b"}`, `{"inner":{"inner":{"inner":{}}}}`, `{"count":1e2}`,
		`{"count":9223372036854775808}`, `{"text":"\ud800"}`, "{\"text\":\"\xff\"}", `{"raw":1E+400}`, `{"raw":[ 1 , 2 ]}`, `{"map":{"a":"1","a":"2"}}`, `{} {}`, `[]`, ``, "\ufeff{}", `{"text":"a",}`, `{"t\u017fxt":"a"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		if strict.Check(data, strict.Limits{Depth: 16, Members: 64, Name: 64}) != nil {
			return
		}
		require.True(t, json.Valid(data), "it is JSON to everybody")
		var ours, theirs door
		if strict.Decode(data, &ours) != nil {
			return
		}
		require.Equal(t, before, data, "the document is left alone")
		strictly := json.NewDecoder(bytes.NewReader(data))
		strictly.DisallowUnknownFields()
		require.NoError(t, strictly.Decode(&theirs), "what is taken is known by its name")
		require.Equal(t, theirs.Text, ours.Text)
		require.Equal(t, theirs.Count, ours.Count)
		require.Equal(t, theirs.Flag, ours.Flag)
		require.Equal(t, theirs.Map, ours.Map)
		require.Equal(t, theirs.Pointer, ours.Pointer)
		require.True(t, len(theirs.List) == 0 && len(ours.List) == 0 || reflect.DeepEqual(theirs.List, ours.List))
		require.Equal(t, string(theirs.Raw), string(ours.Raw), "its bytes are kept")
		if len(ours.Raw) > 0 {
			require.Contains(t, string(data), string(ours.Raw))
		}
		require.False(t, twice(data), "no name stands twice, in any case, where names are known")
	})
}

// twice reports whether a name of the document's own stands twice in it, in
// whatever case, as a lenient reader compares names.
func twice(data []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return false
	}
	seen := map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		text, ok := name.(string)
		if err != nil || !ok {
			return false
		}
		if text = strings.ToLower(text); seen[text] {
			return true
		}
		seen[text] = true
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return false
		}
	}
	return false
}

// FuzzError: what a caller is told of a bad document has the names on the way
// to what is wrong, and no value.
func FuzzError(f *testing.F) {
	for _, s := range []string{`{"text":%s}`, `{"count":%s}`, `{"inner":{"list":[%s,1]}}`, `{"map":{"a":%s},"map":1}`, `[%s]`, `%s`, `{"raw":%s`, `{"flag":%s} x`, `{"text":%s,"text":1}`} {
		f.Add(s)
	}
	const value = "AGWCANARY-value-0123456789abcdef"
	f.Fuzz(func(t *testing.T, form string) {
		form = strings.ReplaceAll(form, "AGW", "") // only the value has it
		doc := []byte(strings.ReplaceAll(form, "%s", `"`+value+`"`))
		var d door
		for _, err := range []error{strict.Check(doc, strict.Limits{}), strict.Decode(doc, &d)} {
			if err == nil || name(doc, value) {
				continue
			}
			require.NotContains(t, err.Error(), value)
		}
	})
}

// name reports whether a text may be read as the name of a member, be the
// document cut off right behind it.
func name(doc []byte, text string) bool {
	before, after, found := bytes.Cut(doc, []byte(`"`+text+`"`))
	for found {
		if b := bytes.TrimSpace(before); bytes.HasSuffix(b, []byte("{")) || bytes.HasSuffix(b, []byte(",")) || bytes.HasPrefix(bytes.TrimSpace(after), []byte(":")) {
			return true
		}
		before, after, found = bytes.Cut(after, []byte(`"`+text+`"`))
	}
	return false
}
