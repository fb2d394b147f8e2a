//go:build e2e

package sim_test

import (
	"slices"
	"testing"
)

// few is how many runs TestSim makes at least, and replays how many TestReplay makes twice.
const few, replays = enough, 20

// TestMutants: a Weir with a mistake in it does not get through as many runs as Weir does.
func TestMutants(t *testing.T) {
	t.Parallel()
	for m, breaks := range mutants() {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= enough; seed++ {
				for _, v := range simulate(t, seed, m).violations {
					if slices.Contains(breaks, v.Invariant) {
						t.Logf("found by seed %d: %s", seed, v)
						return
					}
				}
			}
			t.Errorf("%d runs have not found it", enough)
		})
	}
}
