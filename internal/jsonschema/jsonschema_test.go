package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/jsonschema"
)

func compile(t *testing.T, text string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.Compile(json.RawMessage(text))
	require.NoError(t, err)
	return s
}

func TestValidate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, schema, instance string
		want                   []string
	}{
		{"true", `true`, `{"a":1}`, nil},
		{"false", `false`, `1`, []string{"(root): is not allowed"}},
		{"fits", `{"type":"object","required":["ok"],"properties":{"ok":{"const":true}}}`, `{"ok":true}`, nil},
		{"const", `{"properties":{"ok":{"const":true}}}`, `{"ok":"yes"}`, []string{"/ok: value must be true"}},
		{"const null", `{"const":null}`, `0`, []string{"(root): value must be null"}},
		{"const false", `{"const":false}`, `0`, []string{"(root): value must be false"}},
		{"a name twice", `{"properties":{"a":{"items":{"required":["ok"]}}}}`, `{"a":[{"ok":1},{"ok":1,"x/y":2,"x\u002fy":3}]}`, []string{"/a/1/x~1y: appears twice in its object; readers differ on which one counts"}},
		{"a name twice, whatever the schema", `true`, `{"ok":1,"ok":1}`, []string{"/ok: appears twice in its object; readers differ on which one counts"}},
		{"type", `{"type":"object"}`, `[]`, []string{"(root): got array, want object"}},
		{"a precise number", `{"const":9007199254740993}`, `9007199254740992`, []string{"(root): value must be 9007199254740993"}},
		{"a precise fraction", `{"multipleOf":0.1}`, `0.30000000000000000001`, []string{"(root): multipleOf: want 0.1"}},
		{"minimum", `{"minimum":0.1}`, `0`, []string{"(root): minimum: want 0.1"}},
		{"types", `{"type":["integer","null"]}`, `1.5`, []string{"(root): got number, want null or integer"}},
		{"integer by value", `{"type":"integer"}`, `1.0`, nil},
		{"required", `{"required":["b","a"]}`, `{}`, []string{`(root): missing properties 'b', 'a'`}},
		{
			"every message, by place", `{"type":"array","items":{"type":"object","required":["id"],"properties":{"n":{"minimum":3}}}}`,
			`[{"id":1,"n":1},{"n":2},1,1,1,1,1,1,1,1,"x"]`,
			[]string{
				"/0/n: minimum: want 3", "/1: missing property 'id'", "/1/n: minimum: want 3",
				"/2: got number, want object", "/3: got number, want object", "/4: got number, want object",
				"/5: got number, want object", "/6: got number, want object", "/7: got number, want object",
				"/8: got number, want object", "/9: got number, want object", "/10: got string, want object",
			},
		},
		{"enum", `{"enum":["a",1,null,true,{}]}`, `"secret"`, []string{"(root): 'enum' failed"}},
		{"pattern", `{"pattern":"^a+$"}`, `"secret"`, []string{"(root): does not match pattern ^a+$"}},
		{"strings", `{"minLength":3,"maxLength":1}`, `"äö"`, []string{"(root): maxLength: got 2, want 1", "(root): minLength: got 2, want 3"}},
		{"items", `{"minItems":3,"maxItems":1,"uniqueItems":true}`, `[1,1.0]`, []string{
			"(root): items at 0 and 1 are equal", "(root): maxItems: got 2, want 1", "(root): minItems: got 2, want 3",
		}},
		{"members", `{"minProperties":2,"maxProperties":0}`, `{"a":1}`, []string{"(root): maxProperties: got 1, want 0", "(root): minProperties: got 1, want 2"}},
		{"additional", `{"properties":{"a":true},"additionalProperties":false}`, `{"a":1,"c":2,"b":3}`, []string{"(root): additional properties 'b', 'c' not allowed"}},
		{"unevaluated", `{"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, `{"a":1,"b":3}`, []string{"/b: is not allowed"}},
		{"prefix", `{"prefixItems":[{"type":"string"}],"items":false}`, `[1,2]`, []string{"/0: got number, want string", "/1: is not allowed"}},
		{"contains", `{"contains":{"const":5}}`, `[1]`, []string{"(root): no items match contains schema"}},
		{"min contains", `{"contains":{"const":5},"minContains":2}`, `[5]`, []string{"(root): min 2 items required to match contains schema, but matched 1 items at 0"}},
		{"dependent", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []string{"(root): properties 'b' required, if 'a' exists"}},
		{"not", `{"not":{"type":"string"}}`, `"x"`, []string{"(root): 'not' failed"}},
		{"if", `{"if":{"const":1},"then":false,"else":true}`, `1`, []string{"(root): is not allowed"}},
		{
			"any", `{"anyOf":[{"type":"string"},{"properties":{"a":{"type":"null"}},"required":["b"]}]}`, `{"a":1}`,
			[]string{`(root): fits none of the alternatives: (0) got object, want string (1) missing property 'b', /a got number, want null`},
		},
		{"one, none", `{"oneOf":[{"type":"string"},{"type":"null"}]}`, `1`, []string{"(root): fits none of the alternatives: (0) got number, want string (1) got number, want null"}},
		{"one, two", `{"oneOf":[{"minimum":1},{"minimum":2}]}`, `3`, []string{"(root): 'oneOf' failed, subschemas 0, 1 matched"}},
		{"names", `{"properties":{"o":{"propertyNames":{"pattern":"^a"}}}}`, `{"o":{"b":1,"a":1}}`, []string{`the property name "b" does not match pattern ^a`}},
		{"pointer", `{"properties":{"a/b~c":{"type":"null"}}}`, `{"a/b~c":1}`, []string{"/a~1b~0c: got number, want null"}},
		{"ref", `{"$ref":"#/$defs/p","$defs":{"p":{"type":"null"}}}`, `1`, []string{"(root): got number, want null"}},
		{"anchor", `{"$ref":"#p","$defs":{"x":{"$anchor":"p","type":"null"}}}`, `1`, []string{"(root): got number, want null"}},
		{"ref outside $defs", `{"$ref":"#/components/schemas/p","components":{"schemas":{"p":{"type":"null"}}}}`, `1`, []string{"(root): got number, want null"}},
		{"$id at the root is a name", `{"$id":"https://example.com/s","$ref":"#/$defs/p","$defs":{"p":{"type":"null"}}}`, `1`, []string{"(root): got number, want null"}},
		{"$schema", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"null"}`, `null`, nil},
		{"data that looks like a reference", `{"const":{"$ref":"http://example.com"},"properties":{"$ref":true}}`, `{"$ref":"http://example.com"}`, nil},
		{"format asserts nothing", `{"format":"date"}`, `"nonsense"`, nil},
		{"a tree", `{"properties":{"c":{"type":"array","items":{"$ref":"#"}},"v":{"type":"integer"}},"required":["v"]}`, `{"v":1,"c":[{"v":2,"c":[{"v":"x"}]}]}`, []string{"/c/0/c/0/v: got string, want integer"}},
		{"a dynamic tree", `{"$dynamicAnchor":"n","properties":{"c":{"$dynamicRef":"#n"},"v":{"type":"integer"}}}`, `{"c":{"c":{"v":"x"}}}`, []string{"/c/c/v: got string, want integer"}},
		{"not JSON", `true`, `{bad`, []string{"(root): is not valid JSON"}},
		{"trailing data", `true`, `1 x`, []string{"(root): is not valid JSON"}},
		{"depth", `true`, strings.Repeat("[", 70) + strings.Repeat("]", 70), []string{"(root): is nested more than 64 levels deep"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, tt.schema)
			for range 5 { // maps are read in another order each time
				require.Equal(t, tt.want, s.Validate(json.RawMessage(tt.instance)))
			}
		})
	}
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"items":{"type":"string"}}`)
	got := s.Validate(json.RawMessage("[" + strings.Repeat("1,", 9999) + "1]"))
	require.Len(t, got, 101)
	require.Equal(t, "/99: got number, want string", got[99])
	require.Equal(t, "and 9900 more", got[100])

	s = compile(t, `{"additionalProperties":{"type":"string"}}`)
	name := strings.Repeat("ä", 5000)
	got = s.Validate(json.RawMessage(`{"` + name + `":1}`))
	require.Equal(t, []string{"/" + strings.Repeat("ä", 40) + "…: got number, want string"}, got)
}

func TestNoMessageHoldsAValueOfTheDocument(t *testing.T) {
	t.Parallel()
	const canary = "canary-5f1d"
	schemas := []string{
		`{"const":"x"}`, `{"enum":["x","y"]}`, `{"pattern":"^x$"}`, `{"maxLength":3}`, `{"not":true}`, `{"type":"null"}`,
		`{"anyOf":[{"const":1},{"pattern":"^x$"}]}`, `{"oneOf":[{"const":1},{"enum":[2]}]}`, `false`,
	}
	for _, text := range schemas {
		s := compile(t, text)
		got := s.Validate(json.RawMessage(`"` + canary + `"`))
		require.NotEmpty(t, got, text)
		require.NotContains(t, strings.Join(got, "\n"), canary)
	}
	for _, text := range []string{`{"minimum":7770000}`, `{"multipleOf":2}`, `{"exclusiveMaximum":1}`, `{"maximum":2}`, `{"const":3}`} {
		s := compile(t, text)
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

// TestCache: a schema is compiled once, until 256 others came after it.
func TestCache(t *testing.T) {
	t.Parallel()
	c := new(jsonschema.Cache)
	get := func(n int) *jsonschema.Schema {
		s, err := c.Compile(json.RawMessage(fmt.Sprintf(`{"const":%d}`, n)))
		require.NoError(t, err)
		return s
	}
	first := get(0)
	require.Same(t, first, get(0))
	for n := range 256 {
		get(n + 1)
	}
	require.NotSame(t, first, get(0))
	_, err := c.Compile(json.RawMessage(strings.Repeat(" ", 300<<10)))
	require.ErrorContains(t, err, "larger")
}

func repeat(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(format, "#i", strconv.Itoa(i))
	}
	return strings.Join(parts, ",")
}

func nest(depth int, open, inner, shut string) string {
	return strings.Repeat(open, depth) + inner + strings.Repeat(shut, depth)
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, schema, want string }{
		{"not JSON", `{`, "the schema is not valid JSON"},
		{"trailing data", `{} x`, "the schema is not valid JSON"},
		{"a number", `1`, "a schema is an object or a boolean"},
		{"null", `null`, "a schema is an object or a boolean"},
		{"size", `{"description":"` + strings.Repeat("x", 256<<10) + `"}`, "the schema is larger than 262144 bytes"},
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#"}`, "$schema must be https://json-schema.org/draft/2020-12/schema: no other dialect is supported"},
		{"own dialect", `{"$schema":"http://example.com/meta"}`, "$schema must be https://json-schema.org/draft/2020-12/schema: no other dialect is supported"},
		{"inner dialect", `{"$defs":{"a":{"$schema":"http://json-schema.org/draft-04/schema#"}}}`, "$schema must be https://json-schema.org/draft/2020-12/schema: no other dialect is supported"},
		{"remote", `{"$ref":"http://169.254.169.254/latest/"}`, "$ref must begin with '#': a schema may not refer to other documents"},
		{"file", `{"$ref":"file:///etc/passwd"}`, "$ref must begin with '#': a schema may not refer to other documents"},
		{"relative", `{"items":{"$ref":"other.json#/a"}}`, "$ref must begin with '#': a schema may not refer to other documents"},
		{"dynamic", `{"items":{"$dynamicRef":"//example.com/a#x"}}`, "$dynamicRef must begin with '#': a schema may not refer to other documents"},
		{"metaschema", `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, "$ref must begin with '#': a schema may not refer to other documents"},
		{"remote, where data is a schema", `{"$ref":"#/default","default":{"$ref":"http://example.com/"}}`, "a schema may not refer to other documents"},
		{"file, where data is a schema", `{"$ref":"#/const","const":{"$ref":"file:///etc/passwd"}}`, "a schema may not refer to other documents"},
		{"dialect, where data is a schema", `{"$ref":"#/default","default":{"$id":"x","$schema":"http://json-schema.org/draft-07/schema#"}}`, "the schema uses a dialect other than https://json-schema.org/draft/2020-12/schema"},
		{"inner $id", `{"$defs":{"a":{"$id":"http://example.com/"}}}`, "$id is allowed at the root of the schema only"},
		{"$id", `{"$id":1}`, "$id must be a string"},
		{"nowhere", `{"$ref":"#/$defs/a"}`, "a $ref in the schema leads nowhere"},
		{"no anchor", `{"$ref":"#a"}`, "a $ref in the schema leads nowhere"},
		{"two anchors", `{"$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}`, "an anchor appears twice in the schema"},
		{"metaschema says no", `{"properties":{"a":{"type":"strin"}}}`, "the schema is not valid: /properties/a/type: "},
		{"pattern", `{"pattern":"("}`, "the schema is not valid: /pattern: is not a valid regex"},
		{"look-ahead", `{"pattern":"(?=a)"}`, "the schema is not valid: /pattern: is not a valid regex"},
		{"depth", nest(80, `{"not":`, `true`, `}`), "the schema is nested more than 64 levels deep"},
		{"depth of data", `{"const":` + nest(80, `[`, ``, `]`) + `}`, "the schema is nested more than 64 levels deep"},
		{"parts", `{"allOf":[` + repeat(5000, `{"type":"null"}`) + `]}`, "the schema has too many parts"},
		{"pointers", `{"properties":{"` + strings.Repeat("k", 4000) + `":{"properties":{` + repeat(2000, `"a#i":true`) + `}}}}`, "the schema has too many parts"},
		{"references", `{"allOf":[` + repeat(600, `{"$ref":"#/x/#i"}`) + `],"x":[` + repeat(600, `true`) + `]}`, "the schema has references to more than 512 places"},
		{"big pattern", `{"pattern":"` + strings.Repeat("a{1000}", 100) + `"}`, "the patterns of the schema are too large"},
		{"many patterns", `{"patternProperties":{` + repeat(99, `"#ia{1000}":true`) + `}}`, "the patterns of the schema are too large"},
		{"big number", `{"minimum":1e1000000}`, "the schema holds a number that is too large or too long to be compared exactly"},
		{"big number in data", `{"enum":[1e-1000000]}`, "the schema holds a number that is too large or too long to be compared exactly"},
		{"long number", `{"maximum":` + strings.Repeat("9", 1000) + `}`, "the schema holds a number that is too large or too long to be compared exactly"},
		{"loop", `{"$ref":"#"}`, "the schema refers to itself without looking at a smaller part of the document"},
		{"loop of two", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}`, "the schema refers to itself without looking at a smaller part of the document"},
		{"dynamic loop", `{"$dynamicAnchor":"n","anyOf":[true,{"$dynamicRef":"#n"}]}`, "the schema refers to itself without looking at a smaller part of the document"},
		{"conditional loop", `{"dependentSchemas":{"a":{"$ref":"#"}}}`, "the schema refers to itself without looking at a smaller part of the document"},
		{"loop under not", `{"not":{"if":{"$ref":"#"}}}`, "the schema refers to itself without looking at a smaller part of the document"},
	}
	for _, tt := range tests {
		_, err := jsonschema.Compile(json.RawMessage(tt.schema))
		require.ErrorContains(t, err, tt.want, tt.name)
		require.NotContains(t, err.Error(), "mem://", tt.name)
	}
}

// Each of these pairs would keep the validator busy for minutes or longer, or
// take memory by the gigabyte. That the test ends is part of what it tests.
func TestValidateRefusesWhatCannotBeJudgedInTime(t *testing.T) {
	t.Parallel()
	collide := func(i int) string { // lists of other texts that the library hashes alike
		var b strings.Builder
		b.WriteString(`["a`)
		for k := range 13 {
			b.WriteString([]string{`","a`, `\u0004a`}[i>>k&1])
		}
		b.WriteString(`"]`)
		return b.String()
	}
	var collisions []string
	for i := range 1 << 13 {
		collisions = append(collisions, collide(i))
	}
	tests := []struct{ name, schema, instance string }{
		{
			"doubling by depth", `{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`,
			nest(40, "[", "1", "]"),
		},
		{"doubling by properties", `{"properties":{"a":{"$ref":"#"}},"patternProperties":{"a":{"$ref":"#"}}}`, nest(40, `{"a":`, "1", "}")},
		{"doubling by dependents", `{"dependentSchemas":{"a":{"properties":{"a":{"$ref":"#"}}}},"properties":{"a":{"$ref":"#"}}}`, nest(40, `{"a":`, "1", "}")},
		{"enum times items", `{"items":{"enum":[` + repeat(20000, `#i`) + `]}}`, "[" + strings.Repeat("-1,", 999) + "-1]"},
		{"required times items", `{"items":{"required":[` + repeat(10000, `"#i"`) + `]}}`, "[" + strings.Repeat("{},", 999) + "{}]"},
		{"allOf times items", `{"items":{"allOf":[` + repeat(4000, `{"type":"null"}`) + `]}}`, "[" + strings.Repeat("1,", 9999) + "1]"},
		{"pattern times text", `{"pattern":"(.*a){0,900}b"}`, `"` + strings.Repeat("a", 100000) + `"`},
		{"pattern times names", `{"patternProperties":{"(.*a){0,900}b":true}}`, `{"` + strings.Repeat("a", 100000) + `":1}`},
		{"unevaluated copies", `{"unevaluatedProperties":false,"allOf":[` + repeat(1000, `{"properties":{"x":true}}`) + `]}`, `{` + repeat(1000, `"a#i":1`) + `}`},
		{"colliding hashes", `{"uniqueItems":true}`, "[" + strings.Join(collisions, ",") + "]"},
		{"long arithmetic", `{"items":{"multipleOf":3e-500}}`, "[" + strings.Repeat("9e500,", 99999) + "1]"},
		{"a million failures", `{"items":{"type":"string"}}`, "[" + strings.Repeat("1,", 650_000) + "1]"},
		{"chain times depth", func() string {
			var b strings.Builder
			for i := range 400 {
				fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"}]},`, i, i+1)
			}
			return `{"$ref":"#/$defs/d0","$defs":{` + b.String() + `"d400":{"items":{"$ref":"#"}}}}`
		}(), nest(60, "[", "1", "]")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, tt.schema)
			require.Equal(t, []string{"(root): the document is too large to be checked by this schema"}, s.Validate(json.RawMessage(tt.instance)))
		})
	}
}

