//go:build e2e

package corpus_test

import (
	"net/http"
	"regexp"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestInbound sends every row that does not wait to a whole Weir over TCP. It is not
// parallel to others: after each row, what the process holds is compared with what it
// held before.
func TestInbound(t *testing.T) { //nolint:paralleltest // as said
	g := newGateway(t, t.TempDir(), "log: {durability: process}\n")
	rows := readInbound(t)
	// What rows share is made before anything is measured.
	g.act(t, "task_token", "/v1/x?row=warm")
	g.repositories(t)
	base := measure()
	for _, r := range rows { //nolint:paralleltest // as said
		switch {
		case !r.mayRun():
			t.Run(r.ID, func(t *testing.T) {
				g.unservedYet(t, &r)
				mayRun(t, r.ID, r.lacks())
			})
		case !r.slow():
			for _, v := range r.routes() {
				r := r.on(v)
				t.Run(r.name(), func(t *testing.T) { r.run(t, g) })
				t.Run("after/"+r.name(), func(t *testing.T) { g.healthy(t, base) })
			}
		}
	}
}

// mayRun reports whether the row is sent: it is not passed over, and lacks nothing.
func (r *inboundRow) mayRun() bool { return !isPassedOver(r.ID) && r.lacks() == "" }

// run sends one row and holds the answer against it.
func (r *inboundRow) run(t *testing.T, g *gateway) {
	t.Helper()
	if setup := inboundSetups[r.Setup]; setup != nil && !r.ready {
		g = setup(t, r, g)
	}
	switch r.Surface {
	case rulesSurface:
		r.rule(t, g)
		return
	case gitSurface:
		r.git(t, g)
		return
	case taskSurface:
		r.task(t, g)
		return
	case chatSurface:
		r.chat(t, g)
		return
	}
	began := grown()
	var h heard
	script := rawScripts[r.Raw]
	switch {
	case script != nil:
		h = script(t, r, g)
	case r.Pace != nil:
		h = r.paced(t, g)
	case r.Surface == "sse" && r.Class == "2xx" && !strings.Contains(string(r.Headers["Last-Event-ID"]), "{"):
		h = r.follow(t, g)
	case r.Repeat > 2:
		h = r.flood(t, g)
	default:
		raw := r.bytes(t, g)
		began = grown()
		h = g.send(t, raw)
		if r.Repeat == 2 {
			again := g.send(t, raw)
			require.Equal(t, h.header.Get("Weir-Action-Id"), again.header.Get("Weir-Action-Id"))
			require.Equal(t, h.body, again.body)
		}
	}
	r.judge(t, g, h, began)
}

// judge holds an answer against its row.
func (r *inboundRow) judge(t *testing.T, g *gateway, h heard, began uint64) {
	t.Helper()
	class := r.Class
	if corrected[r.name()] != "" {
		class = "2xx"
	}
	if strings.Contains(r.Assert, traceDropped) || strings.Contains(r.Assert, errPacketToo) {
		class += "|2xx"
	}
	require.True(t, h.matches(class), "%s: status %d, closed %t, wanted %s: %s", r.Why, h.status, h.closed, class, cut(h.body))
	if h.status >= http.StatusBadRequest {
		code := h.code(t)
		if (r.via == viaSync || r.via == viaStream) && h.status != http.StatusNotFound {
			require.Contains(t, h.body, `"outputs":{}`, "a refusal of a run, in its own words")
		}
		if r.Code != "" {
			assert.Equal(t, r.Code, code, "%s: %s", r.Why, cut(h.body))
		}
	}
	assert.NotContains(t, h.body, "evil.test")
	assert.NotContains(t, h.body, "AGWCANARY")
	for name, values := range h.header {
		assert.NotContains(t, strings.Join(values, " "), "evil.test", name)
		assert.NotContains(t, strings.Join(values, " "), "AGWCANARY", name)
	}
	r.assertions(t, g, h, began)
}

var (
	limitOf = regexp.MustCompile(`max_rss_mb=(\d+)`)
	wallOf  = regexp.MustCompile(`max_wall_s=(\d+)`)
)

// assertions are what a row says beside its answer.
func (r *inboundRow) assertions(t *testing.T, g *gateway, h heard, began uint64) {
	t.Helper()
	has := func(s string) bool { return strings.Contains(r.Assert, s) }
	if m := limitOf.FindStringSubmatch(r.Assert); m != nil {
		limit, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		assert.Less(t, grown()-began, uint64(limit)<<20, "bytes taken from the heap, kept or not")
	}
	if m := wallOf.FindStringSubmatch(r.Assert); m != nil {
		limit, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		assert.Less(t, h.took, time.Duration(limit)*time.Second, "the exchange took too long")
	}
	if has("X-Content-Type-Options") {
		assert.Equal(t, "application/json", h.header.Get("Content-Type"))
		assert.Equal(t, "nosniff", h.header.Get("X-Content-Type-Options"))
	}
	if has("connection closed") {
		assert.True(t, h.closed)
	}
	if has("audit peer") {
		assert.NotContains(t, g.log.String(), "6.6.6.6")
	}
	if has("one upstream hit") {
		assert.Equal(t, 1, g.upstream.count(r.name()))
	}
	if has("equal ids") && r.Repeat == 0 {
		assert.Equal(t, g.get("id of "+r.ID), h.header.Get("Weir-Action-Id"))
	}
	if has("no duplicate terminal") {
		assert.Empty(t, h.body)
	}
	if has("canary absent") {
		assert.NotContains(t, g.ask(t, "admin_token", http.MethodGet, "/metrics", nil).body, "AGWCANARY")
	}
	if has(contractShaped) {
		for _, part := range []string{`"request_id":"r1"`, `"ok":false`, `"outputs":{}`, `"warnings":[]`} {
			assert.Contains(t, h.body, part)
		}
	}
	if has(traceDropped) && h.status < http.StatusBadRequest {
		stored := g.ask(t, "task_token of "+r.ID, http.MethodGet, "/v1/actions/"+h.header.Get("Weir-Action-Id"), nil)
		require.Equal(t, http.StatusOK, stored.status)
		for name := range r.Headers {
			if strings.HasPrefix(strings.ToLower(name), "trace") {
				value := r.text(t, r.Headers[name])
				for _, text := range []string{h.body, stored.body, g.log.String()} {
					assert.NotContains(t, text, value, name)
				}
			}
		}
	}
	r.ruleAssertions(t, g, h)
	r.taskAssertions(t, g, h)
	if r.Code == "RATE_LIMITED" {
		assert.NotEmpty(t, h.header.Get("Retry-After"))
	}
	if r.Surface == "auth" && h.status == http.StatusUnauthorized {
		assert.NotEmpty(t, h.header.Get("WWW-Authenticate"))
	}
}

// held is what the process has.
type held struct {
	goroutines int
	heap       uint64
}

func measure() held {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return held{runtime.NumGoroutine(), m.HeapAlloc}
}

// grown is all that was ever taken from the heap.
func grown() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample) // does not stop the world
	return sample[0].Value.Uint64()
}

