// Package integration_test looks at the built program from outside.
package integration_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	if os.Getenv(observerEnv) != "" {
		os.Exit(runObserver())
	}
	testscript.Main(runs{m}, map[string]func(){"minion": minion})
}

func contextWithTimeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "weir")
	build := exec.Command("go", "build", "-o", binary, "weir/cmd/weir")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building weir:", err)
		return 1
	}
	return m.Run()
}
