package strict_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/schemas"
)

func nest(open, shut string, n int) string { return strings.Repeat(open, n) + strings.Repeat(shut, n) }

func members(n int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"k` + strconv.Itoa(i) + `":0`)
	}
	b.WriteByte('}')
	return b.String()
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ body, says string }{
		"empty":                     {"", "empty"},
		"white space only":          {" \n\t ", "empty"},
		"byte order mark":           {"\ufeff{}", "begins with a byte order mark"},
		"byte order mark alone":     {"\ufeff", "begins with a byte order mark"},
		"byte order mark behind":    {" \ufeff{}", "not valid JSON at byte 1"},
		"trailing comma":            {`{"a":1,}`, "not valid JSON at byte 6"},
		"two documents":             {`{"a":1}{"b":2}`, "exactly one"},
		"trailing word":             {`{} x`, "exactly one"},
		"trailing bracket":          {`{}]`, "exactly one"},
		"NaN":                       {`{"a":NaN}`, "at /a"},
		"infinity":                  {`{"a":Infinity}`, "at /a"},
		"leading zero":              {`{"a":01}`, "not valid JSON"},
		"comment":                   {"// c\n{}", "not valid JSON"},
		"bare name":                 {`{a:1}`, "not valid JSON"},
		"raw control character":     {"{\"a\":\"\x01\"}", "at /a"},
		"lone high surrogate":       {`{"a":"\ud800"}`, "at /a: a lone surrogate at byte 6"},
		"half an emoji":             {`{"a":"hm \ud83d\u0041"}`, "at /a: a lone surrogate at byte 9"},
		"half an emoji in a name":   {`{"\uD83D":1}`, "a lone surrogate at byte 2"},
		"half an escape":            {`{"a":"\ud8z"}`, "not valid JSON at byte 6"},
		"lone low surrogate":        {`{"a":"\udc00x"}`, "at /a: a lone surrogate at byte 6"},
		"invalid UTF-8 in a string": {"{\"a\":\"\xff\"}", "UTF-8"},
		"invalid UTF-8 in a name":   {"{\"\xc3\x28\":1}", "UTF-8"},
		"UTF-16":                    {"{\x00}\x00", "not valid JSON"},
		"duplicate":                 {`{"a":1,"a":2}`, "at /a: the name appears twice"},
		"duplicate by escape":       {`{"method":1,"metho\u0064":2}`, "at /method: the name appears twice"},
		"duplicate deep down":       {`{"x":[{"y":{"a":1,"b":2,"a":3}}]}`, "at /x/0/y/a"},
		"cut in a string":           {`{"a":"b`, "ends too early"},
		"cut in an object":          {`{"a":`, "ends too early"},
		"cut in an array":           {`[1,2`, "ends too early"},
		"arrays too deep":           {nest("[", "]", 65), "deeper than 64"},
		"objects too deep":          {strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), "deeper than 64"},
		"too many members":          {members(10_000), "more than 9999 members"},
		"too many members nested":   {`[` + members(6000) + `,` + members(6000) + `]`, "more than 9999 members"},
		"name too long":             {`{"` + strings.Repeat("k", 4097) + `":1}`, "a name is longer than 4096 bytes"},
		"NUL after the document":    {"{}\x00", "exactly one"},
	} {
		err := strict.Check([]byte(tc.body), strict.Limits{})
		var public *fault.Error
		require.ErrorAs(t, err, &public, name)
		require.Equal(t, schemas.InvalidRequest, public.Code, name)
		require.Contains(t, public.Message, tc.says, name)
	}
}

func TestCheckAccepts(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"object":                      `{}`,
		"surrounded by white space":   " \r\n{\t}\n",
		"just deep enough":            nest("[", "]", 64),
		"just few enough members":     members(9_999),
		"many array items":            "[" + strings.Repeat("0,", 100_000) + "0]",
		"surrogate pair":              `{"a":"\ud83d\ude00"}`,
		"huge number":                 `{"a":123456789012345678901234567890.5e999}`,
		"names that differ in case":   `{"a":1,"A":2}`,
		"one long name":               `{` + strings.Repeat(" ", 5000) + `"` + strings.Repeat("k", 4096) + `":1}`,
		"one long string":             `["` + strings.Repeat("k", 100_000) + `"]`,
		"strings as array items":      `["a","b","a"]`,
		"name of an object in a list": `[{"a":1},{"a":1}]`,
	} {
		require.NoError(t, strict.Check([]byte(body), strict.Limits{}), name)
	}
}

func TestCheckLimitsAreConfigurable(t *testing.T) {
	t.Parallel()
	require.NoError(t, strict.Check([]byte(`[[1]]`), strict.Limits{Depth: 2}))
	require.Error(t, strict.Check([]byte(`[[[1]]]`), strict.Limits{Depth: 2}))
	require.Error(t, strict.Check([]byte(`{"a":{"b":1}}`), strict.Limits{Members: 1}))
}

