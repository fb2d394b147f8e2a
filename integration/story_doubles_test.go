//go:build e2e

package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// programs are the running programs by work directory: testscript gives its
// commands no place of their own.
var programs sync.Map

func contextOf(*testscript.TestScript) context.Context { return context.Background() }

// storyUpstream is what the stories call:
//
//	/ok…        200 {"ok":true}
//	/flaky…     closes the first connection, then as /ok
//	/drop…      closes every connection after it has read the request
//	/busy…      503 twice, then as /ok
//	/status/N   that status
//	/later      503, to be tried again in a minute
//	/text       200 with a text body
//	/echo       200 with the request's credential
//	/header     200 with the request's X-Story
//	/wait…      answers when somebody calls /open
type storyUpstream struct {
	*upstream.Server

	gate chan struct{}
}

func newStoryUpstream(tb testing.TB) *storyUpstream {
	tb.Helper()
	u := &storyUpstream{gate: make(chan struct{})}
	open := sync.OnceFunc(func() { close(u.gate) })
	u.Server = upstream.New(tb, upstream.Answer(u.answer))
	u.Handle("/open", upstream.Answer(func(x *upstream.Exchange) {
		open()
		upstream.Do(upstream.OK(), x)
	}))
	return u
}

// lines are the requests so far, and counts how often each path was called.
func (u *storyUpstream) lines() (lines []string, counts map[string]int) {
	counts = map[string]int{}
	for _, r := range u.Ledger() {
		path, _, _ := strings.Cut(r.Target, "?")
		if path == "/open" {
			continue
		}
		counts[r.Method+" "+path]++
		line := r.Method + " " + r.Target
		if key := r.Header("Idempotency-Key"); key != "" {
			line += " key=" + key
		}
		if len(r.Body) > 0 {
			line += " body=" + string(r.Body)
		}
		lines = append(lines, line)
	}
	return lines, counts
}

func (u *storyUpstream) answer(x *upstream.Exchange) {
	path, _, _ := strings.Cut(x.Request.Target, "?")
	_, counts := u.lines()
	n := counts[x.Request.Method+" "+path]
	status, kind, body, more := http.StatusOK, "application/json", `{"ok":true,"n":1.50}`, []schemas.Header(nil)
	switch {
	case strings.HasPrefix(path, "/drop"), strings.HasPrefix(path, "/flaky") && n == 1:
		x.Close()
		return
	case strings.HasPrefix(path, "/busy") && n <= 2:
		status, body = http.StatusServiceUnavailable, `{"busy":true}`
	case strings.HasPrefix(path, "/status/"):
		status, _ = strconv.Atoi(strings.TrimPrefix(path, "/status/"))
		body = `{"status":"as asked"}`
	case path == "/later":
		status, body, more = http.StatusServiceUnavailable, `{}`, append(more, upstream.Header("Retry-After", "60"))
	case path == "/text":
		kind, body = "text/plain; charset=utf-8", "plain words"
	case path == "/echo":
		body = strconv.Quote(x.Request.Header("Authorization"))
	case path == "/header":
		body = strconv.Quote(x.Request.Header("X-Story"))
	case strings.HasPrefix(path, "/wait"):
		select {
		case <-u.gate:
		case <-x.Stopped():
			return
		}
	}
	more = append(more, upstream.Header("Content-Type", kind), upstream.Header("Set-Cookie", "session=AGWCANARY-cookie"))
	upstream.Do(upstream.Respond(status, body, more...), x)
}

// storyKey is the credential of the provider in scripts.
const storyKey = "AGWCANARY-provider-key"

// newStoryProvider starts the provider that scripts' models are asked of.
func newStoryProvider(env *testscript.Env, cfg llm.Config) {
	p := llm.Start(cfg)
	env.Defer(p.Close)
	env.Values["provider"] = p
	env.Setenv("PROVIDER", p.URL())
	env.Setenv("WEIR_SECRET_STORY_PROVIDER", storyKey)
}

// cmdProvider prints the models that the provider was asked for, in order; with -key
// the credential that came with the last request.
func cmdProvider(ts *testscript.TestScript, _ bool, args []string) {
	all := of[*llm.Server](ts, "provider").Ledger()
	if len(args) > 0 && args[0] == "-key" {
		fmt.Fprintln(ts.Stdout(), all[len(all)-1].Key())
		return
	}
	for _, r := range all {
		fmt.Fprintln(ts.Stdout(), r.Asked.Model)
	}
}

// storyAgents are the agents that a script has started, by task type.
type storyAgents struct {
	tb     testing.TB
	byType map[string]*agent.Agent
}

// of is what a script has under a key, put there by Setup.
func of[T any](ts *testscript.TestScript, key string) T {
	v, ok := ts.Value(key).(T)
	if !ok {
		ts.Fatalf("the script has no %s", key)
	}
	return v
}

func agentOf(ts *testscript.TestScript, taskType string) *agent.Agent {
	a := of[*storyAgents](ts, "agents").byType[taskType]
	if a == nil {
		ts.Fatalf("there is no agent of %s", taskType)
	}
	return a
}

func cmdAgent(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: agent TASK_TYPE [FAULT]")
	}
	taskType, fault := args[0], agent.Fault(strings.Join(args[1:], " "))
	if fault != agent.Correct && !slices.Contains(agent.Faults(), fault) {
		ts.Fatalf("there is no fault %q", fault)
	}
	all := of[*storyAgents](ts, "agents")
	a := agent.New(all.tb, agent.Config{TaskTypes: []string{taskType}, Fault: fault})
	ts.Defer(a.Close)
	all.byType[taskType] = a
	ts.Setenv(taskType, a.URL())
	file, err := os.OpenFile(ts.MkAbs("weir.yaml"), os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	mode := schemas.AgentAuto
	if fault == agent.Stalls { // a synchronous caller's run is to meet it, too
		mode = schemas.AgentStream
	}
	_, err = fmt.Fprintf(file, "  %s: {url: %q, mode: %s}\n", taskType, a.URL(), mode)
	ts.Check(err)
	ts.Check(file.Close())
}

func cmdAgentReached(ts *testscript.TestScript, _ bool, args []string) {
	agentOf(ts, args[0]).WaitRun(1)
}

func cmdAgentLedger(ts *testscript.TestScript, _ bool, args []string) {
	a := agentOf(ts, args[0])
	for _, r := range a.Ledger() {
		<-r.Closed()
		how := "answered"
		if r.Cut() {
			how = "cut"
		}
		fmt.Fprintln(ts.Stdout(), r.Route, r.Run.RequestID, how)
	}
	fmt.Fprintln(ts.Stdout(), "total", a.Hits())
}

// cmdAsked waits until the agent of a task asks something.
func cmdAsked(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: asked TASK")
	}
	ts.Check(started(ts).happened(contextOf(ts), args[0], "asked"))
}

// cmdClone clones a branch with a token that is the password of some user.
func cmdClone(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: clone TOKENFILE REPO DIR BRANCH")
	}
	token := strings.TrimSpace(ts.ReadFile(args[0]))
	at := strings.Replace(started(ts).URL, "http://", "http://anybody:"+token+"@", 1)
	cmd := exec.CommandContext(contextOf(ts), "git", "clone", "-q", "-b", args[3], at+"/git/"+args[1]+".git", ts.MkAbs(args[2]))
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.MkAbs("."), "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	fmt.Fprintf(ts.Stderr(), "%s", out)
	if (err != nil) != neg {
		ts.Fatalf("git clone: %v\n%s", err, out)
	}
}
