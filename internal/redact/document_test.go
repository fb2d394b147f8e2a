package redact_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/redact"
)

func TestJSONStaysJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ secret, doc, want string }{
		{"hunter2-x", `{"a":"hunter2-x","n":1.50}`, `{"a":"REDACTED","n":1.50}`},
		{"hunter2-x", `{"hunter2-x":1}`, `{"REDACTED":1}`},
		{"12345678", `{"id":12345678,"n":1.50}`, `{"id":"REDACTED","n":1.50}`},
		{"12345678", `[0.12345678e5, 5 , "x12345678"]`, `["REDACTED", 5 , "xREDACTED"]`},
		{"true", ` [true,false]`, ` ["REDACTED",false]`},
		{"nabcd", `{"a":"\nabcd","b":"nabcd"}`, `{"a":"REDACTED","b":"REDACTED"}`},
		{`a","b`, `["a","b"]`, `["REDACTED"]`},
		{`":1,"`, `{"a":1,"b":2}`, `{"aREDACTEDb":2}`}, // across the structure: no JSON any more
		{"abcd", `12`, `12`},
		{"abcd", `{}`, `{}`},
	} {
		scrub := redact.Values([]string{c.secret})
		require.Equal(t, c.want, string(scrub.JSON([]byte(c.doc))), c.doc)
	}
	require.Equal(t, `{"a":1}`, string((*redact.Scrubber)(nil).JSON([]byte(`{"a":1}`))))
}

// FuzzJSON: JSON loses the secret, and stays JSON where the secret is a word.
func FuzzJSON(f *testing.F) {
	f.Add("12345678", `{"id":12345678}`)
	f.Add("nabcd", `["\nabcd"]`)
	f.Add(`a":"b`, `{"a":"b"}`)
	f.Fuzz(func(t *testing.T, secret, doc string) {
		if !json.Valid([]byte(doc)) || len(secret) < redact.MinSecret || strings.TrimSpace(secret) != secret || strings.Contains(strings.ToUpper(redact.Mark), strings.ToUpper(secret)) {
			return
		}
		out := redact.Values([]string{secret}).JSON([]byte(doc))
		if !strings.ContainsAny(strings.ToUpper(secret), redact.Mark) && bytes.Contains(out, []byte(secret)) {
			t.Fatalf("%q stayed in %q", secret, out)
		}
		if !strings.ContainsAny(secret, `{}[]:," \`+"\t\r\n") && !json.Valid(out) {
			t.Fatalf("%q became %q", doc, out)
		}
	})
}