// double is a schema that applies its innermost subschema 2^n times.
func double(n int, op string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"%s":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%[3]d"}]},`, i, op, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"type":"string"}}}`, n)
	return b.String()
}

// A schema that is too costly for the smallest of documents is of no use, and
// its author hears of it before a call is made.
func TestCompileRefusesWhatNoDocumentCanBeJudgedBy(t *testing.T) {
	t.Parallel()
	for _, keyword := range []string{"anyOf", "allOf", "oneOf"} {
		_, err := jsonschema.Compile(json.RawMessage(double(60, keyword)))
		require.EqualError(t, err, "the schema is too costly to check a document with; it may apply itself too often", keyword)
	}
	_, err := jsonschema.Compile(json.RawMessage(`{"items":{"$ref":"#"},"properties":{"a":{"$ref":"#"}}}`))
	require.NoError(t, err)
}

func TestValidateRefusesNumbersItCannotCompare(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"minimum":1,"multipleOf":3}`)
	for _, n := range []string{"1e1000001", "1e999999", "-1e-999999", "1e99999999999999999999", strings.Repeat("9", 5000)} {
		require.Equal(t, []string{"(root): holds a number that is too large or too long to be compared exactly"}, s.Validate(json.RawMessage(n)), "%.20s", n)
	}
}

func TestLargeDocumentsAreJudged(t *testing.T) {
	t.Parallel()
	s, err := jsonschema.Compile(json.RawMessage(`{"type":"array","items":{"type":"object","required":["id","name"],"additionalProperties":false,
		"properties":{"id":{"type":"integer","minimum":0},"name":{"type":"string","pattern":"^[a-z]+$","maxLength":40},"tags":{"type":"array","uniqueItems":true,"items":{"enum":["a","b","c"]}}}}}`))
	require.NoError(t, err)
	require.Empty(t, s.Validate(json.RawMessage("["+repeat(2000, `{"id":#i,"name":"somebody","tags":["a","b"]}`)+"]")))
	s = compile(t, `{"type":"array"}`)
	require.Empty(t, s.Validate(json.RawMessage("["+strings.Repeat("1,", 300_000)+"1]")))
}