// What may be there that was not before: connections that net/http gives half a
// second to end, and what the log keeps in memory.
const (
	moreGoroutines = 20
	moreHeap       = 64 << 20
)

// healthy holds after every row: others are served, and what was taken is given back.
func (g *gateway) healthy(t *testing.T, base held) {
	t.Helper()
	g.serves(t)
	back := func() bool {
		if runtime.NumGoroutine() > base.goroutines+moreGoroutines {
			return false
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc <= base.heap+moreHeap || measure().heap <= base.heap+moreHeap
	}
	if !back() {
		require.Eventually(t, back, 20*time.Second, 20*time.Millisecond, "goroutines or heap stay, at first %+v", base)
	}
}

// serves: a well-formed request is answered, and the log says nothing that it must not.
func (g *gateway) serves(t *testing.T) {
	t.Helper()
	h := g.ask(t, "task_token", http.MethodGet, "/v1/actions?limit=1", nil)
	require.Equal(t, http.StatusOK, h.status, h.body)
	require.Equal(t, "ok", g.ask(t, "task_token", http.MethodGet, "/healthz", nil).body)
	log := g.log.String()
	for _, secret := range append(g.secrets(), "AGWCANARY", "evil.test", "goroutine ", "PUB x") {
		require.NotContains(t, log, secret)
	}
}

// unservedYet: a row that waits for its surface stops waiting when there is one.
func (g *gateway) unservedYet(t *testing.T, r *inboundRow) {
	t.Helper()
	if !r.unserved() || r.Method == methodRaw {
		return
	}
	path := placeholder.ReplaceAllString(r.Path, "x")
	h := g.send(t, r.Method+" "+path+" HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer "+g.get("admin_token")+"\r\nContent-Length: 0\r\n\r\n")
	require.Equal(t, http.StatusNotFound, h.status, "%s is served now; remove its rows from passedOver", r.Path)
	require.Equal(t, "NOT_FOUND", h.code(t))
}
