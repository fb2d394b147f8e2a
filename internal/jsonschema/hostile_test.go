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
		{"two anchors", `{"$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}`, "an anchor stands twice in the schema"},
		{"metaschema says no", `{"properties":{"a":{"type":"strin"}}}`, "the schema is not valid: /properties/a/type: "},
		{"pattern", `{"pattern":"("}`, "the schema is not valid: /pattern: must be a valid regex"},
		{"look-ahead", `{"pattern":"(?=a)"}`, "the schema is not valid: /pattern: must be a valid regex"},
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
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := jsonschema.Compile(json.RawMessage(tt.schema))
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "mem://")
		})
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
			s, err := jsonschema.Compile(json.RawMessage(tt.schema))
			require.NoError(t, err)
			require.Equal(t, []string{"(root): the document is too large to be judged by this schema"}, s.Validate(json.RawMessage(tt.instance)))
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
		require.EqualError(t, err, "the schema is too costly to judge any document by; it may apply itself too often", keyword)
	}
	_, err := jsonschema.Compile(json.RawMessage(`{"items":{"$ref":"#"},"properties":{"a":{"$ref":"#"}}}`))
	require.NoError(t, err)
}

func TestValidateRefusesNumbersItCannotCompare(t *testing.T) {
	t.Parallel()
	s, err := jsonschema.Compile(json.RawMessage(`{"minimum":1,"multipleOf":3}`))
	require.NoError(t, err)
	for _, n := range []string{"1e1000001", "1e999999", "-1e-999999", "1e99999999999999999999", strings.Repeat("9", 5000)} {
		require.Equal(t, []string{"(root): holds a number that is too large or too long to be compared exactly"}, s.Validate(json.RawMessage(n)), "%.20s", n)
	}
}

func TestLargeDocumentsAreJudged(t *testing.T) {
	t.Parallel()
	s, err := jsonschema.Compile(json.RawMessage(`{"type":"array","items":{"type":"object","required":["id","name"],"additionalProperties":false,
		"properties":{"id":{"type":"integer","minimum":0},"name":{"type":"string","pattern":"^[a-z]+$","maxLength":40},"tags":{"type":"array","uniqueItems":true,"items":{"enum":["a","b","c"]}}}}}`))
	require.NoError(t, err)
	require.Empty(t, s.Validate(json.RawMessage("["+repeat(5000, `{"id":#i,"name":"somebody","tags":["a","b"]}`)+"]")))
	s, err = jsonschema.Compile(json.RawMessage(`{"type":"array"}`))
	require.NoError(t, err)
	require.Empty(t, s.Validate(json.RawMessage("["+strings.Repeat("1,", 700_000)+"1]")))
}
