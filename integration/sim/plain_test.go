//go:build !race

package sim_test

import "time"

// budget is how long runs are made where nothing else is asked for.
const budget = 20 * time.Second
