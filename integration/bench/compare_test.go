//go:build nightly

package bench_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The programs in the order in which they are measured and shown.
const (
	direct     = "direct"
	leastFloor = "least floor"
	sameFloor  = "floor"
	weir       = "Weir"
)

// load is one row's load.
type load struct {
	callers int // of a closed loop
	rate    int // of an open one
}

func (l load) String() string {
	if l.rate > 0 {
		return fmt.Sprintf("%d/s", l.rate)
	}
	return fmt.Sprintf("%d callers", l.callers)
}

// put puts the load on a target; first for a short time that is not counted.
func (l load) put(ctx context.Context, t target) (sample, error) {
	how := limit{calls: 4}
	if *full {
		how = limit{span: *span}
		if _, err := closed(ctx, t, cmp.Or(l.callers, 16), limit{span: *span / 8}); err != nil {
			return sample{}, err
		}
	}
	if l.rate > 0 {
		return open(ctx, t, l.rate, how)
	}
	return closed(ctx, t, l.callers, how)
}

// loads are the rows of the table.
func loads(tb testing.TB) (all []load) {
	tb.Helper()
	if !*full {
		return []load{{callers: 2}, {rate: 100}}
	}
	for _, n := range numbers(tb, *callers) {
		all = append(all, load{callers: n})
	}
	for _, n := range numbers(tb, *rates) {
		all = append(all, load{rate: n})
	}
	return all
}

// TestCompare measures what Weir adds to a call, and how much of the floor's throughput it
// has. With -full it prints a table for each durability.
func TestCompare(t *testing.T) { //nolint:paralleltest // it measures
	upstream := newUpstream(t)
	for _, durability := range durabilities() {
		targets := programs(t, upstream.URL, durability)
		var rows []row
		for _, l := range loads(t) {
			samples := make([][]sample, len(targets))
			for range turns() {
				for i, target := range targets {
					s, err := l.put(t.Context(), target)
					require.NoError(t, err)
					if !*full {
						require.Equal(t, 4, s.done, "each call is counted, once")
					}
					samples[i] = append(samples[i], s)
				}
			}
			for i, target := range targets {
				rows = append(rows, newRow(l, target.name, samples[i]))
			}
		}
		if *full {
			show(durability, rows)
		}
	}
}

func turns() int {
	if *full {
		return *rounds
	}
	return 1
}

// programs starts the floor, the least floor and Weir, each on an empty directory.
func programs(t *testing.T, upstream, durability string) []target {
	t.Helper()
	url := upstream + "/x"
	body := ""
	ask := fmt.Sprintf(`{"method":%q,"url":%q,"allowlist_key":"up"}`, *method, url)
	if *method != http.MethodGet {
		body = smallBody
		if more := *payload - len(body); more > 0 {
			body = `{"a":1,"b":"` + strings.Repeat("b", max(more-len(`,"b":""`), 0)) + `"}`
		}
		ask = fmt.Sprintf(`{"method":%q,"url":%q,"allowlist_key":"up","body":%s}`, *method, url, body)
	}
	least := start(t, floorRole, "least-"+durability, t.TempDir(), durability, "least", *method)
	floor := start(t, floorRole, "floor-"+durability, t.TempDir(), durability, "all", *method)
	node := startWeir(t, "weir-"+durability, t.TempDir(), weirConfig(t, upstream), durability)
	post := func(name string, p *process) target {
		return target{name: name, method: http.MethodPost, url: p.URL + "/v1/execute", body: ask, status: http.StatusOK, process: p}
	}
	t.Cleanup(func() {
		for _, p := range []*process{least, floor, node} {
			p.terminate(t)
		}
	})
	return []target{
		{name: direct, method: *method, url: url, body: body, status: http.StatusOK},
		post(leastFloor, least), post(sameFloor, floor), post(weir, node),
	}
}

// smallBody is what a call sends that is no GET, if -payload does not ask for more.
const smallBody = `{"a":1}`

// newUpstream answers at once.
func newUpstream(tb testing.TB) *httptest.Server {
	tb.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	tb.Cleanup(s.Close)
	return s
}

// weirConfig writes a configuration that lets calls to the upstream pass.
func weirConfig(tb testing.TB, upstream string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "weir.yaml")
	require.NoError(tb, os.WriteFile(path, []byte(`deadline: {http: 24h}
policy:
  timeout: 10m
  allowlist:
    - {name: up, url_prefix: "`+upstream+`/", methods: [GET, POST], network: loopback}
`), 0o600))
	return path
}

func startWeir(tb testing.TB, name, dir, config, durability string) *process {
	tb.Helper()
	return start(tb, weirRole, name, "serve", "--listen", "127.0.0.1:0", "--data", dir, "--config", config,
		"--durability", durability, "--log-level", "error")
}

// row is the median of a program's samples under a load.
type row struct {
	load
	program       string
	rate          float64
	p50, p99, cpu time.Duration
}

func newRow(l load, program string, samples []sample) row {
	return row{
		load: l, program: program, rate: median(samples, sample.rate),
		p50: median(samples, func(s sample) time.Duration { return s.percentile(50) }),
		p99: median(samples, func(s sample) time.Duration { return s.percentile(99) }),
		cpu: median(samples, sample.work),
	}
}

func median[S any, T cmp.Ordered](samples []S, of func(S) T) T {
	all := make([]T, len(samples))
	for i, s := range samples {
		all[i] = of(s)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// show prints the rows as a table. What is added is to the direct call's median, what is
// had of the floor is throughput, and in an open loop says only whether the rate was kept.
func show(durability string, rows []row) {
	fmt.Printf("\n%s, durability `%s`, %s, %s a load, median of %d\n\n", machine(), durability, *method, *span, *rounds)
	fmt.Println("| load | | calls/s | of the floor | p50 | p99 | p50 added | CPU a call |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, r := range rows {
		bare, floor := find(rows, r.load, direct), find(rows, r.load, sameFloor)
		share, added, cpu := "", "", ""
		if r.program != direct {
			share, added, cpu = fmt.Sprintf("%.0f %%", 100*r.rate/floor.rate), ms(r.p50-bare.p50), ms(r.cpu)
		}
		fmt.Printf("| %s | %s | %.0f | %s | %s | %s | %s | %s |\n", r.load, r.program, r.rate, share, ms(r.p50), ms(r.p99), added, cpu)
	}
	fmt.Println()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

func find(rows []row, l load, program string) row {
	i := slices.IndexFunc(rows, func(r row) bool { return r.load == l && r.program == program })
	return rows[i]
}
