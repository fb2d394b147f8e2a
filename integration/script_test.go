//go:build e2e

package integration_test

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tmaxmax/go-sse"

	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
)

// TestStories runs script/*.txtar: what a user does with the built program, at
// the level of single requests. Commands besides testscript's own:
//
//	serve [FLAG…]              start `weir serve` on $WORK/data; $WEIR_URL points at it
//	serve -here [FLAG…]        the same in $WORK, where weir.yaml is found and not named
//	crash, drain              end it as a crash would; ask it to end, and expect exit 0
//	http METHOD PATH [-d FILE] [-H 'Name: value'] [-token FILE]…    one request; prints status, some headers, body
//	sse PATH [-n COUNT] [-after ID] [-d FILE]        read a stream, by POST with a body; prints `id event` a line
//	ledger                     what the upstream received, in order
//	asked TASK                 wait until a task's agent asks something
//	clone TOKENFILE REPO DIR BRANCH    clone a branch with a token
//	unreliable                 put a proxy before Weir that loses the first answer to each call, and cuts streams after each event
//	start VAR PROGRAM ARG…     start a server; VAR is the URL in the first line that it prints
//	until FILE PATTERN         wait until a file has this
//	agent TASK_TYPE [FAULT]    start an agent; it is added at the end of weir.yaml, $TASK_TYPE points at it
//	provider [-key]            the models that $PROVIDER was asked for, in order, or the credential that came last
//	agent-reached TASK_TYPE    wait until a run has come to it
//	agent-ledger TASK_TYPE     what it was asked, in order, once all of that is over: route, request_id, `answered` or `cut`
func TestStories(t *testing.T) {
	t.Parallel()
	params := storyParams(t, func(string) llm.Config {
		return llm.Config{Key: storyKey, Listed: []string{"sim/plain", "sim/large", "other"}}
	})
	params.Dir = "script"
	testscript.Run(t, params)
}

// storyParams are the commands of stories, and what surrounds each. The models that a story reaches
// are what provider returns for the URL of its upstream.
func storyParams(tb testing.TB, provider func(upstream string) llm.Config) testscript.Params {
	tb.Helper()
	return testscript.Params{
		Setup: func(env *testscript.Env) error {
			up := newStoryUpstream(tb)
			env.Defer(up.Close)
			env.Values["upstream"] = up
			env.Values["test"] = env.T()
			env.Values["agents"] = &storyAgents{tb: tb, byType: map[string]*agent.Agent{}}
			env.Setenv("UPSTREAM", up.URL())
			env.Setenv("UPSTREAM_HOST", up.Addr().String())
			env.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("WEIR_SECRET_STORY", "AGWCANARY-story-secret")
			newStoryProvider(env, provider(up.URL()))
			return expand(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": cmdServe, "crash": cmdCrash, "drain": cmdDrain, "http": cmdHTTP, "sse": cmdSSE, "ledger": cmdLedger,
			"agent": cmdAgent, "agent-reached": cmdAgentReached, "agent-ledger": cmdAgentLedger, "asked": cmdAsked, "clone": cmdClone, "provider": cmdProvider,
			"unreliable": cmdUnreliable, "start": cmdStart, "until": cmdUntil,
		},
	}
}

// expand puts the upstream's address into the script's files.
func expand(env *testscript.Env) error {
	files, err := filepath.Glob(filepath.Join(env.WorkDir, "*"))
	if err != nil {
		return err
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // a directory
		}
		text := strings.NewReplacer(
			"$UPSTREAM_HOST", env.Getenv("UPSTREAM_HOST"), "$UPSTREAM", env.Getenv("UPSTREAM"), "$PROVIDER", env.Getenv("PROVIDER"),
		).Replace(string(data))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// running are the programs that the scripts started, by work directory.
type running struct{ w *weir }

func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("there is no ! serve")
	}
	dir := ts.MkAbs(".")
	cwd := ""
	if len(args) > 0 && args[0] == "-here" {
		cwd, args = dir, args[1:]
	} else if _, err := os.Stat(filepath.Join(dir, "weir.yaml")); err == nil {
		args = append([]string{"--config", filepath.Join(dir, "weir.yaml")}, args...)
	}
	w, err := tryServe(program.How{Dir: cwd, Environ: []string{
		"WEIR_SECRET_STORY=" + ts.Getenv("WEIR_SECRET_STORY"), "WEIR_SECRET_STORY_PROVIDER=" + ts.Getenv("WEIR_SECRET_STORY_PROVIDER"),
	}}, filepath.Join(dir, "data"), args...)
	ts.Check(err)
	ts.Setenv("WEIR_URL", w.URL)
	ts.Setenv("WEIR_PROXY", w.Proxy)
	r := &running{w: w}
	programs.Store(dir, r)
	ts.Defer(func() { r.w.Kill() })
}

