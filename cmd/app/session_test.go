package app

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestABrowserSignsIn has the whole of a session, from the token that it is made of to that one's end.
func TestABrowserSignsIn(t *testing.T) {
	t.Parallel()
	a := tokenNode.node(t)
	admin := a.admin(t)
	reader, made := admin.grant(t, `{"name":"reader","scopes":["actions:read","evidence:read"]}`)
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
	require.Equal(t, []string{"actions:read", "evidence:read"}, s.Scopes)
	require.False(t, s.ExpiresAt.IsZero())

	// It is the token's scopes that count, and the console's own requests alone.
	for path, want := range map[string]int{"/v1/actions": http.StatusOK, "/v1/tokens": http.StatusForbidden} {
		status, _, _ = ask(http.MethodGet, path, "", "Cookie", cookie)
		require.Equal(t, want, status, path)
		for _, header := range [][]string{
			{"Cookie", cookie},
			{"Cookie", cookie, "Weir-Console", "1", "Sec-Fetch-Site", "cross-site"},
			{"Cookie", cookie, "Weir-Console", "1", "Origin", "http://evil.example"},
			{"Authorization", "Bearer " + strings.TrimPrefix(cookie, "weir_console=")},
		} {
			status, _, _ = a.ask(t, http.MethodGet, path, "", header...)
			require.Equal(t, http.StatusUnauthorized, status, "%s %v", path, header)
		}
	}
	stream := reader.open(t, "/v1/evidence")
	admin.revoke(t, made.ID)
	_, err := io.Copy(io.Discard, stream)
	require.NoError(t, err, "its streams are over")
	status, _, _ = ask(http.MethodGet, "/v1/actions", "", "Cookie", cookie)
	require.Equal(t, http.StatusUnauthorized, status)
	require.False(t, who("Cookie", cookie).SignedIn)
}

// TestAnOpenNodeAsksNobodyToSignIn: its console works for everybody on this machine.
func TestAnOpenNodeAsksNobodyToSignIn(t *testing.T) {
	t.Parallel()
	a := openNode.node(t)
	status, text, _ := a.ask(t, http.MethodGet, "/console/session", "")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"mode":"open","signed_in":true,"tenant":"default","scopes":["admin"]}`, text)
	status, _, _ = a.ask(t, http.MethodPost, "/console/session", `{"token":"x"}`, "Weir-Console", "1")
	require.Equal(t, http.StatusMethodNotAllowed, status)
}
