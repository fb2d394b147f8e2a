package redact_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/redact"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	r := redact.New([]string{"X-Session"})
	for doc, want := range map[string]string{
		`{"url":"u","headers":{"b":1.50,"Authorization":"Bearer x","a":[1,{"x-session":7}]}}`: `{"url":"u","headers":{"b":1.50,"Authorization":"REDACTED","a":[1,{"x-session":"REDACTED"}]}}`,
		`{"body":{"password":"p"},"in":{"body":{"password":"p"}},"token":["t"],"key":null}`:   `{"body":{"password":"p"},"in":{"body":{"password":"REDACTED"}},"token":"REDACTED","key":null}`,
		`{"token":null,"n":1E400,"s":"token"}`:                                                `{"token":null,"n":1E400,"s":"token"}`,
		`["token","x"]`:                                                                       `["token","x"]`, `"s"`: `"s"`, `{}`: `{}`, `{"a":`: `"REDACTED"`, ``: `"REDACTED"`,
	} {
		require.Equal(t, want, string(r.Members([]byte(doc), "body")), doc)
	}
	var none *redact.Redactor
	require.JSONEq(t, `{"cookie":"REDACTED","x-session":1}`, string(none.Members([]byte(`{"cookie":"c","x-session":1}`))))
}
