//go:build nightly

package bench_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// smallBody is what a call sends that is no GET, if -payload does not ask for more.
const smallBody = `{"a":1}`

// TestCompare measures what Weir adds to a call, and how much of the floor's throughput it
// has. What is added is to the direct call's median.
func TestCompare(t *testing.T) { //nolint:paralleltest // it measures
	upstream := newUpstream(t).url
	url, body, ask := upstream+"/x", "", callOf(*method, upstream+"/x", "")
	if *method != http.MethodGet {
		body = smallBody
		if more := *payload - len(smallBody); more > 0 {
			body = fmt.Sprintf(`{"a":1,"b":%q}`, strings.Repeat("b", max(more-len(`,"b":""`), 0)))
		}
		ask = callOf(*method, url, body)
	}
	for _, durability := range durabilities() {
		floor := start(t, floorCommand, t.TempDir(), durability, *method)
		node := startWeir(t, t.TempDir(), weirConfig(t, upstream, ""), durability)
		targets := []target{
			{name: "direct", method: *method, url: url, body: same(body), status: http.StatusOK},
			execute(floor, same(ask)), execute(node, same(ask)),
			{name: "Weir, passthrough", process: node, method: *method, url: node.URL + "/via/up/x", body: same(body), status: http.StatusOK},
		}
		targets[1].name = "floor"
		rows := newTable(fmt.Sprintf("durability `%s`, %s, %s a load, median of %d", durability, *method, *span, *rounds),
			"load", "", "calls/s", "of the floor", "p50", "p99", "p50 added", "CPU a call")
		for _, l := range loads(t) {
			samples := make([][]sample, len(targets))
			for range sized(*rounds, 1) {
				for i, target := range targets {
					if *full {
						target.put(t, load{callers: max(l.callers, 16)}, limit{span: *span / 8}) // is not counted
					}
					s := target.put(t, l, usual())
					require.True(t, *full || len(s.took) == tiny, "each call is counted, once")
					samples[i] = append(samples[i], s)
				}
			}
			p50 := func(s sample) time.Duration { return s.percentile(50) }
			for i, of := range samples {
				rate := median(of, sample.rate)
				rows.row(l, targets[i].name, rate, share(rate/median(samples[1], sample.rate)), median(of, p50),
					median(of, func(s sample) time.Duration { return s.percentile(99) }), median(of, p50)-median(samples[0], p50), median(of, sample.work))
			}
		}
		terminate(t, floor, node)
	}
}

// loads are the rows of the comparison.
func loads(tb testing.TB) (all []load) {
	tb.Helper()
	if !*full {
		return []load{{callers: 2}, {rate: 100}}
	}
	for _, n := range numbers(tb, *callers) {
		all = append(all, load{callers: n})
	}
	for _, n := range []int{100, 300, 1000} { // calls a second, whatever becomes of those before
		all = append(all, load{rate: n})
	}
	return all
}

// TestHistory measures what ended actions cost a node: the memory that it holds for each, and how
// long it then takes from its making until it is ready, after an orderly end and after a kill.
func TestHistory(t *testing.T) { //nolint:paralleltest // it measures
	actions, times := sized(million, 32), sized(5, 1)
	upstream := newUpstream(t).url
	config := weirConfig(t, upstream, "")
	type ran struct {
		started time.Duration
		used    mib
	}
	run := func(dir, durability string) (*process, ran) {
		p := startWeir(t, dir, config, durability)
		return p, ran{p.started, p.used(t)}
	}
	started := func(r ran) time.Duration { return r.started }
	used := func(r ran) mib { return r.used }
	rows := newTable(fmt.Sprintf("%d ended actions, median of %d starts", actions, times), "durability", "resident behind the last call",
		"held for history after a start", "for each action", "start, empty", "start", "start after a kill")
	for _, durability := range durabilities() {
		var empty, clean, killed []ran
		for range times {
			p, r := run(t.TempDir(), durability)
			empty = append(empty, r)
			terminate(t, p)
		}
		dir := t.TempDir()
		p := startWeir(t, dir, config, durability)
		execute(p, same(callOf(http.MethodGet, upstream+"/x", ""))).put(t, load{callers: 64}, limit{calls: actions})
		busy := heaviest(p)
		settledBy(t, actions, p) // the history is what was asked for
		terminate(t, p)
		for range times {
			p, r := run(dir, durability)
			clean = append(clean, r)
			p.Kill()
			p, r = run(dir, durability)
			killed = append(killed, r)
			require.Zero(t, settled(t, p), "all of it was settled before")
			terminate(t, p)
		}
		held := median(clean, used) - median(empty, used)
		rows.row(durability, busy, held, fmt.Sprintf("%.0f B", held*(1<<20)/mib(actions)), median(empty, started), median(clean, started), median(killed, started))
	}
}

