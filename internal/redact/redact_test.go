package redact_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/redact"
	"weir/schemas"
)

func TestHeadersByName(t *testing.T) {
	t.Parallel()
	r := redact.New([]string{"X-Session", " x-trace-secret ", "", "x-session"})
	given := []schemas.Header{
		{Name: "Authorization", Value: "Bearer abc"},
		{Name: "proxy-authorization", Value: "\xff"},
		{Name: "COOKIE", Value: "a=b"},
		{Name: "set-cookie", Value: ""},
		{Name: "Set-Cookie", Value: "c=d"},
		{Name: "X-Api-Key", Value: "k"},
		{Name: "x-session", Value: "s"},
		{Name: "X-Trace-Secret", Value: "s"},
		{Name: "content-type", Value: "text/plain;\tcharset=utf-8"},
		{Name: "x-session-id", Value: "shown"},
		{Name: "x-bin", Value: "caf\u00e9"},
		{Name: "x-nul", Value: "a\x00"},
		{Name: "x-empty", Value: ""},
	}
	kept := append([]schemas.Header{}, given...)
	var values []string
	for i, h := range r.Headers(given) {
		require.Equal(t, given[i].Name, h.Name)
		values = append(values, h.Value)
	}
	require.Equal(t, []string{
		"REDACTED", "REDACTED", "REDACTED", "REDACTED", "REDACTED", "REDACTED", "REDACTED", "REDACTED",
		"text/plain;\tcharset=utf-8", "shown", "<binary>", "<binary>", "",
	}, values)
	require.Equal(t, kept, given, "the original is left alone")
	require.Nil(t, r.Headers(nil))
	var none *redact.Redactor // knows the fixed names
	require.False(t, none.Sensitive("accept"))
	require.Equal(t, []schemas.Header{{Name: "cookie", Value: redact.Mark}}, none.Headers([]schemas.Header{{Name: "cookie", Value: "a"}}))
}

func TestNamesOfCredentials(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Authorization", "X-Authorization", "Proxy-Authorization", "Proxy-Authenticate", "proxy-authentication-info", "Cookie", "Cookie2", "SET-COOKIE",
		"X-Api-Key", "x_api_key", "Api-Key", "apikey", "X-ApiKey", "X.Api.Key", "X-Goog-Api-Key",
		"X-Auth-Token", "x-amz-security-token", "X-CSRF-Token", "access_token", "refreshToken", "client_secret", "X-Secret", "password", "X-Passwd",
		"Signature", "Signature-Input", "X-Hub-Signature-256", "X-Amz-Signature", "X-Credential", "X-Amz-Credential", "credentials",
	} {
		require.True(t, redact.Credential(name), name)
		require.True(t, redact.New(nil).Sensitive(name), name)
	}
	for _, name := range []string{
		"", "accept", "content-type", "www-authenticate", "proxy-connection", "author", "x-key", "key", "x-request-id", "etag", "location", "retry-after", "cookies-policy",
	} {
		require.False(t, redact.Credential(name), name)
	}
}

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
