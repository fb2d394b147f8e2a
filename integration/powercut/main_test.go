//go:build nightly

// Package powercut_test takes the power from a running Weir, or what comes nearest to that,
// and looks whether everything that it told anybody is still there.
//
// Only this suite shows that what was acknowledged with durability disk survives a power cut.
package powercut_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"weir/internal/weirtest/program"
)

var (
	binary       = program.Path(program.Weir)
	seed         = flag.Uint64("powercut.seed", 0, "the seed of the cuts; 0: another one each time")
	cuts         = flag.Int("powercut.cuts", 4, "how often the power goes, per durability")
	keepDir      = flag.String("powercut.keep", "", "where to copy a data directory on which the program does not start; empty: nowhere")
	durabilities = flag.String("powercut.durability", "disk process", "which ones")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	os.Exit(m.Run())
}
