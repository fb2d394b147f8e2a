//go:build e2e

// Package console_test looks at the console as people do: in a browser.
//
// Only this suite shows that the pages work: signing in, live views over restarts, two people
// at one rule or question, a phone and a keyboard.
package console_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"weir/internal/weirtest/program"
)

// binary is the program under test, and shared the browser of all tests.
var (
	binary = program.Path(program.Weir)
	shared *browser
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if shared, err = startBrowser(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, errMissing) && os.Getenv("CI") == "" {
			fmt.Println("SKIPPED: weir/integration/console")
			return 0
		}
		return 1
	}
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "the browser:", err)
		return 1
	}
	return code
}
