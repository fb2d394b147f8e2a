//go:build !e2e

package sim_test

// few is how many runs TestSim makes at least, and replays how many TestReplay makes twice: some of
// those of e2e, so that units are quick.
const few, replays = 20, 1
