//go:build e2e

package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// shop makes an empty repository of that name.
func (n *node) shop() {
	n.t.Helper()
	n.MakeRepo(n.t, map[string]any{"name": "shop"})
}

// file files a task for the repository "shop".
func (n *node) file(id, description, rest string) schemas.NewTask {
	n.t.Helper()
	return fixture.Decode[schemas.NewTask](n.t, n.Must(n.t, http.StatusCreated, http.MethodPost, schemas.RouteTasks, fmt.Sprintf(`{"repo":"shop","request_id":%q,"description":%q%s}`, id, description, rest)))
}

// lease takes the oldest task that waits, as a pool's agent.
func (n *node) lease(pool string) schemas.LeasedTask {
	n.t.Helper()
	return fixture.Decode[schemas.LeasedTask](n.t, n.As(pool).Must(n.t, http.StatusOK, http.MethodPost, schemas.RouteTaskLease, `{"wait_ms":30000}`))
}

// inquire sends an agent's question, and returns the answer on a channel.
func (n *node) inquire(token, question string) <-chan string {
	n.t.Helper()
	body, err := json.Marshal(schemas.InquiryRequest{Inquiry: question})
	require.NoError(n.t, err)
	said := make(chan string, 1)
	go func() {
		a, err := n.As(token).Try(n.t.Context(), http.MethodPost, schemas.RouteAgentInquiry, string(body))
		if err != nil {
			a.Body = err.Error()
		}
		said <- a.Body
	}()
	return said
}

// clone is a task's branch as its agent has it.
func (n *node) clone(task schemas.AgentTask, token string) (dir string, git func(args ...string) gitkit.Result) {
	n.t.Helper()
	dir = filepath.Join(n.t.TempDir(), "repo")
	run := func(in string, args ...string) gitkit.Result {
		return gitkit.Run(n.t.Context(), in, gitkit.Env(), nil, append([]string{"-c", "http.extraHeader=Authorization: Bearer " + token}, args...)...)
	}
	r := run(filepath.Dir(dir), "clone", "-q", "-b", task.GitBranch, task.GitRepoURL, dir)
	require.Zero(n.t, r.Code, r.Err)
	return dir, func(args ...string) gitkit.Result { return run(dir, args...) }
}

// TestTasks is the life of a task as its people see it: filed, leased, a question and its answer, a push and one that is refused,
// the end.
func TestTasks(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.shop()
	pool := n.token("pool", schemas.ScopeTasksWork)
	board := n.signIn("board", n.Token, nil)
	board.click("link", "Tasks")
	board.see("No tasks yet.")
	board.accessible()

	// On the board it goes from state to state by itself.
	n.file("paint-1", "Paint the <b>shed</b>\n\nIn a colour that lasts.", `,"branch":"paint"`)
	board.css(`.stack:has(#state-Queued) >> text=Paint the <b>shed</b>`)
	leased := n.lease(pool)
	require.Equal(t, "paint-1", leased.ID)
	board.css(`.stack:has(#state-Running) >> text=paint-1`)
	said := n.inquire(leased.Token, "Which colour?")
	board.css(`.stack:has(#state-Running) .task >> text=needs input`)
	board.accessible()
	board.to("#/flow")
	board.click("link", "Tasks that need input 1")
	board.css(`.stack:has(#state-Running) >> text=1 of 1`)
	board.to("#/tasks")

	one := n.signIn("one", n.Token, nil)
	one.to("#/tasks/paint-1")
	one.css(`section:has(#h-asked) >> text=Which colour?`)
	one.css(`section:has(#h-log) .event.asked`)
	one.accessible()
	one.fill("Answer to question 1", "Red, as <i>ever</i>")
	one.click("button", "Answer")
	one.css(`section:has(#h-asked) >> text=Red, as <i>ever</i>`)
	require.JSONEq(t, `"Red, as <i>ever</i>"`, <-said)

	dir, git := n.clone(leased.Task, leased.Token)
	head := gitkit.Write(t, dir, "shed.txt", "red\n")
	r := git("push", "-q", "origin", "HEAD")
	require.Zero(t, r.Code, r.Err)
	one.css(`section:has(#h-pushes) li:has-text("succeeded") >> text=` + head[:10])
	one.css(`section:has(#h-log) .event.pushed a`)
	one.css(`section:has(#h-diff) details:has-text("shed.txt") .add:has-text("+red")`)
	n.up.Handle("/paint", upstream.Respond(http.StatusOK, `{"colour":"red"}`))
	n.up.Handle("/none", upstream.Respond(http.StatusNotFound, `{}`))
	for _, path := range []string{"/paint", "/none"} {
		n.As(leased.Token).Ask(t, http.MethodPost, "/v1/execute", `{"method":"GET","url":"`+n.up.URL()+path+`"}`)
	}
	one.css(`section:has(#h-log) .event.made:has-text("200") >> text=/paint`)
	one.css(`section:has(#h-log) .event.made:has-text("404") >> text=/none`)
	require.Less(t, n.As(leased.Token).Ask(t, http.MethodPost, schemas.RouteAgentOutput, `{"text":"first <coat>\n"}`).Status, 300)
	one.css(`section:has(#h-log) .event.output >> text=first <coat>`)
	one.css(`section:has(#h-use) .facts div:has-text("HTTP calls") dd a:text-is("2")`)
	require.NotZero(t, git("push", "-q", "origin", "HEAD:main").Code)
	one.css(`section:has(#h-pushes) li:has-text("denied") >> text=on main`)
	one.css(`section:has(#h-pushes) li:has-text("denied") >> text=` + string(schemas.GitRefDenied))
	one.accessible()

	n.As(leased.Token).Must(t, http.StatusOK, http.MethodPost, schemas.RouteAgentComplete, `{"description":"The shed is red."}`)
	one.css(`section:has(#h-end) >> text=The shed is red.`)
	one.css(`.head .badge >> text=Completed`)
	one.css(`section:has(#h-log) .event.settled`)
	board.css(`.stack:has(#state-Completed) >> text=paint-1`)
	one.accessible()

	one.do(do{"op": "click", "css": `section:has(#h-pushes) li:has-text("denied") a`})
	one.css(`.head .badge >> text=denied`)
	one.css(`section:has(#h-facts) a >> text=paint-1`)
}

