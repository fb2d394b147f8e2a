//go:build nightly

package bench_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/poll"
)

// site says what a ground is like.
type site struct {
	servers    string // the program of the NATS server
	copies     int    // of the log
	partitions int
}

// ground is three NATS servers that reach each other directly, an ingress on them, and the
// target of their calls.
type ground struct {
	site

	cluster *cluster.Cluster
	dir     string
	target  *paced
	agent   *teller
	ingress *process
	tales   int // runs so far
}

// room is what a server may store: more than any measurement takes.
const room = 64 << 30

func newGround(t *testing.T, at site) *ground {
	t.Helper()
	g := &ground{site: at, dir: t.TempDir(), target: newPaced(t), agent: newTeller(t)}
	var err error
	g.cluster, err = cluster.Start(t.Context(), cluster.Config{Binary: at.servers, Dir: g.dir, Room: room, Direct: true})
	require.NoError(t, err)
	t.Cleanup(g.cluster.Stop)
	g.ingress = g.start(t, "ingress", usualSlots)
	require.NoError(t, g.cluster.Healthy(t.Context()))
	return g
}

// usualSlots are for work that nobody counts.
const usualSlots = 64

// start runs a role of Weir until the test ends.
func (g *ground) start(t *testing.T, role string, slots int) *process {
	t.Helper()
	return start(t, weirRole, role, role, "--listen", "127.0.0.1:0", "--config", g.config(t, slots), "--log-level", "error")
}

func (g *ground) config(t *testing.T, slots int) string {
	t.Helper()
	path := filepath.Join(g.dir, fmt.Sprintf("weir-%d.yaml", slots))
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `nats: {url: %q}
log: {partitions: %d, replicas: %d}
workers: {slots: %d}
deadline: {http: 24h, run: 1h}
agents: {TELL: {url: %q, mode: stream, concurrency: 256}}
policy:
  timeout: 10m
  allowlist:
    - {name: up, url_prefix: %q, methods: [GET, POST], network: loopback}
`, g.cluster.Direct(), g.partitions, g.copies, slots, g.agent.server.URL, g.target.server.URL+"/"), 0o600))
	return path
}

// crew runs so many workers.
func (g *ground) crew(t *testing.T, n, slots int) []*process {
	t.Helper()
	all := make([]*process, n)
	for i := range all {
		all[i] = g.start(t, "worker", slots)
	}
	return all
}

// dismiss ends processes, which finish what they have begun.
func dismiss(t *testing.T, all []*process) {
	t.Helper()
	for _, p := range all {
		p.terminate(t)
	}
}

// settledBy waits until workers say that they have ended so many actions, and no more.
func settledBy(t *testing.T, crew []*process, want int) {
	t.Helper()
	poll.Until(t, func() bool {
		sum := 0
		for _, p := range crew {
			sum += settled(t, p)
		}
		return sum >= want
	}, "each action ends")
	sum := 0
	for _, p := range crew {
		sum += settled(t, p)
	}
	require.Equal(t, want, sum, "each action ends once")
}

// asks is a call of Weir that asks for the next action of a lot, and does not wait for its
// end unless it is told to.
func (g *ground) asks(l *lot, wait bool) target {
	to := target{
		name: weir, method: http.MethodPost, url: g.ingress.URL + "/v1/execute", process: g.ingress,
		status: http.StatusAccepted, header: map[string]string{"Prefer": "respond-async"},
		patient: true,
		next: func() string {
			id, url := l.next()
			return fmt.Sprintf(`{"type":"Http","request_id":%q,"args":{"method":"POST","url":%q,"allowlist_key":"up","body":{"a":1}}}`, id, url)
		},
	}
	if wait {
		to.status, to.header, to.patient = http.StatusOK, nil, false
	}
	return to
}

// queuers are how many queue actions at a time.
const queuers = 64

// put queues actions of a lot.
func (g *ground) put(t *testing.T, l *lot, n int) sample {
	t.Helper()
	s, err := closed(t.Context(), g.asks(l, false), queuers, limit{calls: n})
	require.NoError(t, err)
	if s.later > 0 {
		say("%d requests were told to come later, and did", s.later)
	}
	return s
}

// heaviest is the memory of the server that has most, in MiB.
func (g *ground) heaviest() float64 {
	most := 0.0
	for _, s := range g.cluster.Servers {
		most = max(most, residentOf(s.PID()))
	}
	return most
}

func heaviest(all []*process) float64 {
	most := 0.0
	for _, p := range all {
		most = max(most, p.resident())
	}
	return most
}

// usage is what was used of all the machine's cores: altogether, by the NATS servers and
// by processes of Weir. The rest is the target's, the callers' and others'.
type usage struct{ machine, servers, weir float64 }

func (u usage) String() string {
	return fmt.Sprintf("%.0f %% | %.0f %% | %.0f %%", 100*u.machine, 100*u.servers, 100*u.weir)
}

// meter begins to measure, until what it returns is called.
func (g *ground) meter(nodes ...*process) func() usage {
	sum := func() (servers, weir time.Duration) {
		for _, s := range g.cluster.Servers {
			servers += cpuOf(s.PID())
		}
		for _, p := range append(nodes, g.ingress) {
			weir += p.cpu()
		}
		return servers, weir
	}
	begun := time.Now()
	all, idle := cores()
	servers, weir := sum()
	return func() usage {
		span := time.Since(begun).Seconds() * float64(runtime.NumCPU())
		nowAll, nowIdle := cores()
		nowServers, nowWeir := sum()
		return usage{
			machine: 1 - (nowIdle-idle)/max(nowAll-all, 1),
			servers: (nowServers - servers).Seconds() / span,
			weir:    (nowWeir - weir).Seconds() / span,
		}
	}
}

// cores is the time of all cores since the machine started, and how much of it nobody
// wanted; 0 where the system does not say.
func cores() (all, idle float64) {
	stat, _ := os.ReadFile("/proc/stat") // elsewhere there is none
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := strings.Fields(string(line))
	for i, text := range fields[min(1, len(fields)):] {
		n, _ := strconv.ParseFloat(text, 64)
		switch i {
		case 3, 4: // idle, and waiting for a disk
			idle += n
			all += n
		case 8, 9: // a guest's, which is in the first two as well
		default:
			all += n
		}
	}
	return all, idle
}
