//go:build e2e

package console_test

import (
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

func TestPolicy(t *testing.T) {
	t.Parallel()
	n := start(t)
	p := n.signIn("p", n.Token, nil)
	p.click("link", "Policy")
	p.css(`table >> text=` + n.up.URL() + `/`)
	p.fill("URL", "http://nowhere.example/x")
	p.click("button", "Explain")
	p.css(`.verdict >> text=DENY_HOST`)
	p.fill("URL", n.up.URL()+"/x")
	p.click("button", "Explain")
	p.css(`.verdict .badge.good >> text=allowed`)
	// The delivery contract shows for an entry and for a call.
	n.entry(`{name: pay, url_prefix: "https://pay.example/", methods: [GET, POST], limits: {rate: 10/s}, upstream_idempotency: {ttl: 24h, derive: true}, retry: {attempts: 5, on: [503]}}`)
	p.css(`tr:has-text("pay.example") td[data-name=delivery] >> text=10/s`)
	p.css(`tr:has-text("pay.example") td[data-name=delivery] >> text=for 24h0m0s, derived`)
	p.to("#/policy?method=POST&url=https%3A%2F%2Fpay.example%2Forders")
	p.css(`.verdict >> text=5 attempts, 200ms to 2s apart, after 503`)
	p.css(`.verdict >> text=derived by Weir, in Idempotency-Key, for 24h0m0s`)
	// What callers may set: everything, nothing, or what is named. It shows on a phone too.
	n.entry(`{name: closed, url_prefix: "https://closed.example/", methods: [GET], headers: {X-Key: k}}`)
	p.to("#/policy")
	p.css(`tr:has-text("pay.example") td[data-name="callers may set"]:text-is("any")`)
	p.css(`tr:has-text("closed.example") td[data-name="callers may set"]:text-is("–")`)
	// A denial shows by itself, with the entry that would let it pass.
	n.call("denied-1", http.MethodGet, "https://api.example.com/v1/orders?id=7")
	p.css(`section:has(#h-denials) >> text=DENY_HOST`)
	p.do(do{"op": "click", "css": `section:has(#h-denials) summary`})
	p.css(`section:has(#h-denials) >> text=denied-1`)
	p.css(`section:has(#h-denials) pre >> text=url_prefix: https://api.example.com/v1/orders`)
	p.accessible()
	// The page of the denied action says what would allow it, and leads to the explanation.
	id := n.Ask(t, http.MethodPost, "/v1/execute", `{"method":"GET","url":"`+n.up.URL()+`/x","allowlist_key":"nothing"}`).ID()
	p.to("#/actions/" + id)
	p.css(`section:has(#h-decision) >> text=set allowlist_key to up`)
	p.css(`section:has(#h-decision) pre >> text=name: nothing`)
	p.accessible()
	metadata := n.Ask(t, http.MethodPost, "/v1/execute", `{"method":"GET","url":"http://169.254.169.254/"}`).ID()
	p.to("#/actions/" + metadata)
	p.css(`section:has(#h-decision) >> text=no change of the policy can allow this call`)
	slashes := n.Ask(t, http.MethodPost, "/v1/execute", `{"method":"GET","url":"`+n.up.URL()+`/a//b"}`).ID()
	p.to("#/actions/" + slashes)
	p.css(`section:has(#h-decision) >> text=write single slashes`)
	var proposed int
	p.get(&proposed, do{"op": "count", "css": `section:has(#h-decision) pre`})
	require.Zero(t, proposed, "no entry allows it")
	private := n.Ask(t, http.MethodPost, "/v1/execute", `{"method":"GET","url":"http://10.1.2.3/"}`).ID()
	p.to("#/actions/" + private)
	p.css(`section:has(#h-decision) pre >> text=cidrs: [10.1.2.3/32]`)
	p.to("#/actions/" + id)
	p.click("link", "Explain this call")
	p.css(`.verdict >> text=DENY_KEY_UNKNOWN`)
	var url string
	p.get(&url, do{"op": "value", "label": "URL"})
	require.Equal(t, n.up.URL()+"/x", url)
	n.prog.Kill()
	p.click("button", "Explain")
	p.see("It is unknown whether the change was made")
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.up.Handle("/ok", upstream.Respond(http.StatusOK, `{}`))
	n.call("before-1", http.MethodGet, n.up.URL()+"/ok")
	p := n.signIn("p", n.Token, nil)
	p.click("link", "Evidence")
	p.seeRole("link", "before-1")
	n.call("live-1", http.MethodGet, n.up.URL()+"/ok")
	p.seeRole("link", "live-1")
	p.css(`.records li:has-text("live-1") summary:has-text("GET ` + n.up.URL() + `/ok")`)
	n.prog.Kill()
	p.see("not connected")
	n.run()
	n.call("after-1", http.MethodGet, n.up.URL()+"/ok")
	p.seeRole("link", "after-1")
	var rows int
	p.get(&rows, do{"op": "count", "css": ".records > li"})
	require.Equal(t, 3, rows, "each once")
	p.accessible()

	p.choose("Kind", "policy.decision")
	p.see("No records match.")
	p.choose("Kind", "")
	p.seeRole("link", "before-1") // so that its going is the next filter's doing
	p.fill("Action", "live-1")
	p.do(do{"op": "gone", "role": "link", "name": "before-1"})
	p.seeRole("link", "live-1")
	var file string
	p.get(&file, do{"op": "download", "role": "button", "name": "Export"})
	lines := strings.Split(strings.TrimSpace(file), "\n")
	require.Len(t, lines, 1)
	var record schemas.Evidence
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &record))
	require.Equal(t, "live-1", record.ActionID)
}

