//go:build e2e

package console_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

func TestRules(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.up.Handle("/orders", upstream.Respond(http.StatusOK, `{"real":true}`))
	p := n.signIn("p", n.Token, nil)
	p.click("link", "Rules")
	p.see("No rules.")
	p.accessible()

	// The form previews the call of its pattern, and shows no error before the first key.
	p.click("button", "New rule")
	var wrong int
	p.css(`.verdict >> text=mock-1`)
	p.get(&wrong, do{"op": "count", "css": `dialog :is(.bad-text, .notice, [aria-invalid="true"])`})
	require.Zero(t, wrong)
	p.accessible()
	p.choose("Type", "delay")
	p.fill("URL pattern", n.up.URL()+"/*")
	p.fill("Delay in ms", "7")
	p.css(`.verdict >> text=delayed by 7 ms`)
	p.choose("Type", "headers")
	p.fill("Request headers", "set X-A")
	p.see("Request headers: write")
	p.fill("Request headers", "set X-A: 1\nremove X-B")
	p.css(`.verdict >> text=headers-1`)
	p.choose("Type", "mock")
	p.fill("Body", `{"a":`)
	p.see("The body is not JSON.")
	p.fill("Body", `{"a":1}`)
	p.css(`.verdict .badge >> text=mocked`)
	p.accessible()

	// The JSON tab has the same rule; the page or the node reports its errors.
	p.click("button", "JSON")
	p.fill("Rule, as JSON", `{"id":`)
	p.see("This is not JSON")
	p.fill("Rule, as JSON", `{"id":"m-1","type":"mock","match":{"url_pattern":"nonsense"},"action":{"status":200}}`)
	p.click("button", "Create")
	p.see("VALIDATION_ERROR")
	p.fill("Rule, as JSON", `{"id":"m-1","type":"mock","match":{"url_pattern":"`+n.up.URL()+`/orders"},"action":{"status":201,"body":{"mocked":"yes"}}}`)
	p.fill("Call URL", n.up.URL()+"/orders?id=7")
	p.css(`.verdict >> text=mocked`)
	p.accessible()
	p.click("button", "Create")
	p.seeRole("button", "m-1")
	orders := `{"method":"GET","url":"` + n.up.URL() + `/orders"}`
	require.Contains(t, n.Ask(t, http.MethodPost, "/v1/execute", orders).Body, `"mocked":"yes"`)
	p.css(`tr:has-text("m-1") td[data-name="hits"]:text-is("1")`)

	// Switch it, and all of them; calls are really sent again.
	p.click("switch", "Rule m-1")
	p.css(`[aria-label="Rule m-1"][aria-checked="false"]`)
	p.click("switch", "Rule m-1")
	p.css(`[aria-label="Rule m-1"][aria-checked="true"]`)
	p.click("switch", "All rules")
	p.click("button", "Switch off")
	p.see("All rules are off")
	require.Contains(t, n.Ask(t, http.MethodPost, "/v1/execute", orders).Body, `"real":true`)
}

// TestTwoEditOneRule: the second is shown what the first has written, beside its own words, and decides.
func TestTwoEditOneRule(t *testing.T) {
	t.Parallel()
	n := start(t)
	writer := n.token("writer", schemas.ScopeRulesWrite, schemas.ScopeActionsRead)
	first, second := n.signIn("first", n.Token, nil), n.signIn("second", writer, nil)
	rule := func(ms string) string {
		return `{"id":"d-1","type":"delay","group":"default","enabled":true,"priority":0,"match":{"url_pattern":"http://a.example/*","method":"ANY","include_query":false},"action":{"delay_ms":` + ms + `}}`
	}
	first.click("link", "Rules")
	first.click("button", "New rule")
	first.click("button", "JSON")
	first.fill("Rule, as JSON", rule("1"))
	first.click("button", "Create")
	second.click("link", "Rules")
	second.click("button", "d-1") // as the first has made it
	first.click("button", "d-1")
	first.click("button", "JSON")
	first.fill("Rule, as JSON", rule("222"))
	first.click("button", "Save")
	first.do(do{"op": "gone", "css": "dialog"})

	second.click("button", "JSON")
	second.fill("Rule, as JSON", rule("333"))
	second.click("button", "Save")
	second.see("The rules have changed")
	second.css(`section[aria-label="Theirs"] >> text=222`)
	second.css(`section[aria-label="Yours"] >> text=333`)
	second.accessible()
	require.Contains(t, n.Ask(t, http.MethodGet, "/v1/rules", "").Body, `"delay_ms":222`, "nothing was overwritten")
	second.click("button", "Overwrite with mine")
	second.do(do{"op": "gone", "css": "dialog"})
	require.Contains(t, n.Ask(t, http.MethodGet, "/v1/rules", "").Body, `"delay_ms":333`)
}
