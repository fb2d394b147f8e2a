package plans_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
		{`{"url":null}`, noURL},
		{`{"url":5,"headers":[1]}`, noURL},
		{`{"url":"http://h","headers":[1],"params":[1]}`, headers},
		{`{"url":"http://h","headers":"x"}`, headers},
		{`{"url":"http://h","headers":true}`, headers},
		{`{"url":"http://h","params":[1]}`, params},
		{`{"url":"http://h","params":"a=b"}`, params},
		{`{"url":"http://h","params":1}`, params},
		{`{"url":"http://h"}`, noKey},
		{`{"url":"http://h","allowlist_key":""}`, noKey},
		{`{"url":"http://h","allowlist_key":7}`, noKey},
		{`{"url":"","headers":[],"params":"","allowlist_key":null}`, noKey},
		{`{"url":"http://h","headers":false,"params":0.0}`, noKey},
		{`{"url":"http://h","allowlist_key":"k","headers":{"X":null}}`, "http connector failed: header values must be strings"},
		{`{"url":"http://h","allowlist_key":"k","headers":{"X":["a"]}}`, "http connector failed: header values must be strings"},
		{`[]`, "http connector failed: the target_state cannot be read"},
		{``, "http connector failed: the target_state cannot be read"},
		{`{"url":"http://h","params":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "http connector failed: the target_state cannot be read"},
	}
	for _, tt := range tests {
		_, _, err := plans.Translate(json.RawMessage(tt.target))
		require.EqualError(t, err, tt.want, "%.80s", tt.target)
	}
}

func TestTranslateMethodAndBody(t *testing.T) {
	t.Parallel()
	tests := []struct {
		members, method, body string
		text                  bool
	}{
		{``, "GET", "", false},
		{`,"method":null`, "GET", "", false},
		{`,"method":"post"`, "POST", "", false},
		{`,"method":"dElEtE"`, "DELETE", "", false},
		{`,"method":5`, "5", "", false},
		{`,"method":""`, "", "", false},
		{`,"body":null`, "GET", "", false},
		{`,"body":""`, "GET", "", false},
		{`,"body":"a=1&b=<é>"`, "GET", `"a=1&b=<é>"`, true},
		{`,"body":{"b": 1.50, "a":12345678901234567890}`, "GET", `{"b": 1.50, "a":12345678901234567890}`, false},
		{`,"body":[1]`, "GET", `[1]`, false},
		{`,"body":0`, "GET", `0`, false},
		{`,"body":false`, "GET", `false`, false},
		{`,"unknown":{"x":1}`, "GET", "", false},
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
		{`"method":"PUT","idempotency_key":"k1"`, "k1", "k1", 0},
		{`"method":"DELETE","idempotency_key":7`, "7", "7", 0},
		{`"method":"GET","idempotency_key":"k1"`, "", "k1", 0},
		{`"method":"head","idempotency_key":"k1"`, "", "k1", 0},
		{`"method":"POST","idempotency_key":""`, "", "", 0},
		{`"method":"POST","idempotency_key":null`, "", "", 0},
		{`"method":"POST","idempotency_key":0`, "", "", 0},
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
		{"http://h?x@y", schemas.Decision{Code: schemas.DenyMethod}, "http target 'http://h?x@y' is not allowed for 'PUT'"},
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
