//go:build e2e

package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tmaxmax/go-sse"
)

// cmdAsked waits until the agent of a task asks something.
func cmdAsked(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: asked TASK")
	}
	ctx, cancel := context.WithCancel(contextOf(ts))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, started(ts).URL+"/v1/tasks/"+args[0]+"/events", nil)
	ts.Check(err)
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	for ev, err := range sse.Read(resp.Body, nil) {
		ts.Check(err)
		if strings.Contains(ev.Data, `"what":"asked"`) {
			return
		}
	}
	ts.Fatalf("the task ended, and nothing was asked")
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
