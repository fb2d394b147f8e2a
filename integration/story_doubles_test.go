//go:build e2e

package integration_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
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
	"weir/schemas"
)

// programs are the running programs by work directory: testscript gives its
// commands no place of their own.
var programs sync.Map

func contextOf(*testscript.TestScript) context.Context { return context.Background() }

// storyUpstream is what the stories call. It notes each request before it answers:
//
//	/ok…        200 {"ok":true}
//	/flaky…     closes the first connection, then as /ok
//	/drop…      closes every connection after it has read the request
//	/busy…      503 twice, then as /ok
//	/status/N   that status
//	/later      503, to be tried again in a minute
//	/text       200 with a text body
//	/echo       200 with the request's headers
//	/header     200 with the request's X-Story
//	/wait…      answers when somebody calls /open
type storyUpstream struct {
	*httptest.Server
	mu    sync.Mutex
	seen  []string
	count map[string]int
	gate  chan struct{}
}

func newStoryUpstream() *storyUpstream {
	u := &storyUpstream{count: map[string]int{}, gate: make(chan struct{})}
	u.Server = httptest.NewServer(u)
	return u
}

func (u *storyUpstream) shut() {
	u.open()
	u.Close()
}

func (u *storyUpstream) open() {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.gate:
	default:
		close(u.gate)
	}
}

func (u *storyUpstream) lines() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.seen)
}

func (u *storyUpstream) counts() map[string]int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.count)
}

func (u *storyUpstream) note(r *http.Request) int {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	defer u.mu.Unlock()
	line := r.Method + " " + r.URL.RequestURI()
	u.count[r.Method+" "+r.URL.Path]++
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		line += " key=" + key
	}
	if len(body) > 0 {
		line += " body=" + string(body)
	}
	u.seen = append(u.seen, line)
	return u.count[r.Method+" "+r.URL.Path]
}

func (u *storyUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/open" {
		u.open()
		return
	}
	n := u.note(r)
	path := r.URL.Path
	switch {
	case strings.HasPrefix(path, "/drop"), strings.HasPrefix(path, "/flaky") && n == 1:
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
		return
	case strings.HasPrefix(path, "/busy") && n <= 2:
		answer(w, http.StatusServiceUnavailable, "application/json", `{"busy":true}`)
		return
	case strings.HasPrefix(path, "/status/"):
		status, _ := strconv.Atoi(strings.TrimPrefix(path, "/status/"))
		answer(w, status, "application/json", `{"status":"as asked"}`)
		return
	case path == "/later":
		w.Header().Set("Retry-After", "60")
		answer(w, http.StatusServiceUnavailable, "application/json", `{}`)
		return
	case path == "/text":
		answer(w, http.StatusOK, "text/plain; charset=utf-8", "plain words")
		return
	case path == "/echo":
		answer(w, http.StatusOK, "application/json", fmt.Sprintf("%q", r.Header.Get("Authorization")))
		return
	case path == "/header":
		answer(w, http.StatusOK, "application/json", fmt.Sprintf("%q", r.Header.Get("X-Story")))
		return
	case strings.HasPrefix(path, "/wait"):
		select {
		case <-u.gate:
		case <-r.Context().Done():
			return
		}
	}
	answer(w, http.StatusOK, "application/json", `{"ok":true,"n":1.50}`)
}

func answer(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Set-Cookie", "session=AGWCANARY-cookie")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// storyKey is the credential of the provider in scripts.
const storyKey = "AGWCANARY-provider-key"

// newStoryProvider starts the provider that scripts' models are asked of.
func newStoryProvider(env *testscript.Env, cfg llm.Config) error {
	p, err := llm.Start(cfg)
	if err != nil {
		return err
	}
	env.Defer(p.Close)
	env.Values["provider"] = p
	env.Setenv("PROVIDER", p.URL())
	env.Setenv("WEIR_SECRET_STORY_PROVIDER", storyKey)
	return nil
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