// FuzzReference puts a reference wherever a schema can have one. One that leads
// out of its document is refused, in words that do not repeat it, and nothing is
// loaded; one that leads into it leads somewhere or is refused as well.
func FuzzReference(f *testing.F) {
	for _, ref := range []string{
		"#", "#/$defs/a", "#a", "#/nowhere", "file:///etc/passwd", "FILE:///etc/passwd", "http://127.0.0.1:1/", "https://json-schema.org/draft/2020-12/schema", "mem:///schema", "mem:///schema#", "other.json", "/etc/passwd",
		"//host/share", "", " #", "\t#", "#\n", "?#", "urn:uuid:4f7b1d3e", "data:application/json,{}", "..", "#/%24defs/a", "#/$defs/a/../b", "%23", "jar:file:///a!/b",
	} {
		f.Add(ref, uint8(0))
		f.Add(ref, uint8(1))
		f.Add(ref, uint8(2))
	}
	f.Fuzz(func(t *testing.T, ref string, place uint8) {
		text, err := json.Marshal(ref)
		require.NoError(t, err)
		form := []string{
			`{"$ref":R,"$defs":{"a":{"$anchor":"a"}}}`,
			`{"properties":{"x":{"anyOf":[{"$dynamicRef":R}]}},"$defs":{"a":{"$dynamicAnchor":"a"}}}`,
			`{"$defs":{"a":{"items":{"$ref":R}}},"$ref":"#/$defs/a"}`,
			`{"$schema":R}`, `{"$defs":{"a":{"$id":R}}}`, `{"$id":R,"$ref":"#"}`,
		}[place%6]
		s, err := jsonschema.Compile(json.RawMessage(strings.ReplaceAll(form, "R", string(text))))
		inside := strings.HasPrefix(strings.ToValidUTF8(ref, "\uFFFD"), "#")
		if place%6 < 3 && !inside {
			require.Error(t, err, "a reference that leads out")
		}
		if err != nil {
			require.Nil(t, s)
			if len(ref) > 8 && !strings.Contains(form+jsonschema.Draft+words, ref) {
				require.NotContains(t, err.Error(), ref)
			}
			return
		}
		_ = s.Validate(json.RawMessage(`{"x":[1,{"a":null}]}`))
	})
}

// words are what errors say whatever was asked.
const words = "the schema may not refer to other documents a $ref in the schema leads nowhere an anchor appears twice must begin with"
