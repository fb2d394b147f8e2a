// Package console_test looks at the console as people do: in a browser.
package console_test

import (
	"fmt"
	"os"
	"testing"

	"weir/internal/weirtest/program"
)

// binary is the program under test, and shared the browser of all tests.
var (
	binary string
	shared *browser
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-console-")
	if err == nil {
		defer os.RemoveAll(dir)
		binary, err = program.Build(dir)
	}
	if err == nil {
		shared, err = startBrowser()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "the browser:", err)
		return 1
	}
	return code
}
