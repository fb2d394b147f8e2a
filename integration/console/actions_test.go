//go:build e2e

package console_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

func TestActions(t *testing.T) {
	t.Parallel()
	n := start(t)
	release := make(chan struct{})
	n.up.Handle("/held", upstream.Hold(release, upstream.Respond(http.StatusOK, `{"held":true}`)))
	n.up.Handle("/ok", upstream.Respond(http.StatusOK, `{"ok":true}`))
	p := n.signIn("p", n.Token, nil)

	// The list shows accepted actions by itself.
	n.call("done-1", http.MethodGet, n.up.URL()+"/ok")
	n.call("denied-1", http.MethodGet, "http://nowhere.example/secret")
	p.seeRole("link", "done-1")
	p.seeRole("link", "denied-1")
	p.css(`tr:has-text("denied-1") >> text=DENY_HOST`)
	p.accessible()

	// A row that no longer matches a filter leaves the list.
	p.to("#/actions?status=open")
	p.see("No actions match the filters.")
	hold := make(chan struct{})
	n.up.Handle("/open", upstream.Hold(hold, upstream.Respond(http.StatusOK, `{}`)))
	n.call("open-1", http.MethodGet, n.up.URL()+"/open", "Prefer", "respond-async")
	p.seeRole("link", "open-1")
	close(hold)
	p.see("No actions match the filters.")
	p.to("#/actions")

	p.choose("Status", "denied")
	p.do(do{"op": "gone", "role": "link", "name": "done-1"})
	p.click("link", "denied-1")
	p.css(`section:has(#h-decision) >> text=DENY_HOST`)
	p.css(`section:has(#h-decision) >> text=url_prefix: http://nowhere.example/secret`)
	p.accessible()

	// One action, live: its running attempt, then its outcome.
	n.call("held-1", http.MethodGet, n.up.URL()+"/held", "Prefer", "respond-async")
	p.to("#/actions/held-1")
	p.css(`.head .id:text-is("held-1")`)
	p.css(".bar.busy")
	close(release)
	p.css(".bar.good")
	p.css(`.event.settled time:text-matches("^\\+[0-9.]+ (ms|s)$")`)
	p.css(`.head .badge >> text=succeeded`)
	p.css(`section:has(#h-result) >> text=held`)
	p.css(`section:has(#h-evidence) >> text=http.attempt`)
	p.accessible()

	require.Equal(t, "weir exec GET "+n.up.URL()+"/held", p.copied("Copy as weir exec"))
	require.Equal(t, `curl -sS `+n.prog.URL+`/v1/execute -H "Authorization: Bearer $WEIR_TOKEN" -H 'Content-Type: application/json' -d '{"type":"Http","args":{"method":"GET","url":"`+n.up.URL()+`/held"}}'`, p.copied("Copy as curl"))

	// Cancel one that has not started.
	n.call("later-1", http.MethodGet, n.up.URL()+"/ok", schemas.HeaderDelay, "1h")
	p.to("#/actions/later-1")
	p.css(`.head .badge >> text=waiting`)
	p.click("button", "Cancel")
	p.click("button", "Cancel the action")
	p.css(`.head .badge >> text=canceled`)
	n.status("later-1", "canceled")

	// Retry one as a new action.
	p.to("#/actions/done-1")
	p.css(`.head .badge >> text=succeeded`)
	p.click("button", "Retry as new action")
	p.do(do{"op": "click", "css": `dialog button.danger`})
	p.do(do{"op": "gone", "css": "dialog"})
	p.css(`.head .badge >> text=succeeded`)
	require.Equal(t, 4, n.up.Hits())
}

// TestABinaryBody: an answer that is no text is a size, a type and a download, and its call is repeated with
// the same bytes.
func TestABinaryBody(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.up.Handle("/dot", upstream.Respond(http.StatusNotFound, "\x00\x01", upstream.Header("Content-Type", "image/png; x=y")))
	p := n.signIn("p", n.Token, nil)
	require.Equal(t, "dot-1", n.Ask(t, http.MethodPost, "/v1/execute", `{"request_id":"dot-1","method":"PUT","url":"`+n.up.URL()+`/dot","body_base64":"AP8K"}`).ID())
	p.to("#/actions/dot-1")
	p.css(`section:has(#h-result) >> text=Body: 2 bytes of image/png`)
	p.do(do{"op": "gone", "css": `section:has(#h-result) pre:has-text("AAE=")`})
	p.accessible()
	var name, file string
	p.evaluate(&name, `() => document.querySelector("a[download]").download`, nil)
	p.get(&file, do{"op": "download", "role": "link", "name": "Download"})
	require.Equal(t, []string{"dot-1.png", "\x00\x01"}, []string{name, file})
	require.Equal(t, "printf %s AP8K | base64 -d | weir exec PUT "+n.up.URL()+"/dot -H 'Content-Type: application/octet-stream' --data-binary @-", p.copied("Copy as weir exec"))
	p.click("button", "Retry as new action")
	p.do(do{"op": "click", "css": `dialog button.danger`})
	p.do(do{"op": "gone", "css": "dialog"})
	p.css(`section:has(#h-result) >> text=Body: 2 bytes of image/png`)
	require.Equal(t, 2, n.up.Hits())
	for _, r := range n.up.Ledger() {
		require.Equal(t, []string{"\x00\xff\n", "application/octet-stream"}, []string{string(r.Body), r.Values("Content-Type")[0]})
	}
}

