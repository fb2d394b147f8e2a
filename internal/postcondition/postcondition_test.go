package postcondition_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/postcondition"
	"weir/schemas"
)

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const invalid, unsupported = schemas.VariantInvalidPostcondition, schemas.VariantUnsupportedPostcondition
	tests := []struct{ doc, variant, message string }{
		{``, invalid, "must be an object or a list"},
		{`null`, invalid, "must be an object or a list"},
		{`"x"`, invalid, "must be an object or a list"},
		{`[`, invalid, "is not valid JSON"},
		{`{`, invalid, "is not valid JSON"},
		{`[]`, invalid, "must have at least one assertion"},
		{`{"assertions":[]}`, invalid, "must have at least one assertion"},
		{`{"assertions":{}}`, invalid, "assertions must be a list"},
		{`{"assertions":null}`, invalid, "assertions must be a list"},
		{`[` + strings.Repeat(`{"type":"http_status","equals":200},`, 100) + `{}]`, invalid, "must have at most 100 assertions"},
		{`[` + strings.Repeat(`{"type":"dom_contains","text":"x"},`, 16) + `{"type":"dom_contains","text":"x"}]`, invalid, "must have at most 16 assertions of type dom_contains"},
		{`{}`, unsupported, "must have a type, or a list of assertions"},
		{`{"equals":200}`, unsupported, "must have a type, or a list of assertions"},
		{`[{"equals":200}]`, invalid, "assertion 0: an assertion must have a type"},
		{`[{"type":"http_status","equals":200},1]`, invalid, "assertion 1: an assertion must be an object"},
		{`{"type":1}`, invalid, "the type of an assertion must be a string"},
		{`{"type":null}`, invalid, "the type of an assertion must be a string"},
		{`{"type":"header"}`, unsupported, "no such type of assertion: 'header'"},
		{`[{"type":"HTTP_STATUS","equals":200}]`, unsupported, "assertion 0: no such type of assertion: 'HTTP_STATUS'"},
		{`{"type":"` + strings.Repeat("ä", 50) + `"}`, unsupported, "no such type of assertion: '" + strings.Repeat("ä", 40) + "…'"},
		{`{"type":"http_status"}`, invalid, "http_status must have a number in equals"},
		{`{"type":"http_status","equals":"200"}`, invalid, "http_status must have a number in equals"},
		{`{"type":"http_status","equals":200.5}`, invalid, "equals of http_status must be an integer"},
		{`{"type":"json_path","equals":1}`, invalid, "json_path must have a string in path"},
		{`{"type":"json_path","path":1,"equals":1}`, invalid, "json_path must have a string in path"},
		{`{"type":"json_path","path":"$.a"}`, invalid, "json_path must have equals"},
		{`{"type":"json_path","path":"","equals":1}`, invalid, "the path of json_path must begin with $"},
		{`{"type":"json_path","path":"a.b","equals":1}`, invalid, "the path of json_path must begin with $"},
		{`{"type":"json_path","path":"$a","equals":1}`, invalid, "the path of json_path must go on with '.' or '['"},
		{`{"type":"json_path","path":"$.","equals":1}`, invalid, "the path of json_path must have a name after '.'"},
		{`{"type":"json_path","path":"$..a","equals":1}`, invalid, "the path of json_path must not search with '..'"},
		{`{"type":"json_path","path":"$.*","equals":1}`, invalid, "the path of json_path must put a name with special characters in quotes: ['name']; wildcards and filters are not supported"},
		{`{"type":"json_path","path":"$[","equals":1}`, invalid, "the path of json_path must close its brackets"},
		{`{"type":"json_path","path":"$[]","equals":1}`, invalid, "the path of json_path must have an index, 0 or more, or a quoted name in its brackets; wildcards, slices and filters are not supported"},
		{`{"type":"json_path","path":"$[-1]","equals":1}`, invalid, "the path of json_path must have an index, 0 or more, or a quoted name in its brackets; wildcards, slices and filters are not supported"},
		{`{"type":"json_path","path":"$[99999999999999999999]","equals":1}`, invalid, "the path of json_path has an index that is too large"},
		{`{"type":"json_path","path":"$['a","equals":1}`, invalid, "the path of json_path must close its quotes"},
		{`{"type":"json_path","path":"$['a'.b","equals":1}`, invalid, "the path of json_path must close a bracket right after the quoted name"},
		{`{"type":"dom_contains"}`, invalid, "dom_contains must have a string in text"},
		{`{"type":"dom_contains","text":" \n"}`, invalid, "the text of dom_contains must not be empty"},
		{`{"type":"dom_contains","text":"a","case_insensitive":"yes"}`, invalid, "case_insensitive of dom_contains must be a boolean"},
		{`{"type":"dom_contains","text":"a","selector":1}`, invalid, "the selector of dom_contains must be a string"},
		{`{"type":"dom_contains","text":"a","selector":""}`, invalid, "the selector of dom_contains must not be empty"},
		{`{"type":"dom_contains","text":"a","selector":"div p"}`, invalid, "the selector of dom_contains must be a tag, #id, .class, or these together; nothing else is supported"},
		{`{"type":"dom_contains","text":"a","selector":"a[href]"}`, invalid, "the selector of dom_contains must be a tag, #id, .class, or these together; nothing else is supported"},
		{`{"type":"dom_contains","text":"a","selector":"#a#b"}`, invalid, "the selector of dom_contains must have one id at most"},
	}
	for _, tt := range tests {
		_, err := postcondition.Parse(json.RawMessage(tt.doc))
		var e *postcondition.Error
		require.ErrorAs(t, err, &e, tt.doc)
		require.Equal(t, tt.variant, e.Variant, tt.doc)
		require.Equal(t, tt.message, e.Message, tt.doc)
	}
}

