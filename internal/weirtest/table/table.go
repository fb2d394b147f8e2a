// Package table runs the named cases of a test as parallel subtests.
package table

import (
	"os"
	"testing"
	"testing/synctest"
)

// Rounds is how many of n random cases a test has: a tenth, or each where WEIR_ROUNDS is "all", as
// `make nightly` sets it.
func Rounds(n int) int {
	if os.Getenv("WEIR_ROUNDS") == "all" {
		return n
	}
	return max(n/10, 1)
}

// Run runs each case as a parallel subtest under its name.
func Run[C any](t *testing.T, cases map[string]C, test func(t *testing.T, c C)) {
	t.Helper()
	RunNamed(t, cases, func(t *testing.T, _ string, c C) { test(t, c) }) //nolint:thelper // it is the test
}

// RunNamed is Run for a test that needs the name of its case.
func RunNamed[C any](t *testing.T, cases map[string]C, test func(t *testing.T, name string, c C)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, c)
		})
	}
}

// Bubble is Run with each case in a synctest bubble of its own.
func Bubble[C any](t *testing.T, cases map[string]C, test func(t *testing.T, c C)) {
	t.Helper()
	BubbleNamed(t, cases, func(t *testing.T, _ string, c C) { test(t, c) }) //nolint:thelper // it is the test
}

// BubbleNamed is Bubble for a test that needs the name of its case.
func BubbleNamed[C any](t *testing.T, cases map[string]C, test func(t *testing.T, name string, c C)) {
	t.Helper()
	RunNamed(t, cases, func(t *testing.T, name string, c C) { //nolint:thelper // it is the test
		synctest.Test(t, func(t *testing.T) { test(t, name, c) })
	})
}
