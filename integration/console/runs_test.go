//go:build e2e

package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// give sends to a channel, and so lets its reader continue.
func give(t *testing.T, c chan<- struct{}) {
	t.Helper()
	select {
	case c <- struct{}{}:
	case <-time.After(patience):
		t.Fatal("no reader within the time limit")
	}
}

// order starts a run.
func (n *node) order(id, taskType, inputs string) {
	n.t.Helper()
	body := fmt.Sprintf(`{"request_id":%q,"task_type":%q,"inputs":%s}`, id, taskType, inputs)
	n.Must(n.t, http.StatusAccepted, http.MethodPost, schemas.RouteRunSync, body, "Prefer", "respond-async")
}

// texts are what all that a selector finds says.
func (p *page) texts(selector string) (all []string) {
	p.t.Helper()
	p.evaluate(&all, `s => [...document.querySelectorAll(s)].map(e => e.textContent)`, selector)
	return all
}

// steps reads how far the page shows ECHO: each step once, and in order.
func (p *page) steps() (n int) {
	p.t.Helper()
	for i, text := range p.texts(".piece.progress .words") {
		require.Equal(p.t, i+1, fixture.Decode[struct{ Step int }](p.t, text).Step)
		n = i + 1
	}
	return n
}

// TestARunIsWatched: the page shows each event of an agent once before the run ends, also after a reload.
func TestARunIsWatched(t *testing.T) {
	t.Parallel()
	step, hold := make(chan struct{}), make(chan struct{})
	double := agent.New(t, agent.Config{Script: []agent.Act{{
		Steps: 3, Step: step, Hold: hold,
		Progress: func(i int) string { return fmt.Sprintf(`{"piece":"no. %d <img src=x onerror=boom()>"}`, i) },
	}}})
	n := startWith(t, fmt.Sprintf("agents:\n  %s: {url: %q, mode: stream}\n", agent.TaskType, double.URL()))
	p := n.signIn("p", n.Token, nil)
	p.click("link", "Runs and chats")
	p.seeRole("heading", "Runs and chats")
	p.see("No runs or chats yet.")
	p.accessible()
	n.order("run-1", agent.TaskType, `{"topic":"tea"}`)
	n.call("call-1", http.MethodGet, "http://nowhere.example/")
	p.click("link", "run-1")
	give(t, step)
	p.css(`.piece >> text=no. 0 <img src=x`)
	p.do(do{"op": "reload"})
	p.css(`.piece >> text=no. 0 <img`)
	p.hidden(true) // and then it holds no connection
	poll.Until(t, func() bool {
		return strings.Contains(n.Ask(t, http.MethodGet, "/metrics", "").Body, "\nweir_sse_streams 0\n")
	})
	give(t, step)
	p.hidden(false)
	p.css(`.piece >> text=no. 1 <img`)
	p.css(`.head .badge >> text=running`)
	p.accessible()
	give(t, step)
	close(hold)
	p.css(`section:has(#h-final) >> text=tea`)
	p.css(`.head .badge >> text=succeeded`)
	for i := range 3 {
		var count int
		p.get(&count, do{"op": "count", "css": fmt.Sprintf(`.piece.progress:has-text("no. %d <img")`, i)})
		require.Equal(t, 1, count)
	}
	require.Empty(t, p.texts("main img"))
	p.click("link", "Action")
	p.seeRole("heading", "Timeline")
	p.click("link", "Stream")
	p.click("link", "← Runs and chats")
	p.seeRole("link", "run-1")
	p.fill("Task type", "OTHER")
	p.see("No runs or chats match the filters.")
	p.fill("Task type", agent.TaskType)
	p.seeRole("link", "run-1")
	require.NotContains(t, strings.Join(p.texts("td"), " "), "call-1")
}

// TestARunOverARestart: the page follows a run over a restart of the node, and cancels it with the scope.
func TestARunOverARestart(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.order("echo-1", schemas.TaskEcho, `{"steps":1000,"interval_ms":1000}`)
	p := n.signIn("p", n.Token, nil)
	p.to("#/runs/echo-1")
	p.css(`.piece.progress`)
	n.prog.Kill()
	p.see("Disconnected")
	before := p.steps()
	require.Positive(t, before)
	n.run()
	p.css(fmt.Sprintf(`.piece.progress >> text="step":%d,`, before+1))
	p.do(do{"op": "gone", "text": "Disconnected"})
	p.do(do{"op": "reload"})
	p.css(fmt.Sprintf(`.piece.progress >> text="step":%d,`, before+2))
	p.steps()

	reader := n.signIn("reader", n.token("reader", schemas.ScopeActionsRead), nil)
	reader.to("#/runs/echo-1")
	reader.css(`.piece.progress`)
	require.NotContains(t, strings.Join(reader.texts("main button"), " "), "Cancel")
	var status int
	reader.evaluate(&status, fetch, []any{"POST", "/v1/actions/echo-1/cancel", "", true})
	require.Equal(t, http.StatusForbidden, status)

	p.click("button", "Cancel")
	p.click("button", "Cancel the action")
	p.css(`.head .badge >> text=canceled`)
	reader.css(`.head .badge >> text=canceled`)
	n.status("echo-1", "canceled")
}

