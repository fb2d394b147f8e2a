package plans_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy/callurl"
	"weir/processors/plans"
	"weir/schemas"
)

func translate(t *testing.T, target string) (schemas.HTTPCall, plans.View) {
	t.Helper()
	call, view, err := plans.Translate(json.RawMessage(target))
	require.NoError(t, err, target)
	return call, view
}

func TestTranslateRefuses(t *testing.T) {
	t.Parallel()
	const (
		noURL   = "http target_state requires 'url'"
		headers = "http target_state headers must be a mapping"
		params  = "http target_state params must be a mapping"
		noKey   = "http target_state must include allowlist_key"
	)
	tests := []struct{ target, want string }{
		{`{}`, noURL},
		{`{"URL":"http://h","allowlist_key":"k"}`, noURL},
		{`{"url":5,"headers":[1]}`, noURL},
		{`{"url":"http://h","headers":[1],"params":[1]}`, headers},
		{`{"url":"http://h","headers":true}`, headers},
		{`{"url":"http://h","params":[1]}`, params},
		{`{"url":"http://h","params":"a=b"}`, params},
		{`{"url":"http://h","allowlist_key":""}`, noKey},
		{`{"url":"","headers":[],"params":"","allowlist_key":null}`, noKey},
		{`{"url":"http://h","headers":false,"params":0.0}`, noKey},
		{`{"url":"http://h","allowlist_key":"k","headers":{"X":null}}`, "http connector failed: header values must be strings"},
		{`{"url":"http://h","allowlist_key":"k","body":1,"form":{}}`, "http target_state 'form' is a second form of the body, beside 'body'; send one of body, body_text, body_base64 and form"},
		{`{"url":"http://h","allowlist_key":"k","body_text":1}`, "http target_state 'body_text' must be a string"},
		{`{"url":"http://h","allowlist_key":"k","headers":{"content-type":"text/plain"},"form":{}}`, "http target_state 'headers' has a Content-Type other than that for a form, application/x-www-form-urlencoded; leave it out; for multipart/form-data, write a field as {\"text\": …}"},
		{``, "http connector failed: the target_state cannot be read"},
		{`{"url":"http://h","params":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "http connector failed: the target_state cannot be read"},
	}
	for _, tt := range tests {
		_, _, err := plans.Translate(json.RawMessage(tt.target))
		require.EqualError(t, err, tt.want, "%.80s", tt.target)
	}
}

// TestTranslateForms: a target state has the forms of a body that the executor has, and its own of a string.
func TestTranslateForms(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]schemas.HTTPCall{
		`"body":"a"`:                       {Body: []byte(`"a"`), TextBody: true},
		`"body":"","body_text":"a"`:        {Body: []byte(`"a"`), TextBody: true, ContentType: "text/plain; charset=utf-8"},
		`"body_text":"a"`:                  {Body: []byte(`"a"`), TextBody: true, ContentType: "text/plain; charset=utf-8"},
		`"body_base64":"AP8="`:             {Body: []byte(`"AP8="`), Base64Body: true, ContentType: "application/octet-stream"},
		`"form":{"b":[1.50,"x"],"a":true}`: {Body: []byte(`"b=1.50&b=x&a=true"`), TextBody: true, ContentType: "application/x-www-form-urlencoded"},
	} {
		call, _ := translate(t, `{"url":"http://h/","allowlist_key":"k","method":"POST",`+members+`}`)
		want.Method, want.URL, want.AllowlistKey = "POST", "http://h/", "k"
		require.Equal(t, want, call, members)
	}
}

func TestTranslateMethodAndBody(t *testing.T) {
	t.Parallel()
	tests := []struct {
		members, method, body string
		text                  bool
	}{
		{``, "GET", "", false},
		{`,"method":"post"`, "POST", "", false},
		{`,"method":5`, "5", "", false},
		{`,"method":""`, "", "", false},
		{`,"body":""`, "GET", "", false},
		{`,"body":"a=1&b=<é>"`, "GET", `"a=1&b=<é>"`, true},
		{`,"body":{"b": 1.50, "a":12345678901234567890}`, "GET", `{"b": 1.50, "a":12345678901234567890}`, false},
		{`,"body":false`, "GET", `false`, false},
	}
	for _, tt := range tests {
		call, view := translate(t, `{"url":"http://h/","allowlist_key":"k"`+tt.members+`}`)
		require.Equal(t, tt.method, call.Method, tt.members)
		require.Equal(t, tt.method, view.Method)
		require.Equal(t, tt.body, string(call.Body), tt.members)
		require.Equal(t, tt.text, call.TextBody, tt.members)
		require.Equal(t, "k", call.AllowlistKey)
	}
}

func TestTranslateHeaders(t *testing.T) {
	t.Parallel()
	call, _ := translate(t, `{"url":"http://h/","allowlist_key":"k","method":"POST","body":"x",
		"headers":{"x-b":"1","Content-type":"text/plain","X-A":"é","x-N":5,"x-f":1.0,"x-t":true}}`)
	require.Equal(t, []schemas.Header{
		{Name: "Content-type", Value: "text/plain"},
		{Name: "X-A", Value: "é"},
		{Name: "x-b", Value: "1"},
		{Name: "x-f", Value: "1.0"},
		{Name: "x-N", Value: "5"},
		{Name: "x-t", Value: "True"},
	}, call.Headers)
	for _, nothing := range []string{`null`, `{}`, `[]`, `""`, `0`, `false`, `{ }`} {
		call, _ = translate(t, `{"url":"http://h/","allowlist_key":"k","headers":`+nothing+`,"params":`+nothing+`}`)
		require.Empty(t, call.Headers)
		require.Equal(t, "http://h/", call.URL)
	}
}

func TestTranslateIdempotencyKey(t *testing.T) {
	t.Parallel()
	tests := []struct {
		members, sent, shown string
		headers              int
	}{
		{`"method":"POST"`, "", "", 0},
		{`"method":"POST","idempotency_key":"k1"`, "k1", "k1", 0},
		{`"method":"DELETE","idempotency_key":7`, "7", "7", 0},
		{`"method":"GET","idempotency_key":"k1"`, "", "k1", 0},
		{`"method":"head","idempotency_key":"k1"`, "", "k1", 0},
		{`"method":"POST","idempotency_key":""`, "", "", 0},
		{`"method":"POST","idempotency_key":"k1","headers":{"idempotency-KEY":"own"}`, "own", "k1", 0},
		{`"method":"POST","headers":{"Idempotency-Key":"own","X":"1"}`, "own", "", 1},
		{`"method":"GET","idempotency_key":"k1","headers":{"Idempotency-Key":"own"}`, "own", "k1", 0},
		{`"method":"POST","idempotency_key":"k1","headers":{"Idempotency-Key":""}`, "", "k1", 1},
	}
	for _, tt := range tests {
		call, view := translate(t, `{"url":"http://h/","allowlist_key":"k",`+tt.members+`}`)
		require.Equal(t, tt.sent, call.IdempotencyKey, tt.members)
		require.Equal(t, tt.shown, view.IdempotencyKey, tt.members)
		require.Len(t, call.Headers, tt.headers, tt.members)
	}
}

func TestDenied(t *testing.T) {
	t.Parallel()
	view := func(url, method string) plans.View {
		raw, err := json.Marshal(map[string]any{"url": url, "method": method, "allowlist_key": "svc", "params": map[string]any{"a": 1}})
		require.NoError(t, err)
		_, v := translate(t, string(raw))
		return v
	}
	tests := []struct {
		url    string
		denial schemas.Decision
		want   string
	}{
		{"http://h/a", schemas.Decision{Code: schemas.DenyKeyUnknown, Reason: "r"}, "unknown allowlist key 'svc'"},
		{"http://H/a?b#c", schemas.Decision{Code: schemas.DenyHost, Reason: "r"}, "http target 'http://H/a?b#c' is not allowed for 'PUT'"},
		{"", schemas.Decision{Code: schemas.DenyURLInvalid}, "http target '' is not allowed for 'PUT'"},
		{"http://user:pw@h/a@b", schemas.Decision{Code: schemas.DenyUserinfo}, "http target 'http://REDACTED@h/a@b' is not allowed for 'PUT'"},
		{"http://h/", schemas.Decision{Code: schemas.DenyAddress, Reason: "r"}, "http target 'http://h/' is not allowed for 'PUT'"},
		{"http://h/", schemas.Decision{Code: schemas.DenyHeader, Reason: "a header is bad"}, "http target 'http://h/' is not allowed for 'PUT': a header is bad"},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, view(tt.url, "put").Denied(tt.denial))
	}
	require.EqualError(t, plans.Failure("the target could not be connected to"), "http connector failed: the target could not be connected to")
}

func FuzzTranslate(f *testing.F) {
	f.Add(`{"url":"http://h/a?b=%E2%82&+=x#f","allowlist_key":"k","params":{"a":[1,{"b":null}],"c":1e400,"d":"é'\""}}`)
	f.Add(`{"url":"http://u:p@h","allowlist_key":"k","headers":{"Idempotency-Key":"x"},"idempotency_key":"y","method":"post","body":{"a":1}}`)
	f.Add(`{"url":"//","allowlist_key":"k","params":{"":-0,"x":-0.0}}`)
	f.Fuzz(func(t *testing.T, target string) {
		call, view, err := plans.Translate(json.RawMessage(target))
		if err != nil {
			require.NotEmpty(t, err.Error())
			require.Equal(t, schemas.HTTPCall{}, call)
			return
		}
		again, same, err := plans.Translate(json.RawMessage(target))
		require.NoError(t, err)
		require.Equal(t, call, again)
		require.Equal(t, view, same)
		require.True(t, strings.HasPrefix(view.URL, call.URL), "only a fragment may be missing")
		require.NotEmpty(t, view.Denied(schemas.Decision{Code: schemas.DenyHost}))
		if call.Body != nil {
			require.True(t, json.Valid(call.Body))
		}
	})
}

// The expected texts are those of Python 3.11's urllib.parse.
func TestFinalURL(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, params, want string }{
		{"http://h", `{}`, "http://h"},
		{"http://h", `{"a":1}`, "http://h?a=1"},
		{"HTTP://H:80/A", `{}`, "http://H:80/A"},
		{"http://h/a?", `{}`, "http://h/a"},
		{"http://h/a?b=2&a&b=1&c=", `{"b":3}`, "http://h/a?b=2&a=&b=1&c=&b=3"},
		{"http://h/a?&&x", `{}`, "http://h/a?x="},
		{"http://h/a?b=1#frag?x", `{"c":"d e"}`, "http://h/a?b=1&c=d+e#frag?x"},
		{"http://h/a%2Fb/%7E?q=a%2Bb+c%20d", `{}`, "http://h/a%2Fb/%7E?q=a%2Bb+c+d"},
		{"http://h/?q=~-._*/:;,'()!", `{}`, "http://h/?q=~-._%2A%2F%3A%3B%2C%27%28%29%21"},
		{"http://h/?q=%zz%4&%", `{}`, "http://h/?q=%25zz%254&%25="},
		{"http://h/?q=é%C3%A9", `{"ü":"€"}`, "http://h/?q=%C3%A9%C3%A9&%C3%BC=%E2%82%AC"},
		{"http://h/?q=%ff", `{}`, "http://h/?q=%EF%BF%BD"},
		{"http://h/?q=%E2%82é", `{}`, "http://h/?q=%EF%BF%BD%C3%A9"},
		{"http://h/?q=%F0%9F%98a%ED%A0%80", `{}`, "http://h/?q=%EF%BF%BDa%EF%BF%BD%EF%BF%BD%EF%BF%BD"},
		{"http://h/", `{"b":1,"a":2,"b":3}`, "http://h/?b=3&a=2"},
		{"http://h/", `{"t":true,"f":false,"n":null}`, "http://h/?t=True&f=False&n=None"},
		{"http://h/", `{"a":0,"b":-0,"c":-0.0,"d":1.0,"e":100.00}`, "http://h/?a=0&b=0&c=-0.0&d=1.0&e=100.0"},
		{"http://h/", `{"a":1e15,"b":1e16,"c":123456789012345680.0,"d":0.0001,"e":0.00001}`, "http://h/?a=1000000000000000.0&b=1e%2B16&c=1.2345678901234568e%2B17&d=0.0001&e=1e-05"},
		{"http://h/", `{"a":0.1,"b":1E400,"c":-1e400,"d":5e-324,"e":0.30000000000000004}`, "http://h/?a=0.1&b=inf&c=-inf&d=5e-324&e=0.30000000000000004"},
		{"http://h/", `{"a":[1,"x",null,true,[2.5]],"b":{"k":"it's"},"c":[],"d":{}}`, "http://h/?a=%5B1%2C+%27x%27%2C+None%2C+True%2C+%5B2.5%5D%5D&b=%7B%27k%27%3A+%22it%27s%22%7D&c=%5B%5D&d=%7B%7D"},
		{"http://h/", `{"a":["a'b\"c","\n\t\\","\u0001\u007f\u00a0é\u200b\ud83d\ude00"]}`, "http://h/?a=%5B%27a%5C%27b%22c%27%2C+%27%5Cn%5Ct%5C%5C%27%2C+%27%5Cx01%5Cx7f%5Cxa0%C3%A9%5Cu200b%F0%9F%98%80%27%5D"},
	}
	for _, tt := range tests {
		raw := `{"url":` + quoted(t, tt.url) + `,"params":` + tt.params + `,"allowlist_key":"k"}`
		_, view := translate(t, raw)
		require.Equal(t, tt.want, view.URL, raw)
	}
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	return string(raw)
}

func TestAFragmentIsNotSent(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, sent, shown string }{
		{"http://h/a#f", "http://h/a", "http://h/a#f"},
		{"http://h?x=1#f", "http://h?x=1", "http://h?x=1#f"},
		{"http://h#.evil.com/", "http://h#.evil.com/", "http://h#.evil.com/"}, // for policy to refuse
		{"http://h/a\t#f", "http://h/a\t", "http://h/a\t#f"},                  // nothing else is mended
	}
	for _, tt := range tests {
		call, view := translate(t, `{"url":`+quoted(t, tt.url)+`,"allowlist_key":"k"}`)
		require.Equal(t, tt.sent, call.URL)
		require.Equal(t, tt.shown, view.URL)
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, want string }{
		{"http://h/a/b", "GET http://h/a/b?"},
		{"http://h", "GET http://h/?"},
		{"http://h:8080?b=1&a=2&b=3", "GET http://h:8080/?a,b"},
		{"http://h/a%2Fb?x=secret#frag", "GET http://h/a%2Fb?x"},
		{"http://h/?b+c=1&%C3%A9=2&a", "GET http://h/?a,b c,é"},
		{"http://user:pw@h/a", "GET http://h/a?"},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, callurl.Target("GET", tt.url))
	}
	_, view := translate(t, `{"url":"http://h/a?z=1","params":{"y":"secret"},"method":"patch","allowlist_key":"k"}`)
	require.Equal(t, "PATCH http://h/a?y,z", view.Fingerprint)
}
