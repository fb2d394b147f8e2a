//go:build e2e

package console_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// ended waits until the page says how many ended in a way.
func (p *page) ended(outcome string, n int) {
	p.t.Helper()
	p.css(fmt.Sprintf(`.mix li:has(a[href^="#/actions?status=%s&"]) b:text-is("%d")`, outcome, n))
}

// stage waits for a figure of a stage of the pipeline.
func (p *page) stage(name, what, figure string) {
	p.t.Helper()
	p.css(fmt.Sprintf(`.stage[aria-label="%s"] p:has-text("%s") :is(b, span):text-is("%s")`, name, what, figure))
}

// sums adds each column of the last chart's table up.
const sums = `() => {
  const rows = [...document.querySelectorAll(".chart:last-child tbody tr")];
  return [...(rows[0]?.querySelectorAll("td") ?? [])].map((_, i) => rows.reduce((sum, r) => sum + Number(r.querySelectorAll("td")[i].textContent), 0));
}`

// tall is how tall the last chart is.
const tall = `() => document.querySelector(".chart:last-child").offsetHeight`

func TestFlow(t *testing.T) {
	t.Parallel()
	n := start(t)
	release := make(chan struct{})
	n.up.Handle("/ok", upstream.Respond(http.StatusOK, `{}`))
	n.up.Handle("/held", upstream.Hold(release, upstream.Respond(http.StatusOK, `{}`)))
	p := n.signIn("p", n.Token, nil)
	p.click("link", "Weir") // the first page
	p.seeRole("heading", "Flow")
	p.see("No actions yet.")
	p.css(`.attention >> text=Nothing.`)
	p.accessible()

	// The page updates by itself.
	n.call("ok-1", http.MethodGet, n.up.URL()+"/ok")
	n.call("denied-1", http.MethodGet, "http://nowhere.example/")
	n.call("held-1", http.MethodGet, n.up.URL()+"/held", "Prefer", "respond-async")
	n.call("later-1", http.MethodGet, n.up.URL()+"/ok", schemas.HeaderDelay, "1h")
	p.ended("succeeded", 1)
	p.ended("denied", 1)
	p.css(`.attention a[href="#/actions?status=denied&since=24h"] b:text-is("1")`)
	p.stage("Ingress", "in 15 min", "4")
	p.stage("Log", "waiting", "1")
	p.stage("Workers", "running", "1")
	p.css(`section:has(#h-kind) tr:has(a[href="#/actions?kind=http&since=15m"])`)
	p.css(`section:has(#h-entry) td:has-text("1 succeeded")`)
	close(release)
	p.ended("succeeded", 2)
	p.stage("Workers", "running", "0")
	p.accessible()

	// A chart is read by keys, step by step, where it stands, and as a table.
	var before, after int
	p.evaluate(&before, tall, nil)
	p.click("slider", "Outcomes: steps of 10 s")
	p.do(do{"op": "press", "key": "ArrowLeft"})
	p.css(`.chart:last-child .mark-step`)
	p.css(`.chart:last-child .area:focus[aria-valuetext$="outcome unknown 0"]`)
	p.evaluate(&after, tall, nil)
	require.Equal(t, before, after)
	p.do(do{"op": "click", "css": `.chart:last-child summary`})
	p.css(`.chart:last-child tbody tr`)
	var columns []int
	p.evaluate(&columns, sums, nil)
	require.Equal(t, []int{2, 0, 1, 0, 0, 0}, columns)
	p.accessible()

	p.click("button", "1 h")
	p.stage("Ingress", "in 1 h", "4")
	p.do(do{"op": "reload"})
	p.css(`button[aria-pressed="true"]:text-is("1 h")`)
	p.stage("Ingress", "in 1 h", "4")

	p.do(do{"op": "click", "css": `.mix a[href^="#/actions?status=denied"]`})
	p.seeRole("link", "denied-1")
	p.do(do{"op": "gone", "role": "link", "name": "ok-1"})
}

