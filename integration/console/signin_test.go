//go:build e2e

package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// fetch is a request that a script in the page makes, with or without the console's header.
const fetch = `async ([method, path, body, own]) => {
  const answer = await fetch(path, {method, body: body || undefined, credentials: "same-origin",
    headers: {...(own ? {"Weir-Console": "1"} : {}), ...(body ? {"Content-Type": "application/json"} : {})}});
  return answer.status;
}`

func TestSignIn(t *testing.T) {
	t.Parallel()
	n := start(t)
	p := open(t, "p", n.prog.URL+"/console/", nil)
	p.seeRole("heading", "Weir")
	p.accessible()
	p.fill("Token", "weir1_unknown")
	p.click("button", "Sign in")
	p.see("UNAUTHORIZED")
	p.see("Token unknown, expired or revoked.")
	p.fill("Token", n.Token)
	p.do(do{"op": "press", "key": "Enter"})
	p.seeRole("heading", "Flow")
	p.see("No actions yet.")

	var cookies []struct {
		Name, Value, SameSite string
		HTTPOnly              bool `json:"httpOnly"`
	}
	p.get(&cookies, do{"op": "cookies"})
	require.Len(t, cookies, 1)
	require.True(t, cookies[0].HTTPOnly)
	require.Equal(t, "Strict", cookies[0].SameSite)
	require.NotContains(t, cookies[0].Value, n.Token[len(n.Token)-43:])
	var seen string
	p.evaluate(&seen, `() => document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.documentElement.outerHTML`, nil)
	require.NotContains(t, seen, cookies[0].Value)
	require.NotContains(t, seen, "weir1_")

	// The cookie counts for the console's own requests alone.
	var status int
	p.evaluate(&status, fetch, []any{"GET", "/v1/actions", "", true})
	require.Equal(t, http.StatusOK, status)
	p.evaluate(&status, fetch, []any{"GET", "/v1/actions", "", false})
	require.Equal(t, http.StatusUnauthorized, status)

	p.do(do{"op": "reload"})
	p.seeRole("heading", "Flow")
	p.click("button", "Sign out")
	p.seeRole("button", "Sign in")
	p.evaluate(&status, fetch, []any{"GET", "/v1/actions", "", true})
	require.Equal(t, http.StatusUnauthorized, status)
}

// TestAReaderMayNotWrite: the pages disable every write, and do not offer the pages of operators. That the
// node refuses the requests is shown in cmd/app.
func TestAReaderMayNotWrite(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.call("later", http.MethodGet, n.up.URL()+"/", schemas.HeaderDelay, "1h")
	p := n.signIn("reader", n.token("reader", schemas.ScopeActionsRead), nil)
	p.click("link", "later")
	p.see("This token is read-only.")
	var off bool
	p.get(&off, do{"op": "disabled", "role": "button", "name": "Cancel"})
	require.True(t, off)
	p.click("link", "Rules")
	p.see("This token is read-only")
	p.get(&off, do{"op": "disabled", "role": "button", "name": "New rule"})
	require.True(t, off)
	p.get(&off, do{"op": "disabled", "role": "switch", "name": "All rules"})
	require.True(t, off)
	for hash, text := range map[string]string{
		"#/evidence": "This token may not read evidence.", "#/tokens": "This token may not read tokens.", "#/operations": "This token may not read operations.",
		"#/nodes": "Only an admin of the tenant default can see all nodes.", "#/flow": "Needs attention",
	} {
		p.to(hash)
		p.see(text)
		p.accessible()
	}
	links := p.texts("nav a")
	require.Contains(t, links, "Budgets")
	require.NotContains(t, links, "Tokens")
	require.NotContains(t, links, "Operations")
}

// TestASessionEndsWithItsToken: after a revocation the page asks for a token.
func TestASessionEndsWithItsToken(t *testing.T) {
	t.Parallel()
	n := start(t)
	token := n.token("short", schemas.ScopeActionsRead)
	p := n.signIn("short", token, nil)
	id := strings.Split(token, "_")[1]
	n.Must(t, http.StatusOK, http.MethodPost, "/v1/tokens/"+id+"/revoke", "")
	p.seeRole("button", "Sign in")
}