// called has the node answer with what it called.
const called = `() => {
  const real = window.fetch;
  window.fetch = async (path, options) => {
    const answer = await real(path, options);
    if (!path.startsWith("/v1/actions") || path.includes("/events")) return answer;
    const doc = await answer.json();
    const more = {method: "POST", host: "api.example.com", path: "/v1/<b>orders</b>", calls: 3, agent: "shopper", caller: "till", http_status: 418};
    if (path.includes("kind=")) Object.assign(more, {kind: "chat", model: "sim/small", tokens_in: 1234, tokens_out: 56, cost_usd: 0.0123, ttft_ms: 245});
    for (const a of doc.items ?? [doc]) Object.assign(a, more);
    return new Response(JSON.stringify(doc), {status: answer.status});
  };
}`

// TestTheCallIsTheTitle: lists and pages show the call of an action, with its status, agent and caller.
func TestTheCallIsTheTitle(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.call("denied-1", http.MethodGet, "http://nowhere.example/secret")
	p := n.signIn("p", n.Token, nil)
	p.seeRole("link", "denied-1")
	p.evaluate(nil, called, nil)
	p.to("#/actions?status=denied")
	const title = "POST api.example.com/v1/<b>orders</b> + 2 more"
	p.click("link", title)
	p.seeRole("heading", title)
	p.css(`.head .id:text-is("denied-1")`)
	p.css(`section:has(#h-facts) >> text=shopper`)
	p.css(`section:has(#h-facts) >> text=till`)
	p.css(`.event.settled`)
	p.accessible()
	p.to("#/actions")
	for _, cell := range []string{"418", "till · shopper"} {
		p.css(`tr:has-text("denied-1") td:text-is("` + cell + `")`)
	}
	p.see("1 in total")
	p.fill("Search", "denied")
	p.see("1 matching")
	p.choose("Time", "1h")
	p.seeRole("link", title)
	p.choose("Time", "range")
	p.fill("To", "2001-02-03T04:05")
	p.see("No actions match the filters.")
	p.accessible()
	p.to("#/runs?kind=chat")
	p.see("No runs or chats match the filters.")
	n.order("echo-1", schemas.TaskEcho, `{"steps":1}`)
	p.to("#/runs?kind=run")
	p.seeRole("link", "sim/small")
	for _, cell := range []string{"1,234 → 56", "$0.0123", "245 ms"} {
		p.css(`tr:has-text("echo-1") td:text-is("` + cell + `")`)
	}
	p.accessible()
}

// TestResolve resolves an unknown outcome.
func TestResolve(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.up.Handle("/lost", upstream.ResetBeforeResponse())
	n.call("lost-1", http.MethodPost, n.up.URL()+"/lost")
	n.status("lost-1", "outcome_unknown")
	p := n.signIn("p", n.Token, nil)
	p.click("link", "lost-1")
	p.click("button", "Resolve")
	p.fill("Note", "seen in the ledger")
	p.accessible()
	p.click("button", "Applied")
	p.css(`section:has(#h-facts) >> text=seen in the ledger`)
	require.Contains(t, n.Ask(t, http.MethodGet, "/v1/actions/lost-1", "").Body, `"effect":"applied"`)
}

// TestARestartIsSurvived: the page reports that it is not connected, keeps its rows and continues by itself.
func TestARestartIsSurvived(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.call("later-1", http.MethodGet, n.up.URL()+"/", schemas.HeaderDelay, "1h")
	list := n.signIn("list", n.Token, nil)
	list.seeRole("link", "later-1")
	one := n.signIn("one", n.Token, nil)
	one.to("#/actions/later-1")
	one.css(`.event.waiting`)

	n.prog.Kill()
	list.see("Disconnected")
	list.seeRole("link", "later-1")
	one.see("Disconnected")
	n.run()
	list.do(do{"op": "gone", "text": "Disconnected"})
	n.call("after-1", http.MethodGet, "http://nowhere.example/")
	list.seeRole("link", "after-1")
	// The stream resumes after its last event: no event is there twice.
	require.Less(t, n.Ask(t, http.MethodPost, "/v1/actions/later-1/cancel", "").Status, 300)
	one.css(`.event.settled`)
	var accepted int
	one.get(&accepted, do{"op": "count", "css": ".event.accepted"})
	require.Equal(t, 1, accepted)
}
