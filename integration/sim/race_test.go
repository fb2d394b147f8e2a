//go:build race

package sim_test

// budget is none where each run takes much longer: there are as many as take every branch.
const budget = 0
