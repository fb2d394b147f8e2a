//go:build nightly

package bench_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
)

// deciles are the parts that a backlog is queued and worked off in.
const deciles = 10

// part is one decile of a backlog.
type part struct {
	rate     float64
	resident float64 // MiB, at its end
}

// TestBacklog queues actions while the target answers nobody, then lets it answer, and
// measures both by deciles: a queue that grows must not slow its own growing down, nor the
// work. Each action is performed once and settled, however many there are.
func TestBacklog(t *testing.T) { //nolint:paralleltest // it measures
	n := 200
	if *full {
		n = *backlog / deciles * deciles
	}
	for _, durability := range durabilities() {
		up := newGated(t, n)
		dir, config := t.TempDir(), weirConfig(t, up.server.URL)
		p := startWeir(t, "backlog-"+durability, dir, config, durability)
		asked := target{
			name: weir, method: http.MethodPost, url: p.URL + "/v1/execute", status: http.StatusAccepted, process: p,
			header: map[string]string{"Prefer": "respond-async"},
			body:   fmt.Sprintf(`{"method":"POST","url":"%s/x","allowlist_key":"up","body":{"a":1}}`, up.server.URL),
		}
		queued := make([]part, 0, deciles)
		for range deciles {
			s, err := closed(t.Context(), asked, 64, limit{calls: n / deciles})
			require.NoError(t, err)
			queued = append(queued, part{rate: s.rate(), resident: p.resident()})
		}
		begun := time.Now()
		close(up.gate)
		done := make([]part, 0, deciles)
		for range deciles {
			at := <-up.reached
			done = append(done, part{rate: float64(n/deciles) / at.Sub(begun).Seconds(), resident: p.resident()})
			begun = at
		}
		poll.Until(t, func() bool { return settled(t, p) == n }, "each action ends")
		require.EqualValues(t, n, up.hits.Load(), "each action is performed once")
		p.terminate(t)
		if *full {
			showBacklog(durability, n, queued, done)
		}
		again := startWeir(t, "after-"+durability, dir, config, durability)
		asked.url, asked.header, asked.status, asked.process = again.URL+"/v1/execute", nil, http.StatusOK, again
		begun = time.Now()
		_, err := closed(t.Context(), asked, 1, limit{calls: 1})
		require.NoError(t, err)
		if *full {
			fmt.Printf("\nReady again after %d ms; the first call then took %d ms.\n", again.Started.Milliseconds(), time.Since(begun).Milliseconds())
		}
		settledBy(t, []*process{again}, 1) // nothing was left to do
		again.terminate(t)
		require.EqualValues(t, n+1, up.hits.Load())
	}
}

// gated is an upstream that holds what it is sent until its gate is open, or nearly as long
// as an attempt may take.
type gated struct {
	server  *httptest.Server
	gate    chan struct{}
	hits    atomic.Int64
	reached chan time.Time // when each decile of the hits has been answered
}

// holds is a little less than policy.timeout.
const holds = 9 * time.Minute

func newGated(tb testing.TB, n int) *gated {
	tb.Helper()
	g := &gated{gate: make(chan struct{}), reached: make(chan time.Time, deciles)}
	g.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-g.gate:
		case <-r.Context().Done():
		case <-time.After(holds):
		}
		_, _ = w.Write([]byte(`{"ok":true}`))
		if hit := g.hits.Add(1); hit%int64(n/deciles) == 0 && hit <= int64(n) {
			g.reached <- time.Now()
		}
	}))
	tb.Cleanup(g.server.Close)
	return g
}

// settled is how many actions the process says have succeeded.
func settled(t *testing.T, p *process) int {
	t.Helper()
	resp, err := http.Get(p.URL + "/metrics")
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	for scan := bufio.NewScanner(resp.Body); scan.Scan(); {
		if count, ok := strings.CutPrefix(scan.Text(), `weir_actions_settled_total{kind="http",outcome="succeeded"} `); ok {
			n, err := strconv.ParseFloat(count, 64)
			require.NoError(t, err)
			return int(n)
		}
	}
	t.Error("the count of settled actions is not among the metrics")
	return 0
}

func showBacklog(durability string, n int, queued, done []part) {
	fmt.Printf("\n%s, durability `%s`, %d actions; 64 callers queue them\n\n", machine(), durability, n)
	fmt.Println("| decile | queued/s | resident | done/s | resident |")
	fmt.Println("|---|---|---|---|---|")
	for i := range queued {
		fmt.Printf("| %d | %.0f | %.0f MiB | %.0f | %.0f MiB |\n", i+1, queued[i].rate, queued[i].resident, done[i].rate, done[i].resident)
	}
}
