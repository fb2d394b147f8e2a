//go:build e2e

package canary_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// scratch is where the directories of the tests lie, apart from where the
// program would leave temporary files.
var scratch string

func TestMain(m *testing.M) {
	if hold() {
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	base, err := os.MkdirTemp("", "weir-canary-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(base)
	scratch = filepath.Join(base, "scratch")
	temporary := filepath.Join(base, "tmp")
	for _, dir := range []string{scratch, temporary} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	// Every temporary file of the program lands where it is looked for.
	if err := os.Setenv("TMPDIR", temporary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// directory is one of a test's own.
func directory(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(scratch, "dir-") //nolint:usetesting // that would lie among the temporary files that are searched
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}
