//go:build nightly

package faults_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVersions: a cluster of an older version is changed for this one under load, node by
// node, and back again. What the one has written the other reads, and nobody is left in doubt.
func TestVersions(t *testing.T) { //nolint:paralleltest // it has the machine to itself
	r := row{number: "F37", title: "each node is changed for this version under load, then back for the older one"}
	if *older == "" || !chosen(r.number, r.title) {
		t.Log("form: this version alone, see TestFaults; -faults.older names another")
		return
	}
	old := olderProgram(t)
	r.fault = func(ctx context.Context, s *fixture) {
		s.change(ctx, weirBinary)
		// What queues this version has more it has made, and the older one leaves alone.
		_, more, err := s.log.backlog(ctx)
		s.must(err)
		s.log.consumers += more
		s.certain = true
		s.change(ctx, old)
	}
	// Nodes of every role: a version from before there were roles has no others.
	serve := role{command: "serve", write: true, read: true, work: true}
	rig := newEnv(t, kit{weir: old, roles: []role{serve, serve, serve}})
	t.Run(r.slug(), newFixture(rig, r, chance(t), 0).test)
}

// olderProgram is what -faults.older names: a program, or one that is built from a commit.
func olderProgram(t *testing.T) string {
	t.Helper()
	if info, err := os.Stat(*older); err == nil && info.Mode().IsRegular() {
		path, err := filepath.Abs(*older)
		require.NoError(t, err)
		return path
	}
	dir := t.TempDir()
	run := func(dir, name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), out)
		return strings.TrimSpace(string(out))
	}
	top := run(".", "git", "rev-parse", "--show-toplevel")
	run(top, "git", "archive", "-o", filepath.Join(dir, "older.tar"), *older)
	run(dir, "tar", "-xf", "older.tar")
	run(dir, "go", "build", "-o", "weir-older", "./cmd/weir")
	return filepath.Join(dir, "weir-older")
}