// page is an answer whose body is text; doc one whose body is JSON.
func page(body string) schemas.Answer {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return schemas.Answer{Status: 200, Body: raw, Hash: "x"}
}

func doc(body string) schemas.Answer {
	return schemas.Answer{Status: 200, Body: json.RawMessage(body), JSON: true, Hash: "x"}
}

func evaluate(t *testing.T, p string, a schemas.Answer) (bool, string) {
	t.Helper()
	parsed, err := postcondition.Parse(json.RawMessage(p))
	require.NoError(t, err, p)
	passed, report := parsed.Evaluate(a)
	return passed, string(report)
}

func TestReport(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, postcondition string
		answer              schemas.Answer
		want                string
	}{
		{"status", `{"type":"http_status","equals":200}`, doc(`1`), `{"passed":true,"assertions":[{"kind":"http_status","status":"passed","detail":{"status":200}}]}`},
		{"status by value", `{"type":"http_status","equals":2.0e2}`, doc(`1`), `{"passed":true,"assertions":[{"kind":"http_status","status":"passed","detail":{"status":200}}]}`},
		{
			"another status", `[{"type":"http_status","equals":201}]`, doc(`1`),
			`{"passed":false,"assertions":[{"kind":"http_status","status":"failed","code":"http_status_mismatch","message":"expected status 201, observed 200","expected":{"status":201},"observed":{"status":200}}]}`,
		},
		{
			"no status at all", `[{"type":"http_status","equals":-1},{"type":"http_status","equals":2e99},{"type":"http_status","equals":0.0}]`, doc(`1`),
			`{"passed":false,"assertions":[` +
				`{"kind":"http_status","status":"failed","code":"http_status_mismatch","message":"expected status -1, observed 200","expected":{"status":-1},"observed":{"status":200}},` +
				`{"kind":"http_status","status":"failed","code":"http_status_mismatch","message":"expected status 2e99, observed 200","expected":{"status":2e99},"observed":{"status":200}},` +
				`{"kind":"http_status","status":"failed","code":"http_status_mismatch","message":"expected status 0, observed 200","expected":{"status":0},"observed":{"status":200}}]}`,
		},
		{
			"a null that is there", `{"type":"json_path","path":"$.a","equals":1}`, doc(`{"a":null}`),
			`{"passed":false,"assertions":[{"kind":"json_path_equals","status":"failed","code":"json_path_predicate_failed","message":"the value at $.a is not the expected one","expected":1,"observed":null}]}`,
		},
		{
			"path", `{"type":"json_path","path":"$.a.b[0]","equals":"v"}`, doc(`{"a":{"b":["v"]}}`),
			`{"passed":true,"assertions":[{"kind":"json_path_equals","status":"passed","detail":{"path":"$.a.b[0]","value":"[REDACTED]"}}]}`,
		},
		{
			"another value", `{"type":"json_path","path":"$.a","equals":{"s":"x","n":1,"l":[true,null,"y"]}}`, doc(`{"a":{"s":"secret","n":1.0}}`),
			`{"passed":false,"assertions":[{"kind":"json_path_equals","status":"failed","code":"json_path_predicate_failed","message":"the value at $.a is not the expected one",` +
				`"expected":{"l":[true,null,"[REDACTED]"],"n":1,"s":"[REDACTED]"},"observed":{"n":1.0,"s":"[REDACTED]"}}]}`,
		},
		{
			"nowhere", `{"type":"json_path","path":"$.a.c","equals":5}`, doc(`{"a":{}}`),
			`{"passed":false,"assertions":[{"kind":"json_path_equals","status":"failed","code":"json_path_missing","message":"$.a.c leads nowhere","expected":5}]}`,
		},
		{
			"not JSON", `{"type":"json_path","path":"$","equals":"text"}`, page(`text`),
			`{"passed":false,"assertions":[{"kind":"json_path_equals","status":"failed","code":"json_path_missing","message":"the body is not JSON, so that $ leads nowhere","expected":"[REDACTED]"}]}`,
		},
		{
			"no body", `{"type":"json_path","path":"$","equals":null}`,
			schemas.Answer{Body: json.RawMessage(`null`)},
			`{"passed":true,"assertions":[{"kind":"json_path_equals","status":"passed","detail":{"path":"$","value":null}}]}`,
		},
		{
			"text", `{"type":"dom_contains","text":"Hello","selector":"h1"}`, page(`<h1>Hello</h1>`),
			`{"passed":true,"assertions":[{"kind":"dom_contains","status":"passed","detail":{"matched":true,"selector":"h1"}}]}`,
		},
		{
			"no text", `{"type":"dom_contains","text":"Hello"}`, page(`<h1>Bye</h1>`),
			`{"passed":false,"assertions":[{"kind":"dom_contains","status":"failed","code":"dom_text_missing","message":"the text is not in the body","expected":"[REDACTED]","observed":"[REDACTED]"}]}`,
		},
		{
			"no element", `{"type":"dom_contains","text":"Hello","selector":"#a"}`, page(`<h1>Hello</h1>`),
			`{"passed":false,"assertions":[{"kind":"dom_contains","status":"failed","code":"dom_text_missing","message":"no element fits the selector","expected":"[REDACTED]"}]}`,
		},
		{
			"all must hold, and metadata", `{"name":"<b>","assertions":[{"type":"http_status","equals":200},{"type":"http_status","equals":404}],"n":1.50,"type":"x"}`, doc(`1`),
			`{"passed":false,"assertions":[{"kind":"http_status","status":"passed","detail":{"status":200}},` +
				`{"kind":"http_status","status":"failed","code":"http_status_mismatch","message":"expected status 404, observed 200","expected":{"status":404},"observed":{"status":200}}],` +
				`"metadata":{"n":1.50,"name":"<b>","type":"x"}}`,
		},
		{"what no type knows is passed over", `{"type":"http_status","equals":200,"path":1,"note":"x"}`, doc(`1`), `{"passed":true,"assertions":[{"kind":"http_status","status":"passed","detail":{"status":200}}]}`},
	}
	for _, tt := range tests {
		passed, report := evaluate(t, tt.postcondition, tt.answer)
		require.Equal(t, tt.want, report, tt.name)
		require.Equal(t, strings.HasPrefix(tt.want, `{"passed":true`), passed, tt.name)
	}
}