// crowded makes the node's index look behind, with more open actions than the page reads.
const crowded = `() => {
  const real = window.fetch;
  window.fetch = async (path, options) => {
    const doc = await (await real(path, options)).json();
    if (path.startsWith("/v1/stats")) Object.assign(doc, {behind: 1234, open: {count: 5000, oldest: "2026-01-02T03:04:05Z"}});
    if (path.startsWith("/v1/actions?status=open")) doc.next = "more";
    return new Response(JSON.stringify(doc));
  };
}`

// TestFlowOfMany: the page marks lower bounds where it has not read every open action.
func TestFlowOfMany(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.call("later-1", http.MethodGet, n.up.URL()+"/", schemas.HeaderDelay, "1h")
	p := n.signIn("p", n.Token, do{"reducedMotion": "reduce"})
	p.seeRole("link", "later-1")
	p.evaluate(nil, crowded, nil)
	p.click("link", "Flow")
	p.see("index catching up: about 1,234 records left")
	p.stage("Log", "open", "5,000")
	p.css(`.stage[aria-label="Log"] time[datetime="2026-01-02T03:04:05Z"]`)
	p.stage("Log", "waiting", "1+")
	p.stage("Workers", "running", "–")
	p.accessible()
}

// TestEachNumberIsOfItsList: what the first page counts is what its link opens, and a resolved outcome counts no more.
func TestEachNumberIsOfItsList(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.up.Handle("/lost", upstream.ResetBeforeResponse())
	n.up.Handle("/gone", upstream.Respond(http.StatusNotFound, `{}`))
	n.shop()
	for i := range 3 {
		n.call(fmt.Sprintf("denied-%d", i), http.MethodGet, "http://nowhere.example/")
	}
	n.call("failed-1", http.MethodGet, n.up.URL()+"/gone")
	for i := range 2 {
		n.call(fmt.Sprintf("lost-%d", i), http.MethodPost, n.up.URL()+"/lost")
		n.status(fmt.Sprintf("lost-%d", i), "outcome_unknown")
	}
	n.inquire(n.file("asks-1", "Ask", `,"pool":"none"`).Token, "Which?")
	n.file("asks-not", "Do not ask", `,"pool":"none"`)
	for path, state := range map[string]string{schemas.RouteOperationsPin: `,"state":"closed"`, schemas.RouteOperationsPause: ""} {
		n.Must(t, http.StatusOK, http.MethodPost, path, `{"entry":"up"`+state+`}`)
	}
	p := n.signIn("p", n.Token, nil)
	for _, of := range []struct {
		name, rows string
		n          int
	}{
		{"Outcome unknown, not resolved", "tbody tr", 2},
		{"Tasks that need input", ".board .task", 1},
		{"Failed, last 24 h", "tbody tr", 1},
		{"Denied, last 24 h", "tbody tr", 3},
		{"Paused or pinned by operators", "section:has(#h-held) tbody tr", 2},
	} {
		p.to("#/flow")
		p.click("link", fmt.Sprintf("%s %d", of.name, of.n))
		p.css(fmt.Sprintf(`main:has(%[1]s):not(:has(:nth-match(%[1]s, %[2]d)))`, of.rows, of.n+1))
		p.css(fmt.Sprintf(`:nth-match(%s, %d)`, of.rows, of.n))
	}
	p.to("#/actions")
	p.click("button", "denied 3")
	p.css(`.chips button[aria-pressed="true"]:text-is("denied 3")`)
	p.css(`main:has(tbody tr:nth-child(3)):not(:has(tbody tr:nth-child(4)))`)
	n.Must(t, http.StatusOK, http.MethodPost, "/v1/actions/lost-0/resolve", `{"effect":"applied"}`)
	p.to("#/flow")
	p.seeRole("link", "Outcome unknown, not resolved 1")
	p.accessible()
}