type doc struct {
	Sequence uint64         `json:"sequence"`
	Note     string         `json:"note"`
	Flag     *bool          `json:"flag"`
	Raw      jsontext.Value `json:"state:raw"`
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body, says string
		code       schemas.Code
	}{
		"not an object": {`[]`, "the body must be a JSON object", schemas.InvalidRequest},
		"a string":      {`"secret"`, "the body must be a JSON object", schemas.InvalidRequest},
		"null":          {`null`, "the body must be a JSON object", schemas.InvalidRequest},
		"two spellings": {`{"sequence":1,"Sequence":2}`, "at /Sequence: the name appears twice in its object, in two spellings; send it once, as 'sequence'", schemas.InvalidRequest},
		"unknown":       {`{"sequence":1,"more":"secret"}`, "at /more: this member is not known here", ""},
		"other case":    {`{"Sequence":1}`, "this one is 'sequence'", ""},
		"wrong type":    {`{"note":5}`, "at /note: must be a string", ""},
		"wrong flag":    {`{"flag":"secret"}`, "at /flag: must be true or false", ""},
		"fraction":      {`{"sequence":1.5}`, "at /sequence: must be a whole number", ""},
		"negative":      {`{"sequence":-1}`, "at /sequence: must be a whole number", ""},
		"overflow":      {`{"sequence":1e309}`, "at /sequence: must be a whole number", ""},
	} {
		var d doc
		err := strict.Decode([]byte(tc.body), &d)
		var public *fault.Error
		require.ErrorAs(t, err, &public, name)
		require.Equal(t, cmp.Or(tc.code, schemas.ValidationError), public.Code, name)
		require.Contains(t, public.Message, tc.says, name)
		require.NotContains(t, public.Message, "secret", name)
	}
}

func TestDecodeKeepsRawBytes(t *testing.T) {
	t.Parallel()
	var d doc
	raw := `{ "n" : 9007199254740993.10, "e":1E2 }`
	require.NoError(t, strict.Decode([]byte(`{"state:raw":`+raw+`}`), &d))
	require.Equal(t, raw, string(d.Raw))
}

func TestPointerIsBounded(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("ä", 50_000)
	err := strict.Check([]byte(`{"`+name+`":1,"`+name+`":2}`), strict.Limits{})
	require.Error(t, err)
	require.Less(t, len(err.Error()), 400)
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	fp := func(s string) string {
		f, err := strict.Fingerprint([]byte(s))
		require.NoError(t, err)
		return f
	}
	base := fp(`{"a":1,"b":{"x":"é","y":[1,2]}}`)
	sum := sha256.Sum256([]byte(`{"a":1,"b":{"x":"é","y":[1,2]}}`))
	require.Equal(t, hex.EncodeToString(sum[:]), base, "what lies on the log was made like this")
	require.Equal(t, base, fp(` { "b" : {"y":[1, 2],"x":"\u00e9"}, "a":1 } `), "order, space and escapes do not count")
	for _, other := range []string{
		`{"a":1.0,"b":{"x":"é","y":[1,2]}}`,
		`{"a":1,"b":{"x":"é","y":[2,1]}}`,
		`{"a":"1","b":{"x":"é","y":[1,2]}}`,
		`{"a":1,"b":{"x":"É","y":[1,2]}}`,
	} {
		require.NotEqual(t, base, fp(other), other)
	}
	require.NotEqual(t, fp(`9007199254740992`), fp(`9007199254740993`), "numbers are exact")
	require.NotEqual(t, fp(`0.1`), fp(`0.10000000000000000001`))
}

func TestSpelling(t *testing.T) {
	t.Parallel()
	type known struct {
		IfMatch string `json:"if_match"`
		ID      string `json:"id,omitempty"`
	}
	for object, at := range map[string]string{
		`{}`: "", `{"if_match":1,"id":2}`: "", `{"other":1,"OTHER":2}`: "", `[{"ID":1}]`: "", `"ID"`: "", `{"more":{"ID":1}}`: "",
		`{"ID":1}`: "/args/ID", `{"id":1,"Id":2}`: "/args/Id", `{"if_match":1,"\u0131d":2,"If_Match":3}`: "/args/If_Match", `{"IF_MATCH":1}`: "/args/IF_MATCH",
	} {
		require.NoError(t, strict.Check([]byte(object), strict.Limits{}))
		err := strict.Spelling("/args", []byte(object), known{})
		if at == "" {
			require.NoError(t, err, object)
			continue
		}
		require.ErrorContains(t, err, "INVALID_REQUEST: at "+at+": ", object)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	type known struct {
		ID string `json:"id"`
	}
	var v known
	require.NoError(t, strict.Open("/args", []byte(`{"id":"a","other":{"ID":1}}`), &v))
	require.Equal(t, known{ID: "a"}, v)
	for object, want := range map[string]string{
		`{"ID":"a"}`: "VALIDATION_ERROR: at /args/ID: names are case-sensitive", `{"ID":"a","id":"b"}`: "INVALID_REQUEST: at /args/ID: the name appears twice", `{"id":1}`: "VALIDATION_ERROR: at /args/id: must be a string", `[]`: "VALIDATION_ERROR: at /args: must be an object",
	} {
		require.ErrorContains(t, strict.Open("/args", []byte(object), &v), want, object)
	}
}

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
		if strict.Check(data, strict.Limits{Depth: 16, Members: 64}) != nil {
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
