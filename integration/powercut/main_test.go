// Package powercut_test takes the power from a running Weir, or what comes nearest to that,
// and looks whether everything that it told anybody is still there.
package powercut_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"weir/internal/weirtest/program"
)

// binaryEnv names the program for a test that runs in a process of its own.
const binaryEnv = "WEIR_TEST_BINARY"

var (
	binary       string
	seed         = flag.Uint64("powercut.seed", 0, "the seed of the cuts; 0: another one each time")
	cuts         = flag.Int("powercut.cuts", 4, "how often the power goes, per durability")
	keepDir      = flag.String("powercut.keep", "", "where to copy a data directory on which the program does not start; empty: nowhere")
	durabilities = flag.String("powercut.durability", "disk process", "which ones")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	if binary = os.Getenv(binaryEnv); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "weir-powercut-")
	if err == nil {
		defer os.RemoveAll(dir)
		binary, err = program.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv(binaryEnv, binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
