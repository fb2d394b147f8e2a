package jsonschema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/jsonschema"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, schema, instance string
		want                   []string
	}{
		{"true", `true`, `{"a":1}`, nil},
		{"false", `false`, `1`, []string{"(root): is not allowed"}},
		{"fits", `{"type":"object","required":["ok"],"properties":{"ok":{"const":true}}}`, `{"ok":true}`, nil},
		{"const", `{"properties":{"ok":{"const":true}}}`, `{"ok":"yes"}`, []string{"/ok: must be true"}},
		{"const null", `{"const":null}`, `0`, []string{"(root): must be null"}},
		{"const false", `{"const":false}`, `0`, []string{"(root): must be false"}},
		{"a name twice", `{"properties":{"a":{"items":{"required":["ok"]}}}}`, `{"a":[{"ok":1},{"ok":1,"x/y":2,"x\u002fy":3}]}`, []string{"/a/1/x~1y: stands twice in its object; readers differ on which one counts"}},
		{"a name twice, whatever the schema", `true`, `{"ok":1,"ok":1}`, []string{"/ok: stands twice in its object; readers differ on which one counts"}},
		{"type", `{"type":"object"}`, `[]`, []string{"(root): must be object, is array"}},
		{"types", `{"type":["integer","null"]}`, `1.5`, []string{"(root): must be null or integer, is number"}},
		{"integer by value", `{"type":"integer"}`, `1.0`, nil},
		{"required", `{"required":["b","a"]}`, `{}`, []string{`(root): must have "a", "b"`}},
		{
			"every message, by place", `{"type":"array","items":{"type":"object","required":["id"],"properties":{"n":{"minimum":3}}}}`,
			`[{"id":1,"n":1},{"n":2},1,1,1,1,1,1,1,1,"x"]`,
			[]string{
				"/0/n: must be at least 3", `/1: must have "id"`, "/1/n: must be at least 3",
				"/2: must be object, is number", "/3: must be object, is number", "/4: must be object, is number",
				"/5: must be object, is number", "/6: must be object, is number", "/7: must be object, is number",
				"/8: must be object, is number", "/9: must be object, is number", "/10: must be object, is string",
			},
		},
		{"enum", `{"enum":["a",1,null,true,{}]}`, `"secret"`, []string{`(root): must be one of "a", 1, null, true, a given object`}},
		{"pattern", `{"pattern":"^a+$"}`, `"secret"`, []string{"(root): must match the pattern ^a+$"}},
		{"strings", `{"minLength":3,"maxLength":1}`, `"äö"`, []string{"(root): must have at least 3 characters, has 2", "(root): must have at most 1 characters, has 2"}},
		{"items", `{"minItems":3,"maxItems":1,"uniqueItems":true}`, `[1,1.0]`, []string{
			"(root): must have at least 3 items, has 2", "(root): must have at most 1 items, has 2", "(root): must not hold an item twice",
		}},
		{"members", `{"minProperties":2,"maxProperties":0}`, `{"a":1}`, []string{"(root): must have at least 2 members, has 1", "(root): must have at most 0 members, has 1"}},
		{"additional", `{"properties":{"a":true},"additionalProperties":false}`, `{"a":1,"c":2,"b":3}`, []string{`(root): must not have "b", "c"`}},
		{"unevaluated", `{"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, `{"a":1,"b":3}`, []string{"/b: is not allowed"}},
		{"prefix", `{"prefixItems":[{"type":"string"}],"items":false}`, `[1,2]`, []string{"/0: must be string, is number", "/1: is not allowed"}},
		{"contains", `{"contains":{"const":5}}`, `[1]`, []string{"(root): must hold an item that fits the schema under contains"}},
		{"min contains", `{"contains":{"const":5},"minContains":2}`, `[5]`, []string{"(root): must hold at least 2 items that fit the schema under contains, holds 1"}},
		{"dependent", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []string{`(root): must have "b" where it has "a"`}},
		{"not", `{"not":{"type":"string"}}`, `"x"`, []string{"(root): must not fit the schema under not"}},
		{"if", `{"if":{"const":1},"then":false,"else":true}`, `1`, []string{"(root): is not allowed"}},
		{
			"any", `{"anyOf":[{"type":"string"},{"properties":{"a":{"type":"null"}},"required":["b"]}]}`, `{"a":1}`,
			[]string{`(root): fits none of the alternatives: (0) must be string, is object (1) must have "b", /a must be null, is number`},
		},
		{"one, none", `{"oneOf":[{"type":"string"},{"type":"null"}]}`, `1`, []string{"(root): fits none of the alternatives: (0) must be string, is number (1) must be null, is number"}},
		{"one, two", `{"oneOf":[{"minimum":1},{"minimum":2}]}`, `3`, []string{"(root): must fit one alternative only, fits those at 0 and 1"}},
		{"names", `{"properties":{"o":{"propertyNames":{"pattern":"^a"}}}}`, `{"o":{"b":1,"a":1}}`, []string{`the property name "b" must match the pattern ^a`}},
		{"pointer", `{"properties":{"a/b~c":{"type":"null"}}}`, `{"a/b~c":1}`, []string{"/a~1b~0c: must be null, is number"}},
		{"ref", `{"$ref":"#/$defs/p","$defs":{"p":{"type":"null"}}}`, `1`, []string{"(root): must be null, is number"}},
		{"anchor", `{"$ref":"#p","$defs":{"x":{"$anchor":"p","type":"null"}}}`, `1`, []string{"(root): must be null, is number"}},
		{"ref outside $defs", `{"$ref":"#/components/schemas/p","components":{"schemas":{"p":{"type":"null"}}}}`, `1`, []string{"(root): must be null, is number"}},
		{"$id at the root is a name", `{"$id":"https://example.com/s","$ref":"#/$defs/p","$defs":{"p":{"type":"null"}}}`, `1`, []string{"(root): must be null, is number"}},
		{"$schema", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"null"}`, `null`, nil},
		{"data that looks like a reference", `{"const":{"$ref":"http://example.com"},"properties":{"$ref":true}}`, `{"$ref":"http://example.com"}`, nil},
		{"format asserts nothing", `{"format":"date"}`, `"nonsense"`, nil},
		{"a tree", `{"properties":{"c":{"type":"array","items":{"$ref":"#"}},"v":{"type":"integer"}},"required":["v"]}`, `{"v":1,"c":[{"v":2,"c":[{"v":"x"}]}]}`, []string{"/c/0/c/0/v: must be integer, is string"}},
		{"a dynamic tree", `{"$dynamicAnchor":"n","properties":{"c":{"$dynamicRef":"#n"},"v":{"type":"integer"}}}`, `{"c":{"c":{"v":"x"}}}`, []string{"/c/c/v: must be integer, is string"}},
		{"not JSON", `true`, `{bad`, []string{"(root): is not valid JSON"}},
		{"trailing data", `true`, `1 x`, []string{"(root): is not valid JSON"}},
		{"depth", `true`, strings.Repeat("[", 70) + strings.Repeat("]", 70), []string{"(root): is nested more than 64 levels deep"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := jsonschema.Compile(json.RawMessage(tt.schema))
			require.NoError(t, err)
			for range 5 { // maps are read in another order each time
				require.Equal(t, tt.want, s.Validate(json.RawMessage(tt.instance)))
			}
		})
	}
}