// TestTwoAnswerOneQuestion: the first answer counts. The second page reports that, even if it has not seen the first.
func TestTwoAnswerOneQuestion(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.shop()
	filed := n.file("ask-1", "Ask twice", `,"pool":"none"`)
	clerk := n.token("clerk", schemas.ScopeTasksWrite, schemas.ScopeActionsRead)
	said := n.inquire(filed.Token, "Red or green?")
	first, second, third := n.signIn("first", n.Token, nil), n.signIn("second", clerk, nil), n.signIn("third", clerk, nil)
	for _, p := range []*page{first, second, third} {
		p.to("#/tasks/ask-1")
		p.fill("Answer to question 1", "answer of "+p.name)
	}
	// From now on the third page hears nothing, until it has sent its own.
	third.evaluate(nil, `() => {
  const ask = window.fetch;
  const opened = new Promise((open) => (window.hear = open));
  window.fetch = async (path, init) => {
    if (init?.method !== "POST") await opened;
    return ask(path, init);
  };
}`, nil)
	first.click("button", "Answer")
	require.JSONEq(t, `"answer of `+first.name+`"`, <-said)
	first.css(`section:has(#h-asked) >> text=Answer by`)

	second.see("Another answer arrived first.")
	second.css(`section:has(#h-asked) .notice >> text=answer of ` + second.name)
	second.css(`section:has(#h-asked) .quoted >> text=answer of ` + first.name)
	second.accessible()
	second.click("button", "Discard mine")
	second.do(do{"op": "gone", "text": "Another answer arrived first."})

	third.click("button", "Answer")
	third.css(`section:has(#h-asked) .notice >> text=the first one counts`)
	third.evaluate(nil, `() => window.hear()`, nil)
	third.see("Another answer arrived first.")
	asked := n.Task(t, "ask-1").Inquiries
	require.Len(t, asked, 1)
	require.Equal(t, "answer of "+first.name, *asked[0].Answer, "nothing was overwritten")
}

// TestFilingATask by the page: its token is shown once, and is the one that counts.
func TestFilingATask(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.shop()
	p := n.signIn("p", n.Token, nil)
	p.click("link", "Tasks")
	p.click("button", "New task")
	p.fill("Description", "Count the beans")
	p.choose("Repository", "shop")
	p.do(do{"op": "click", "text": "Pool, models, budget and more"})
	p.fill("Pool", "none")
	p.fill("Metadata", "ticket = 17\ncolour = red")
	p.accessible()
	p.fill("Deadline", "yesterday")
	p.click("button", "Create")
	p.see("at /deadline")
	p.fill("Deadline", "2h")
	p.click("button", "Create")
	p.see("Weir shows this token once")
	for range 3 { // a key that was meant for something else does not take away what is shown once
		p.do(do{"op": "press", "key": "Escape"})
	}
	p.see("Weir shows this token once")
	p.accessible()
	token := p.copied("Copy the token")
	p.click("button", "Done")
	p.do(do{"op": "gone", "css": "dialog"})
	require.Contains(t, n.As(token).Must(t, http.StatusOK, http.MethodGet, schemas.RouteAgentTask, ""), "Count the beans")
	var page string
	p.evaluate(&page, `() => document.documentElement.outerHTML + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)`, nil)
	require.NotContains(t, page, token)

	// A new token, and then the cancel, each after a confirmation.
	p.css(`.stack:has(#state-Running) >> text=Count the beans`)
	p.click("link", "Count the beans")
	p.css(`section:has(#h-facts) >> text=17`)
	p.click("button", "New token")
	p.click("button", "Create token")
	p.see("Weir shows this token once")
	p.click("button", "Done")
	n.As(token).Must(t, http.StatusUnauthorized, http.MethodGet, schemas.RouteAgentTask, "")
	p.click("button", "Cancel")
	p.accessible()
	p.click("button", "Cancel the task")
	p.css(`.head .badge >> text=Canceled`)
	p.click("link", "← Tasks")
	p.css(`.stack:has(#state-Canceled) >> text=Count the beans`)
	p.choose("State", "Completed")
	p.do(do{"op": "gone", "css": "#state-Canceled"})
	p.choose("State", "")
	p.fill("Search", "BEANS")
	p.css(`.stack:has(#state-Canceled) >> text=1 of 1`)
	p.fill("Search", "peas")
	p.css(`.stack:has(#state-Canceled) >> text=0 of 1`)
}