// TestALongStream: the page bounds a long stream, and does not move a reader who has scrolled up. A stream
// without its beginning continues with the stored events.
func TestALongStream(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.order("long-1", schemas.TaskEcho, `{"steps":1000}`)
	n.status("long-1", "succeeded")
	p := n.signIn("p", n.Token, nil)
	p.to("#/runs/long-1")
	p.css(`.piece.settled`)
	p.see("503 earlier events are not shown.")
	var count int
	p.get(&count, do{"op": "count", "css": ".piece"})
	require.Equal(t, 500, count)
	p.evaluate(nil, `() => { document.querySelector(".tail-box").scrollTop = 0 }`, nil)
	p.click("button", "Newest")
	p.do(do{"op": "gone", "role": "button", "name": "Newest"})

	events := program.Items[schemas.EventView](t, n.Client, "/v1/actions/long-1/events?limit=1000")
	gone, err := json.Marshal(schemas.Problem{Status: http.StatusGone, Code: schemas.StreamGone, EarliestID: strconv.FormatUint(events[990].Seq, 10)})
	require.NoError(t, err)
	p.do(do{"op": "instead", "glob": "**/v1/actions/long-1/events", "without": "last-event-id", "status": http.StatusGone, "body": string(gone)})
	p.do(do{"op": "reload"})
	p.css(`.piece.settled`)
	p.see("Earlier events are no longer stored")
	p.get(&count, do{"op": "count", "css": ".piece"})
	require.Equal(t, 1003-990, count)
}

// TestAChatIsWatched: an answer grows as the model gives it, and is whole and there once after a reload.
func TestAChatIsWatched(t *testing.T) {
	t.Parallel()
	step, hold := make(chan struct{}), make(chan struct{})
	double := llm.New(t, llm.Config{Models: map[string]llm.Act{
		"sim/slow": {Reasoning: []string{"Let me think. "}, Texts: []string{"Hel", "lo,\n  ", "<b>world</b>"}, Step: step, Hold: hold},
		"sim/tool": {Tools: []llm.Tool{{ID: "call_7", Name: "look_up", Arguments: []string{`{"q":`, `"tea"}`}}}},
	}})
	n := startWith(t, fmt.Sprintf("models:\n  \"sim/*\": {url: %q}\n", double.URL()))
	p := n.signIn("p", n.Token, nil)
	p.to("#/runs")
	id := n.chat("sim/slow", step)
	p.click("link", id)
	p.css(`.aside >> text=Let me think.`)
	give(t, step)
	p.css(`.said >> text=Hel`)
	p.do(do{"op": "reload"})
	p.css(`.said >> text=Hel`)
	give(t, step)
	p.css(`.said >> text=Hello,`)
	p.css(`.head .badge >> text=running`)
	p.accessible()
	give(t, step)
	close(hold)
	p.css(`.ends >> text=stop`)
	p.css(`.head .badge >> text=succeeded`)
	p.css(`section:has(#h-facts) >> text=7 tokens`)
	require.Equal(t, []string{"Hello,\n  <b>world</b>"}, p.texts(".said"))
	require.Equal(t, []string{"Let me think. "}, p.texts(".aside .words"))

	id = n.Ask(t, http.MethodPost, schemas.RouteChat, `{"model":"sim/tool","messages":[{"role":"user","content":"Look."}]}`).ID()
	p.to("#/runs/" + id)
	p.css(`.aside.tool >> text=Tool call: look_up`)
	p.css(`.aside.tool >> text={"q":"tea"}`)
	p.accessible()
	id = n.Ask(t, http.MethodPost, schemas.RouteChat, `{"model":"sim/status-400","messages":[{"role":"user","content":"No."}]}`).ID()
	p.to("#/runs/" + id)
	p.css(`.notice >> text=400`)
	p.see("No answer arrived.")
}

// chat has a completion streamed to a client that leaves with the test, lets its first piece come, and
// returns its id.
func (n *node) chat(model string, step chan<- struct{}) string {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":"Say it."}]}`, model)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.prog.URL+schemas.RouteChat, strings.NewReader(body))
	require.NoError(n.t, err)
	req.Header.Set("Authorization", "Bearer "+n.Token)
	req.Header.Set("Content-Type", "application/json")
	type answered struct {
		resp *http.Response
		err  error
	}
	got := make(chan answered, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		got <- answered{resp, err}
	}()
	give(n.t, step)
	a := <-got
	require.NoError(n.t, a.err)
	n.t.Cleanup(func() { cancel(); _ = a.resp.Body.Close() })
	require.Equal(n.t, http.StatusOK, a.resp.StatusCode)
	return a.resp.Header.Get(schemas.HeaderGeneration)
}