func TestNumbersKeepTheirPrecision(t *testing.T) {
	t.Parallel()
	tests := []struct {
		schema, instance string
		fits             bool
	}{
		{`{"const":9007199254740993}`, `9007199254740993`, true},
		{`{"const":9007199254740993}`, `9007199254740992`, false},
		{`{"const":1}`, `1.0`, true},
		{`{"const":1}`, `10e-1`, true},
		{`{"maximum":123456789012345678901234567890}`, `123456789012345678901234567890`, true},
		{`{"maximum":123456789012345678901234567890}`, `123456789012345678901234567891`, false},
		{`{"multipleOf":0.01}`, `19.99`, true},
		{`{"multipleOf":0.1}`, `0.30000000000000000001`, false},
		{`{"type":"integer"}`, `1e300`, true},
		{`{"enum":[1e2]}`, `100`, true},
	}
	for _, tt := range tests {
		s, err := jsonschema.Compile(json.RawMessage(tt.schema))
		require.NoError(t, err)
		require.Equal(t, tt.fits, len(s.Validate(json.RawMessage(tt.instance))) == 0, "%s %s", tt.schema, tt.instance)
	}
	s, err := jsonschema.Compile(json.RawMessage(`{"minimum":0.1}`))
	require.NoError(t, err)
	require.Equal(t, []string{"(root): must be at least 0.1"}, s.Validate(json.RawMessage(`0`)))
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	s, err := jsonschema.Compile(json.RawMessage(`{"items":{"type":"string"}}`))
	require.NoError(t, err)
	got := s.Validate(json.RawMessage("[" + strings.Repeat("1,", 9999) + "1]"))
	require.Len(t, got, 101)
	require.Equal(t, "/99: must be string, is number", got[99])
	require.Equal(t, "and 9900 more", got[100])

	s, err = jsonschema.Compile(json.RawMessage(`{"additionalProperties":{"type":"string"}}`))
	require.NoError(t, err)
	name := strings.Repeat("ä", 5000)
	got = s.Validate(json.RawMessage(`{"` + name + `":1}`))
	require.Equal(t, []string{"/" + strings.Repeat("ä", 40) + "…: must be string, is number"}, got)
}