func started(ts *testscript.TestScript) *weir {
	v, _ := programs.Load(ts.MkAbs("."))
	r, ok := v.(*running)
	if !ok {
		ts.Fatalf("weir was not started; use serve")
	}
	return r.w
}

func cmdCrash(ts *testscript.TestScript, _ bool, _ []string) { started(ts).Kill() }

func cmdDrain(ts *testscript.TestScript, _ bool, _ []string) {
	w := started(ts)
	ts.Check(w.Terminate(contextOf(ts)))
	fmt.Fprint(ts.Stderr(), w.Said())
}

func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: http METHOD PATH [-d FILE] [-H 'Name: value']… [-until TEXT]")
	}
	body, until := "", ""
	var header []string
	for rest := args[2:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 {
			ts.Fatalf("%s needs a value", rest[0])
		}
		switch rest[0] {
		case "-d":
			body = ts.ReadFile(rest[1])
		case "-H":
			name, value, _ := strings.Cut(rest[1], ":")
			header = append(header, strings.TrimSpace(name), strings.TrimSpace(value))
		case "-token":
			header = append(header, "Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(rest[1])))
		case "-until": // it is asked again until the answer has this, for a minute
			until = rest[1]
		default:
			ts.Fatalf("unknown flag %s", rest[0])
		}
	}
	a, err := started(ts).Try(contextOf(ts), args[0], args[1], body, header...)
	ts.Check(err)
	for end := time.Now().Add(time.Minute); !strings.Contains(a.Body, until) && time.Now().Before(end); {
		ts.Check(poll.Rest(contextOf(ts), 20*time.Millisecond))
		a, err = started(ts).Try(contextOf(ts), args[0], args[1], body, header...)
		ts.Check(err)
	}
	fmt.Fprintf(ts.Stdout(), "HTTP %d\n", a.Status)
	for _, name := range shownHeaders() {
		if v := a.Header.Get(name); v != "" {
			fmt.Fprintf(ts.Stdout(), "%s: %s\n", name, v)
		}
	}
	fmt.Fprintf(ts.Stdout(), "\n%s\n", a.Body)
	if id := a.ID(); id != "" {
		ts.Setenv("ACTION", id)
	}
	ts.Check(os.WriteFile(ts.MkAbs("body"), []byte(a.Body), 0o600))
	if failed := a.Status >= http.StatusBadRequest; failed != neg {
		ts.Fatalf("status %d: %s", a.Status, a.Body)
	}
}

func shownHeaders() []string {
	return []string{"Content-Type", "Location", "Weir-Action-Id", "Idempotency-Replayed", "Retry-After", "Preference-Applied", "Allow"}
}

func cmdSSE(ts *testscript.TestScript, _ bool, args []string) {
	most, after, method, body := 0, "", http.MethodGet, ""
	for rest := args[1:]; len(rest) > 1; rest = rest[2:] {
		switch rest[0] {
		case "-n":
			most, _ = strconv.Atoi(rest[1])
		case "-after":
			after = rest[1]
		case "-d":
			method, body = http.MethodPost, ts.ReadFile(rest[1])
		}
	}
	req, err := http.NewRequestWithContext(contextOf(ts), method, started(ts).URL+args[0], strings.NewReader(body))
	ts.Check(err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		fmt.Fprintf(ts.Stdout(), "HTTP %d\n", resp.StatusCode)
		return
	}
	last, n := "", 0
	for e, err := range sse.Read(bufio.NewReader(resp.Body), nil) {
		ts.Check(err)
		fmt.Fprintf(ts.Stdout(), "%s %s\n", e.LastEventID, e.Type)
		last = e.LastEventID
		if n++; n == most {
			break
		}
	}
	ts.Setenv("LAST", last)
}

func cmdLedger(ts *testscript.TestScript, _ bool, _ []string) {
	lines, counts := of[*storyUpstream](ts, "upstream").lines()
	for _, line := range lines {
		fmt.Fprintln(ts.Stdout(), line)
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(ts.Stdout(), "total %s = %d\n", k, counts[k])
	}
}
