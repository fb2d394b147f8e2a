//go:build e2e

package integration_test

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

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
