package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestTokensAreListedPageByPage, each page of the tenant that was named.
func TestTokensAreListedPageByPage(t *testing.T) {
	t.Parallel()
	next := map[string]string{"": "a", "a": "b&", "b&": ""}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cursor := r.URL.Query().Get("cursor")
		assert.Equal(t, "acme", r.URL.Query().Get("tenant"))
		_ = json.NewEncoder(w).Encode(schemas.Page[schemas.Token]{Items: []schemas.Token{{ID: "after-" + cursor}}, Next: next[cursor]})
	}))
	t.Cleanup(server.Close)
	code, out, errs := command(t, "token", "ls", "--tenant", "acme", "--json", "--server", server.URL)
	require.Equal(t, exitOK, code, errs)
	for _, id := range []string{`"after-"`, `"after-a"`, `"after-b\u0026"`} {
		assert.Contains(t, out, id)
	}
}

// TestRefusalsAreSaid in the words of the answer, or by its status.
func TestRefusalsAreSaid(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		body   string
		args   []string
		want   string
	}{
		"a problem":      {409, `{"title":"Conflict","detail":"there is one","code":"CONFLICT"}`, []string{"dead", "redrive", "1"}, "there is one (CONFLICT)"},
		"a title":        {409, `{"title":"Conflict","code":"CONFLICT"}`, []string{"policy", "reload"}, "Conflict (CONFLICT)"},
		"another server": {502, `<html>`, []string{"policy", "reload"}, "the server answered 502"},
		"no such token":  {404, `{"title":"Not Found","detail":"no such token","code":"NOT_FOUND"}`, []string{"token", "revoke", "x"}, "weir: no such token (NOT_FOUND)"},
		"no document":    {200, `[`, []string{"dead", "ls"}, "unexpected EOF"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(tt.body))
		}))
		code, _, errs := command(t, append(tt.args, "--server", server.URL)...)
		server.Close()
		assert.Equal(t, exitFailed, code, name)
		assert.Contains(t, errs, tt.want, name)
	}
}
