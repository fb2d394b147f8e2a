//go:build nightly

package bench_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// perAction is how many records one action leaves.
const perAction = 6

// TestStart measures how long a node takes from its making until it is ready: on an empty
// directory, with a history, and with the same history after it was killed.
func TestStart(t *testing.T) { //nolint:paralleltest // it measures
	actions, times := 30, 1
	if *full {
		actions, times = *history/perAction, 7
	}
	upstream := newUpstream(t)
	config := weirConfig(t, upstream.URL)
	var lines []string
	for _, durability := range durabilities() {
		empty := make([]time.Duration, 0, times)
		for range times {
			p := startWeir(t, "empty", t.TempDir(), config, durability)
			empty = append(empty, p.Started)
			p.terminate(t)
		}
		dir := t.TempDir()
		p := startWeir(t, "filling", dir, config, durability)
		_, err := closed(t.Context(), target{
			name: weir, method: http.MethodPost, url: p.URL + "/v1/execute", status: http.StatusOK, process: p,
			body: fmt.Sprintf(`{"method":"GET","url":"%s/x","allowlist_key":"up"}`, upstream.URL),
		}, 64, limit{calls: actions})
		require.NoError(t, err)
		settledBy(t, []*process{p}, actions) // the history is what was asked for
		p.terminate(t)
		clean, killed := make([]time.Duration, 0, times), make([]time.Duration, 0, times)
		for range times {
			p := startWeir(t, "clean", dir, config, durability)
			clean = append(clean, p.Started)
			p.end(t, syscall.SIGKILL)
			p = startWeir(t, "killed", dir, config, durability)
			killed = append(killed, p.Started)
			require.Zero(t, settled(t, p), "all of it was settled before")
			p.terminate(t)
		}
		lines = append(lines, fmt.Sprintf("| `%s` | %s | %s | %s |", durability, middle(empty), middle(clean), middle(killed)))
	}
	if *full {
		fmt.Printf("\n%s, median of %d starts\n\n", machine(), times)
		fmt.Printf("| durability | empty | %d records | the same, after a kill |\n|---|---|---|---|\n%s\n", actions*perAction, strings.Join(lines, "\n"))
	}
}

func middle(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("%d ms", all[len(all)/2].Milliseconds())
}
