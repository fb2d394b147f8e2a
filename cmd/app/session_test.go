package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestABrowserSignsIn has the whole of a session, from the token that it is made of to that one's end.
func TestABrowserSignsIn(t *testing.T) {
	t.Parallel()
	a := newApp(t, withTokens)
	admin := a.admin(t)
	reader, made := admin.grant(t, `{"name":"reader","scopes":["actions:read"]}`)
	own := []string{"Weir-Console", "1", "Sec-Fetch-Site", "same-origin"}
	ask := func(method, path, body string, header ...string) (int, string, http.Header) {
		return a.ask(t, method, path, body, append(own, header...)...)
	}
	who := func(header ...string) (s schemas.ConsoleSession) {
		status, text, _ := ask(http.MethodGet, "/console/session", "", header...)
		require.Equal(t, http.StatusOK, status, text)
		require.NoError(t, json.Unmarshal([]byte(text), &s))
		return s
	}
	require.Equal(t, schemas.ConsoleSession{Mode: "tokens"}, who())

	status, text, h := ask(http.MethodPost, "/console/session", `{"token":"`+reader.token+`"}`)
	require.Equal(t, http.StatusOK, status, text)
	cookie, _, _ := strings.Cut(h.Get("Set-Cookie"), ";")
	require.NotContains(t, cookie, made.Secret[len(made.Secret)-43:])
	s := who("Cookie", cookie)
	require.True(t, s.SignedIn)
	require.Equal(t, []string{"actions:read"}, s.Scopes)
	require.False(t, s.ExpiresAt.IsZero())

	// It is the token's tenant and scopes that count, and the console's own requests alone.
	for _, r := range routes() {
		path := strings.ReplaceAll(r.path, "{id}", "nobody")
		body := strings.ReplaceAll(r.body, "{seq}", "7")
		status, _, _ = ask(r.method, path, body, "Cookie", cookie)
		if r.scope == schemas.ScopeActionsRead {
			require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, status, r.path)
		} else {
			require.Equal(t, http.StatusForbidden, status, r.path)
		}
		for _, header := range [][]string{
			{"Cookie", cookie},
			{"Cookie", cookie, "Weir-Console", "1", "Sec-Fetch-Site", "cross-site"},
			{"Cookie", cookie, "Weir-Console", "1", "Origin", "http://evil.example"},
			{"Authorization", "Bearer " + strings.TrimPrefix(cookie, "weir_console=")},
		} {
			status, _, _ = a.ask(t, r.method, path, body, header...)
			require.Equal(t, http.StatusUnauthorized, status, "%s %v", r.path, header)
		}
	}
	admin.revoke(t, made.ID)
	status, _, _ = ask(http.MethodGet, "/v1/actions", "", "Cookie", cookie)
	require.Equal(t, http.StatusUnauthorized, status)
	require.False(t, who("Cookie", cookie).SignedIn)

	// Too many requests are told as everywhere.
	rated, _ := admin.grant(t, `{"name":"rated","scopes":["actions:read"],"rate":"1/h"}`)
	status, text, h = ask(http.MethodPost, "/console/session", `{"token":"`+rated.token+`"}`)
	require.Equal(t, http.StatusOK, status, text)
	cookie, _, _ = strings.Cut(h.Get("Set-Cookie"), ";")
	for _, try := range [][2]string{{http.MethodGet, ""}, {http.MethodPost, `{"token":"` + rated.token + `"}`}} {
		status, text, h = ask(try[0], "/console/session", try[1], "Cookie", cookie)
		require.Equal(t, http.StatusTooManyRequests, status, text)
		require.NotEmpty(t, h.Get("Retry-After"))
	}
	status, text, _ = ask(http.MethodDelete, "/console/session", "", "Cookie", cookie)
	require.Equal(t, http.StatusOK, status, text)
	require.False(t, who("Cookie", cookie).SignedIn)
}

// TestAnOpenNodeAsksNobodyToSignIn: its console works for everybody on this machine.
func TestAnOpenNodeAsksNobodyToSignIn(t *testing.T) {
	t.Parallel()
	a := newApp(t, "log: {durability: process}\n")
	status, text, _ := a.ask(t, http.MethodGet, "/console/session", "")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"mode":"open","signed_in":true,"tenant":"default","scopes":["admin"]}`, text)
	status, _, _ = a.ask(t, http.MethodPost, "/console/session", `{"token":"x"}`, "Weir-Console", "1")
	require.Equal(t, http.StatusMethodNotAllowed, status)
}