func TestNoMessageHoldsAValueOfTheDocument(t *testing.T) {
	t.Parallel()
	const canary = "canary-5f1d"
	schemas := []string{
		`{"const":"x"}`, `{"enum":["x","y"]}`, `{"pattern":"^x$"}`, `{"maxLength":3}`, `{"not":true}`, `{"type":"null"}`,
		`{"anyOf":[{"const":1},{"pattern":"^x$"}]}`, `{"oneOf":[{"const":1},{"enum":[2]}]}`, `false`,
	}
	for _, text := range schemas {
		s, err := jsonschema.Compile(json.RawMessage(text))
		require.NoError(t, err)
		got := s.Validate(json.RawMessage(`"` + canary + `"`))
		require.NotEmpty(t, got, text)
		require.NotContains(t, strings.Join(got, "\n"), canary)
	}
	for _, text := range []string{`{"minimum":7770000}`, `{"multipleOf":2}`, `{"exclusiveMaximum":1}`, `{"maximum":2}`, `{"const":3}`} {
		s, err := jsonschema.Compile(json.RawMessage(text))
		require.NoError(t, err)
		got := s.Validate(json.RawMessage(`5559991`))
		require.NotEmpty(t, got, text)
		require.NotContains(t, strings.Join(got, "\n"), "5559991")
	}
}

func FuzzCompileAndValidate(f *testing.F) {
	f.Add(`{"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}}`, `{"a":{"a":1}}`)
	f.Add(`{"$dynamicAnchor":"n","anyOf":[{"$dynamicRef":"#n"}]}`, `[1,2,3]`)
	f.Add(`{"uniqueItems":true,"contains":{"multipleOf":0.1},"unevaluatedItems":false}`, `[1e5,"a",{"b":null}]`)
	f.Add(`{"patternProperties":{"^a{3}$":{"minimum":1e400}},"propertyNames":{"maxLength":2}}`, `{"aaa":-1e400}`)
	f.Add(`{"$id":"a","$defs":{"x":{"$id":"b","$ref":"c"}}}`, `null`)
	f.Fuzz(func(t *testing.T, schema, instance string) {
		s, err := jsonschema.Compile(json.RawMessage(schema))
		if err != nil {
			require.Nil(t, s)
			require.NotEmpty(t, err.Error())
			return
		}
		first := s.Validate(json.RawMessage(instance))
		require.Equal(t, first, s.Validate(json.RawMessage(instance)))
		require.LessOrEqual(t, len(first), 101)
	})
}
