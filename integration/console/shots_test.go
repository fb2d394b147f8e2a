//go:build e2e && shots

package console_test

import (
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

var shots = flag.String("console.shots", "../../docs/console", "write a picture of each page to this directory")

// TestShots takes a picture of each page, light and dark, wide and on a phone.
func TestShots(t *testing.T) { //nolint:paralleltest // one page after the other
	step, words := make(chan struct{}), make(chan struct{})
	reviewer := agent.New(t, agent.Config{TaskTypes: []string{"CODE_REVIEW"}, Script: []agent.Act{{Steps: 6, Step: step, Progress: review}}})
	provider := llm.New(t, llm.Config{Models: map[string]llm.Act{"sim/large": {Texts: []string{"A weir is a low barrier ", "across a river."}}}, Default: llm.Act{Step: words, Reasoning: []string{"They ask what a weir is: a short answer, with one example."}, Texts: []string{
		"A weir is a low barrier across a river. ", "It raises the water behind it and lets the rest flow over,\n", "so that what comes down is measured, and never all at once.\n\n", "    flow = 1.84 · width · height^1.5\n\n", "Millers have", " built them",
	}}})
	n := startWith(t, fmt.Sprintf("agents:\n  CODE_REVIEW: {url: %q, mode: stream}\nmodels:\n  \"sim/*\": {url: %q, price: {input: 2.5, output: 10}}\nbudgets:\n  daily: {per: [token], window: 24h, requests: 600, usd: 20}\n", reviewer.URL(), provider.URL()))
	n.order("review-1", "CODE_REVIEW", `{"repo":"shop","change":"4f1c2ab"}`)
	chat := n.chat("sim/small", words)
	for range 4 {
		give(t, step)
		give(t, words)
	}
	for range 2 {
		n.Must(t, http.StatusOK, http.MethodPost, schemas.RouteChat, `{"model":"sim/large","messages":[{"role":"user","content":"What is a weir?"}]}`)
	}
	n.tasks()
	release := make(chan struct{})
	defer close(release)
	n.up.Handle("/held", upstream.Hold(release, upstream.OK()))
	n.up.Handle("/orders", upstream.Respond(http.StatusOK, `{"orders":[{"id":7,"item":"tea"}]}`))
	n.up.Handle("/busy", upstream.Respond(http.StatusServiceUnavailable, `{}`), upstream.Respond(http.StatusServiceUnavailable, `{}`), upstream.Respond(http.StatusOK, `{"ok":true}`))
	n.up.Handle("/gone", upstream.Respond(http.StatusNotFound, `{}`))
	n.up.Handle("/lost", upstream.ResetBeforeResponse())
	n.call("retried-1", http.MethodGet, n.up.URL()+"/busy")
	n.call("lost-1", http.MethodPost, n.up.URL()+"/lost")
	for i := range 9 {
		n.call(fmt.Sprintf("order-%d", i), http.MethodGet, n.up.URL()+"/orders")
	}
	n.call("missing-1", http.MethodGet, n.up.URL()+"/gone")
	for i := range 3 {
		n.call(fmt.Sprintf("mail-%d", i), http.MethodPost, "https://mail.example.com/v1/send")
	}
	n.call("metadata-1", http.MethodGet, "http://169.254.169.254/latest/meta-data/")
	n.call("held-1", http.MethodGet, n.up.URL()+"/held", "Prefer", "respond-async")
	n.call("tomorrow-1", http.MethodGet, n.up.URL()+"/orders", schemas.HeaderDelay, "23h")
	n.status("held-1", "started")
	for _, rule := range []string{
		`{"id":"mock-mail","name":"No mail leaves a rehearsal","type":"mock","match":{"url_pattern":"https://mail.example.com/*","method":"POST"},"action":{"status":202,"body":{"queued":true}}}`,
		`{"id":"slow-orders","type":"delay","match":{"url_pattern":"` + n.up.URL() + `/orders*"},"action":{"delay_ms":1500},"scope":{"agent":"LIT_RETRIEVAL"}}`,
	} {
		etag := n.Etag(t)
		n.Must(t, http.StatusOK, http.MethodPost, "/v1/agent-api", `{"request_id":"`+etag+`","operation":"rules.create","args":{"rule":`+rule+`,"if_match":"`+etag+`"}}`)
	}
	n.Must(t, http.StatusOK, http.MethodPost, schemas.RouteOperationsPin, `{"entry":"up","state":"closed","reason":"their limits are wrong today"}`)
	for _, form := range []struct {
		name          string
		width, height int
		colours       string
	}{{"wide-light", 1280, 860, "light"}, {"wide-dark", 1280, 860, "dark"}, {"phone-light", 390, 800, "light"}, {"phone-dark", 390, 800, "dark"}} {
		p := n.signIn(form.name, n.Token, do{"viewport": do{"width": form.width, "height": form.height}, "colorScheme": form.colours})
		for name, at := range map[string][2]string{
			"flow": {"#/flow", "Flow"}, "actions": {"#/actions", "Actions"}, "action": {"#/actions/retried-1", "Timeline"}, "tasks": {"#/tasks", "Tasks"}, "task": {"#/tasks/totals-1", "Timeline"}, "runs": {"#/runs", "Runs and chats"}, "run": {"#/runs/review-1", "Stream"}, "chat": {"#/runs/" + chat, "Answer"}, "dead": {"#/dead", "Dead letters"}, "rules": {"#/rules", "Rules"}, "policy": {"#/policy", "Policy"}, "evidence": {"#/evidence", "Evidence"}, "denied": {"#/actions/mail-1", "Decision"},
			"operations": {"#/operations", "Operations"}, "budgets": {"#/budgets", "Budgets"}, "tokens": {"#/tokens", "Tokens"}, "nodes": {"#/nodes", "Nodes"},
		} {
			p.to(at[0])
			p.seeRole("heading", at[1])
			p.do(do{"op": "gone", "css": ".spin"})
			p.do(do{"op": "settle"})
			p.do(do{"op": "shot", "path": filepath.Join(*shots, name+"-"+form.name+".png")})
		}
		p.to("#/rules")
		p.click("button", "New rule")
		p.css(`.verdict >> text=mock-1`)
		p.do(do{"op": "shot", "path": filepath.Join(*shots, "rule-"+form.name+".png")})
	}
}

// review is the progress that the agent reports.
func review(i int) string {
	said := []string{"reading 14 files", "the tests of cart pass", "total() rounds twice\n  cart.go:41\n  cart.go:88", "asking for a smaller change", "writing it down", "done"}[i]
	return fmt.Sprintf(`{"message":%q,"percent":%d}`, said, 16*(i+1))
}

// tasks creates some, and works on them.
func (n *node) tasks() {
	n.t.Helper()
	n.shop()
	pool := n.token("pool", schemas.ScopeTasksWork)
	n.file("totals-1", "Fix the rounding of totals, with a test\n\nThe sum of an order with 3 items of 0.10 is shown as 0.30000000000000004.", `,"branch":"totals","deadline":"6h","metadata":{"ticket":"SHOP-17"}`)
	leased := n.lease(pool)
	dir, git := n.clone(leased.Task, leased.Token)
	gitkit.Write(n.t, dir, "totals.go", "package totals\n\n// Round rounds an amount half up, to cents.\nfunc Round(cents float64) int64 {\n\treturn int64(cents + 0.5)\n}\n")
	require.Zero(n.t, git("push", "-q", "origin", "HEAD").Code)
	require.NotZero(n.t, git("push", "-q", "origin", "HEAD:main").Code)
	for _, prompt := range []string{"How are totals rounded?", "Write the test."} {
		n.As(leased.Token).Must(n.t, http.StatusOK, http.MethodPost, schemas.RouteChat, `{"model":"sim/large","messages":[{"role":"user","content":"`+prompt+`"}]}`)
		require.Less(n.t, n.As(leased.Token).Ask(n.t, http.MethodPost, schemas.RouteAgentOutput, `{"text":"--- PASS: TestTotals (0.00s)\nok  \tshop/totals\t0.012s\n"}`).Status, 300)
	}
	for _, path := range []string{"/orders", "/gone"} {
		require.Less(n.t, n.As(leased.Token).Ask(n.t, http.MethodPost, "/v1/execute", `{"method":"GET","url":"`+n.up.URL()+path+`"}`).Status, 500)
	}
	n.inquire(leased.Token, "Are totals to be rounded half up, or half to even?\nThe tests of the till say half up, the ledger says half to even.")
	for i, what := range []string{"Take the old till's protocol out", "Say in the README how to seed a database"} {
		n.file(fmt.Sprintf("done-%d", i), what, "")
		done := n.lease(pool)
		n.As(done.Token).Must(n.t, http.StatusOK, http.MethodPost, schemas.RouteAgentComplete, `{"description":"Done, and tested."}`)
	}
	n.file("failed-1", "Upgrade the framework to the next version", "")
	failed := n.lease(pool)
	n.As(failed.Token).Must(n.t, http.StatusOK, http.MethodPost, schemas.RouteAgentFail, `{"description":"It needs a newer compiler.","reason":"TechnicalIssues"}`)
	n.file("stopped-1", "Rewrite everything in another language", "")
	require.Less(n.t, n.Ask(n.t, http.MethodPost, schemas.RouteTasks+"/stopped-1/cancel", "").Status, 300)
	n.file("night-1", "Go through the dependencies and name those that are not used", `,"pool":"night"`)
	n.file("hand-1", "Look at the flaky test of the cart", `,"pool":"none"`)
}