// TestBacklog queues actions while their target answers nobody, then lets it answer. Each action
// is performed once and settled, however many there are.
func TestBacklog(t *testing.T) { //nolint:paralleltest // it measures
	n := sized(million, 200)
	for _, durability := range durabilities() {
		up := newUpstream(t)
		l := up.lot(n+1, 0)
		dir, config := t.TempDir(), weirConfig(t, up.url, "")
		p := startWeir(t, dir, config, durability)
		rows := queueTable(fmt.Sprintf("durability `%s`, %d actions", durability, n))
		l.queue(t, rows, execute(p, l.next), p)
		l.workOff(t, rows, n, p)
		settledBy(t, n, p)
		l.once(t, n)
		terminate(t, p)
		again := startWeir(t, dir, config, durability)
		s := execute(again, l.next).put(t, load{callers: 1}, limit{calls: 1})
		rows.row("ready again, the first call", again.started, s.took[0])
		settledBy(t, 1, again) // nothing was left to do
		terminate(t, again)
		l.once(t, n+1)
	}
}

// distance is the round trip to a target that is far away.
const distance = 20 * time.Millisecond

// TestDistance measures calls to an HTTPS target that is a round trip away, one after the other: the
// first, which opens a connection, and those behind it. The handshake of TCP is not delayed, so
// that a new connection costs one round trip more than is shown.
func TestDistance(t *testing.T) {
	up := httptest.NewTLSServer(http.HandlerFunc(succeed))
	defer up.Close()
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw}), 0o600))
	t.Setenv("SSL_CERT_FILE", trusted)
	link, err := cluster.NewLink(t.Context(), up.Listener.Addr().String())
	require.NoError(t, err)
	defer link.Close()
	link.Set(cluster.Weather{Delay: distance / 2})
	url := "https://" + link.Addr()
	calls := sized(101, 5)
	rows := newTable(fmt.Sprintf("a target behind HTTPS and %s, %d calls one after the other", distance, calls),
		"durability", "call", "class", "first", "p50 of the others", "p99")
	for _, durability := range durabilities() {
		p := startWeir(t, t.TempDir(), weirConfig(t, url, ""), durability)
		for _, c := range []struct{ method, class, body string }{{"GET", "safe", ""}, {"POST", "once", smallBody}} {
			s := execute(p, same(callOf(c.method, url+"/x", c.body))).put(t, load{callers: 1}, limit{calls: calls})
			rows.row(durability, c.method, c.class, s.percentile(100), s.percentile(50), s.percentile(99)) // the first is the longest
		}
		terminate(t, p)
	}
}

// TestTenants: one tenant queues actions whose calls hang, and another then makes calls of its
// own. Each of these must return while all of the first tenant's calls still hang.
func TestTenants(t *testing.T) { //nolint:paralleltest // it measures
	rows := newTable("durability `process`, 256 slots", "queued by another tenant, all hang", "first call", "20 in a row, p50", "longest", "20 at once, longest")
	for _, n := range sized([]int{1250, 100_000}, []int{300}) {
		up := newUpstream(t)
		l := up.lot(n, 0)
		admin := filepath.Join(t.TempDir(), "admin.token")
		p := startWeir(t, t.TempDir(), weirConfig(t, up.url, fmt.Sprintf("auth: {mode: tokens, rate: 100000/s, admin_token_file: %q}\n", admin)), "process")
		as := func(tenant string, at target) target {
			at.header.Set("Authorization", "Bearer "+newToken(t, p, admin, tenant))
			return at
		}
		as("heavy", execute(p, l.next)).async().put(t, load{callers: 64}, limit{calls: n})
		poll.Until(t, func() bool { return l.waiting.Load() > 0 }, "calls hang")
		light := as("light", execute(p, same(callOf(http.MethodGet, up.url+"/quick", ""))))
		first := light.put(t, load{callers: 1}, limit{calls: 1})
		row := light.put(t, load{callers: 1}, limit{calls: 20})
		once := light.put(t, load{callers: 20}, limit{calls: 20})
		rows.row(n, first.took[0], row.percentile(50), row.percentile(100), once.percentile(100))
		l.open()
		terminate(t, p)
	}
}

// newToken makes a token of a tenant of the same name.
func newToken(t *testing.T, p *process, adminFile, tenant string) string {
	t.Helper()
	admin, err := os.ReadFile(adminFile)
	require.NoError(t, err)
	return program.Client{Base: p.URL, Token: strings.TrimSpace(string(admin))}.MakeToken(t, schemas.TokenRequest{
		Name: tenant, Tenant: tenant, Scopes: []string{schemas.ScopeActionsWrite, schemas.ScopeActionsRead}, Rate: "100000/s",
	}).Secret
}