// TestThePhoneAndTheKeyboard: no page is wider than a phone, in light and dark, and the pages are reached by keys.
func TestThePhoneAndTheKeyboard(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.up.Handle("/ok", upstream.Respond(http.StatusOK, `{"ok":true}`))
	n.call("a-rather-long-id-of-an-action-that-a-person-has-chosen-0001", http.MethodGet, n.up.URL()+"/ok")
	n.call("denied-1", http.MethodGet, "http://nowhere.example/"+strings.Repeat("long/", 40))
	n.order("echo-1", schemas.TaskEcho, `{"steps":3,"words":"`+strings.Repeat("long", 100)+`"}`)
	n.status("echo-1", "succeeded")
	n.shop()
	n.file("a-rather-long-id-of-a-task-that-a-person-has-chosen-0001", strings.Repeat("Shorten", 60), `,"pool":"none","branch":"`+strings.Repeat("long/", 30)+`x"`)
	p := n.signIn("phone", n.Token, do{"viewport": do{"width": 360, "height": 740}, "colorScheme": "dark", "hasTouch": true})
	for _, at := range []struct{ hash, heading string }{
		{"#/", "Flow"},
		{"#/actions", "Actions"},
		{"#/actions/denied-1", ""},
		{"#/tasks", "Tasks"},
		{"#/tasks/a-rather-long-id-of-a-task-that-a-person-has-chosen-0001", ""},
		{"#/runs", "Runs and chats"},
		{"#/runs/echo-1", ""},
		{"#/dead", "Dead letters"},
		{"#/rules", "Rules"},
		{"#/policy", "Policy"},
		{"#/evidence", "Evidence"},
		{"#/operations", "Operations"},
		{"#/budgets", "Budgets"},
		{"#/tokens", "Tokens"},
		{"#/nodes", "Nodes"},
	} {
		p.to(at.hash)
		if id := path.Base(at.hash); at.heading == "" {
			p.css(`.head .id:text-is("` + id + `")`)
		} else {
			p.seeRole("heading", at.heading)
		}
		p.do(do{"op": "gone", "css": ".spin"})
		var wider int
		p.evaluate(&wider, `() => document.documentElement.scrollWidth - document.documentElement.clientWidth`, nil)
		require.LessOrEqual(t, wider, 0, at.hash)
		p.accessible()
	}
	// The two keys go together for a moment, which the way to the browser may outlast.
	p.evaluate(nil, `() => { const now = Date.now(); Date.now = () => now }`, nil)
	for _, page := range []struct{ key, heading string }{{"p", "Policy"}, {"r", "Rules"}, {"t", "Tasks"}, {"c", "Runs and chats"}, {"o", "Operations"}, {"b", "Budgets"}, {"k", "Tokens"}, {"n", "Nodes"}, {"f", "Flow"}, {"a", "Actions"}} {
		p.do(do{"op": "press", "key": "g"})
		p.do(do{"op": "press", "key": page.key})
		p.seeRole("heading", page.heading)
	}
	focused := func() (name string) {
		p.evaluate(&name, `() => (document.activeElement.type ?? document.activeElement.tagName) + " " + document.activeElement.textContent`, nil)
		return name
	}
	p.seeRole("link", "denied-1")
	// j and k go through the rows; the palette opens pages, and searches.
	for _, step := range []struct{ key, row string }{{"j", "1"}, {"j", "2"}, {"k", "1"}} {
		p.do(do{"op": "press", "key": step.key})
		p.css(`tbody tr:nth-child(` + step.row + `):focus-within`)
	}
	p.do(do{"op": "press", "key": "?"})
	p.css(`dialog >> text=Next and previous row`)
	p.accessible()
	p.do(do{"op": "press", "key": "Escape"})
	p.do(do{"op": "gone", "css": "dialog"})
	p.do(do{"op": "press", "key": "/"})
	p.seeRole("option", "Go to Policy")
	require.Equal(t, "search ", focused())
	p.accessible()
	p.fill("Command", "denied")
	p.do(do{"op": "press", "key": "Enter"})
	p.see("1 matching")
	p.do(do{"op": "press", "key": "/"})
	p.fill("Command", "denied-1")
	p.do(do{"op": "press", "key": "ArrowDown"})
	p.do(do{"op": "press", "key": "Enter"})
	p.css(`.head .id:text-is("denied-1")`)
}