func TestJSONPath(t *testing.T) {
	t.Parallel()
	const body = `{"a":{"b c":[1,{"d":"x"}],"":2,"it's":3,"q\"":4,"e]":5},"list":[[1,2],[3]],"null":null,"big":12345678901234567890,"f":1.0,"t":true}`
	tests := []struct {
		path, equals string
		want         bool
	}{
		{`$.a['b c'][0]`, `1`, true},
		{`$.a["b c"][1].d`, `"x"`, true},
		{`$.a.b c[1].d`, `"x"`, true},
		{`$.a.b  c`, `"x"`, false},
		{` $.a['b c'][1]['d'] `, `"x"`, true},
		{`$['a']['']`, `2`, true},
		{`$.a['it\\'s']`, `3`, true},
		{`$.a["it's"]`, `3`, true},
		{`$.a['q\"']`, `4`, true},
		{`$.a['e]']`, `5`, true},
		{`$.list[0][1]`, `2`, true},
		{`$.list[00][1]`, `2`, true},
		{`$.list[1]`, `[3.0]`, true},
		{`$.list[1]`, `[3,4]`, false},
		{`$.list[2]`, `null`, false},
		{`$.list.a`, `null`, false},
		{`$.a[0]`, `null`, false},
		{`$.null`, `null`, true},
		{`$.null.x`, `null`, false},
		{`$.none`, `null`, false},
		{`$.big`, `12345678901234567890`, true},
		{`$.big`, `12345678901234567891`, false},
		{`$.big`, `1.2345678901234567890E19`, true},
		{`$.f`, `1`, true},
		{`$.f`, `10e-1`, true},
		{`$.f`, `true`, false},
		{`$.f`, `"1"`, false},
		{`$.t`, `true`, true},
		{`$.t`, `1`, false},
		{`$`, body, true},
		{`$`, `{}`, false},
	}
	for _, tt := range tests {
		p, err := json.Marshal(map[string]any{"type": "json_path", "path": strings.ReplaceAll(tt.path, `\\`, `\`), "equals": json.RawMessage(tt.equals)})
		require.NoError(t, err)
		got, _ := evaluate(t, string(p), doc(body))
		require.Equal(t, tt.want, got, "%s %s", tt.path, tt.equals)
	}
}

func TestNumbersCompareByValue(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want bool
	}{
		{"1", "1.0", true},
		{"0", "-0.0", true},
		{"0", "0e999", true},
		{"100", "1e2", true},
		{"100", "1E+2", true},
		{"0.001", "1e-3", true},
		{"0.1", "0.10000000000000000000000001", false},
		{"1e999", "10e998", true},
		{"1e-308", "10e-309", true},
		{"1e+0002", "100", true},
		{"1e9999", "10e9998", false},         // a document of such numbers would take minutes
		{"1e999999999", "1e999999999", true}, // as they are written
		{"1e999999999", "10e999999998", false},
		{"-1", "1", false},
		{"9007199254740993", "9007199254740992", false},
	}
	for _, tt := range tests {
		got, _ := evaluate(t, `{"type":"json_path","path":"$","equals":`+tt.a+`}`, doc(tt.b))
		require.Equal(t, tt.want, got, "%s %s", tt.a, tt.b)
	}
}

func TestReportShowsNoString(t *testing.T) {
	t.Parallel()
	const canary = "canary-77"
	for _, p := range []string{
		`{"type":"json_path","path":"$.a","equals":"` + canary + `1"}`,
		`{"type":"json_path","path":"$","equals":{"a":["` + canary + `"]}}`,
		`{"type":"json_path","path":"$.zz","equals":["` + canary + `"]}`,
		`{"type":"json_path","path":"$.a","equals":"` + canary + `"}`,
		`{"type":"dom_contains","text":"` + canary + `!"}`,
		`{"type":"dom_contains","text":"` + canary + `"}`,
	} {
		_, report := evaluate(t, p, doc(`{"a":"`+canary+`","b":["`+canary+`"]}`))
		require.NotContains(t, report, canary, p)
	}
}

func TestLargeValuesAreNotShown(t *testing.T) {
	t.Parallel()
	big := "[" + strings.Repeat("1,", 100_000) + "1]"
	passed, report := evaluate(t, `{"type":"json_path","path":"$","equals":1}`, doc(big))
	require.False(t, passed)
	require.Contains(t, report, `"observed":"[REDACTED]"`)
	require.Less(t, len(report), 400)
}

func FuzzPostcondition(f *testing.F) {
	f.Add(`[{"type":"http_status","equals":2e2}]`, `{}`)
	f.Add(`{"type":"json_path","path":"$.a['b'][0]","equals":{"a":1}}`, `{"a":{"b":[1]}}`)
	f.Add(`{"assertions":[{"type":"dom_contains","text":"A","selector":"p#x.y","case_insensitive":true}],"m":1}`, `"<p id=x class=y>a"`)
	f.Fuzz(func(t *testing.T, p, body string) {
		parsed, err := postcondition.Parse(json.RawMessage(p))
		if err != nil {
			var e *postcondition.Error
			require.ErrorAs(t, err, &e)
			return
		}
		passed, report := parsed.Evaluate(doc(body))
		require.True(t, json.Valid(report), "%s", report)
		again, same := parsed.Evaluate(doc(body))
		require.Equal(t, passed, again)
		require.Equal(t, string(report), string(same))
	})
}
