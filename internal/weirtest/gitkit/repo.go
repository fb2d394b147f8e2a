package gitkit

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Env is the environment of the real git in tests: none of the machine's
// configuration, a fixed person and time, and what is added.
func Env(extra ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=A Tester", "GIT_AUTHOR_EMAIL=tester@example.com", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_NAME=A Tester", "GIT_COMMITTER_EMAIL=tester@example.com", "GIT_COMMITTER_DATE=1700000000 +0000",
	}, extra...)
}

// Result is what a run of git came to.
type Result struct {
	Out, Err string
	Code     int // of its exit; -1: it did not begin, or was killed
}

// Run runs git in a directory, with input.
func Run(ctx context.Context, dir string, env []string, in []byte, args ...string) Result {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, env, bytes.NewReader(in)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	r := Result{Out: out.String(), Err: errs.String(), Code: cmd.ProcessState.ExitCode()}
	if err != nil && r.Code < 0 {
		r.Err += err.Error()
	}
	return r
}

// Git runs git in a directory, which must succeed, and returns what it says without the last
// line feed.
func Git(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	return GitIn(tb, dir, nil, args...)
}

// GitIn is Git with input.
func GitIn(tb testing.TB, dir string, in []byte, args ...string) string {
	tb.Helper()
	r := Run(tb.Context(), dir, Env(), in, args...)
	if r.Code != 0 {
		tb.Fatalf("git %s: exit %d\n%s%s", strings.Join(args, " "), r.Code, r.Out, r.Err)
	}
	return strings.TrimSuffix(r.Out, "\n")
}

// NewRepo makes a repository with a working tree, one commit on main that has the file README,
// and returns its directory and the commit.
func NewRepo(tb testing.TB) (dir, head string) {
	tb.Helper()
	dir = tb.TempDir()
	Git(tb, dir, "init", "-q", "-b", "main")
	return dir, Write(tb, dir, "README", "hello\n")
}

// Write commits a file of a repository, and returns the commit.
func Write(tb testing.TB, dir, name, text string) string {
	tb.Helper()
	if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	Git(tb, dir, "add", "--", name)
	Git(tb, dir, "commit", "-q", "-m", "write "+name)
	return Git(tb, dir, "rev-parse", "HEAD")
}

// PackOf is what git packs of what a commit reaches and others do not; thin: with deltas of objects
// that are not in the pack.
func PackOf(tb testing.TB, dir string, thin bool, commit string, not ...string) []byte {
	tb.Helper()
	list := append([]string{commit}, not...)
	for i := range not {
		list[i+1] = "^" + not[i]
	}
	args := []string{"pack-objects", "-q", "--stdout", "--revs", "--delta-base-offset"}
	if thin {
		args = append(args, "--thin")
	}
	r := Run(tb.Context(), dir, Env(), []byte(strings.Join(list, "\n")+"\n"), args...)
	if r.Code != 0 {
		tb.Fatalf("git pack-objects: exit %d\n%s", r.Code, r.Err)
	}
	return []byte(r.Out)
}
