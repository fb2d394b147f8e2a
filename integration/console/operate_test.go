//go:build e2e

package console_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// TestTokens: a token is shown once, works, and stops working when it is revoked.
func TestTokens(t *testing.T) {
	t.Parallel()
	n := start(t)
	p := n.signIn("p", n.Token, nil)
	p.click("link", "Tokens")
	p.css(`tr:has-text("first-admin") .badge.good`)
	p.click("button", "New token")
	p.fill("Name", "bad name")
	p.do(do{"op": "click", "css": `label:has-text("actions:read") input`})
	p.click("button", "Create")
	p.css(`dialog .notice >> text=name`)
	p.fill("Name", "viewer")
	p.fill("Expires in", "2h")
	p.accessible()
	p.click("button", "Create")
	p.see("Weir shows this token once")
	p.do(do{"op": "press", "key": "Escape"})
	p.see("Weir shows this token once")
	p.accessible()
	secret := p.copied("Copy the token")
	p.click("button", "Done")
	var page string
	p.evaluate(&page, `() => document.documentElement.outerHTML + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)`, nil)
	require.NotContains(t, page, secret)
	n.As(secret).Must(t, http.StatusOK, http.MethodGet, "/v1/actions", "")
	p.css(`tr:has-text("viewer") >> text=actions:read`)
	p.click("button", "Revoke viewer")
	p.accessible()
	p.click("button", "Revoke the token")
	p.css(`tr:has-text("viewer") .badge.bad >> text=revoked`)
	n.As(secret).Must(t, http.StatusUnauthorized, http.MethodGet, "/v1/actions", "")
}

// TestOperations: a pause from the page holds calls, the page Flow shows it, and a resume lets them go.
func TestOperations(t *testing.T) {
	t.Parallel()
	n := start(t)
	p := n.signIn("p", n.Token, nil)
	p.click("link", "Operations")
	p.see("No call is paused or pinned.")
	p.accessible()
	p.click("button", "Pause or pin calls")
	p.choose("Name", "up")
	p.fill("Reason", "their maintenance")
	p.accessible()
	p.click("button", "Pause")
	p.css(`tr:has-text("entry up") >> text=their maintenance`)
	n.call("held-1", http.MethodGet, n.up.URL()+"/", "Prefer", "respond-async")
	n.status("held-1", "waiting")
	p.accessible()
	p.to("#/flow")
	p.click("link", "Paused or pinned by operators 1")
	p.click("button", "Resume entry up")
	p.see("No call is paused or pinned.")
	n.status("held-1", "succeeded")

	n.Ask(t, http.MethodPost, schemas.RouteOperationsPin, `{"entry":"up","state":"closed"}`)
	p.css(`tr:has-text("entry up") >> text=pinned closed`)
	p.click("button", "Unpin entry up")
	p.see("No call is paused or pinned.")
}

// TestBudgetsAndNodes: an account of a budget after a completion, and the roles of the nodes that report.
func TestBudgetsAndNodes(t *testing.T) {
	t.Parallel()
	double := llm.New(t, llm.Config{Default: llm.Act{Texts: []string{"Hello."}}})
	n := startWith(t, fmt.Sprintf("models:\n  \"sim/*\": {url: %q}\nbudgets:\n  daily: {per: [token], window: 24h, requests: 4}\n", double.URL()))
	p := n.signIn("p", n.Token, nil)
	p.click("link", "Budgets")
	p.see("No budget accounts yet.")
	p.accessible()
	n.Must(t, http.StatusOK, http.MethodPost, schemas.RouteChat, `{"model":"sim/small","messages":[{"role":"user","content":"Say it."}]}`)
	p.css(`tr:has-text("daily") td[data-name="requests"]:has-text("1 of 4")`)
	p.accessible()

	p.click("link", "Nodes")
	p.css(`section:has(#h-node) .badge.good >> text=ready`)
	p.css(`section:has(#h-node) >> text=Check: log`)
	p.css(`section:has(#h-all) tbody tr >> text=serve`)
	p.click("button", "Reload the policy on all nodes")
	p.accessible()
	p.click("button", "Reload")
	p.css(`section:has(#h-seen) tbody tr >> text=unchanged`)
	p.accessible()
}
