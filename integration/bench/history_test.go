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

// TestHistory measures what ended actions cost a node: the memory that it holds for each, and how
// long it then takes from its making until it is ready, after an orderly end and after a kill.
func TestHistory(t *testing.T) { //nolint:paralleltest // it measures
	actions, times := 32, 1
	if *full {
		actions, times = *history, 5
	}
	upstream := newUpstream(t)
	config := weirConfig(t, upstream.URL)
	var lines []string
	for _, durability := range durabilities() {
		empty, none := make([]time.Duration, 0, times), make([]float64, 0, times)
		for range times {
			p := startWeir(t, "empty", t.TempDir(), config, durability)
			empty, none = append(empty, p.Started), append(none, p.used(t))
			p.terminate(t)
		}
		dir := t.TempDir()
		p := startWeir(t, "history-"+durability, dir, config, durability)
		asked := target{
			name: weir, method: http.MethodPost, url: p.URL + "/v1/execute", status: http.StatusOK, process: p,
			body: fmt.Sprintf(`{"method":"GET","url":"%s/x","allowlist_key":"up"}`, upstream.URL),
		}
		_, err := closed(t.Context(), asked, 64, limit{calls: actions})
		require.NoError(t, err)
		busy := p.resident()
		settledBy(t, []*process{p}, actions) // the history is what was asked for
		p.terminate(t)
		clean, killed := make([]time.Duration, 0, times), make([]time.Duration, 0, times)
		known := make([]float64, 0, times)
		for range times {
			p := startWeir(t, "clean", dir, config, durability)
			clean, known = append(clean, p.Started), append(known, p.used(t))
			p.end(t, syscall.SIGKILL)
			p = startWeir(t, "killed", dir, config, durability)
			killed = append(killed, p.Started)
			require.Zero(t, settled(t, p), "all of it was settled before")
			p.terminate(t)
		}
		slices.Sort(none)
		slices.Sort(known)
		held := known[times/2] - none[times/2]
		lines = append(lines, fmt.Sprintf("| `%s` | %.0f MiB | %.0f MiB | %.0f B | %s | %s | %s |", durability, busy,
			held, held*(1<<20)/float64(actions), middle(empty), middle(clean), middle(killed)))
	}
	if *full {
		fmt.Printf("\n%s, %d ended actions, median of %d starts\n\n", machine(), actions, times)
		fmt.Printf("| durability | resident behind the last call | held for history after a start | for each action | start, empty | start | start after a kill |\n|---|---|---|---|---|---|---|\n%s\n", strings.Join(lines, "\n"))
	}
}

func middle(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("%d ms", all[len(all)/2].Milliseconds())
}
