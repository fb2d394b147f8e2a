//go:build e2e

package corpus_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestInbound sends every row that does not wait to one Weir over TCP. It alone shows each
// malformed request against the whole program: it is refused in the form of its surface, changes
// nothing, leaves nothing in the log, and others are served. It is not parallel to others: rows
// bound memory, and after each surface the process must have no more goroutines and heap than
// before.
func TestInbound(t *testing.T) { //nolint:paralleltest // as said
	g := newGateway(t, "")
	g.repositories(t)
	g.act(t, g.caller, "/v1/x?row=first")
	base := measure()
	rows := readRows[inboundRow](t, "inbound")
	for _, surface := range surfaces { //nolint:paralleltest // as said
		for _, r := range rows {
			if r.Surface == surface && !r.slow() {
				run(t, &r, g, false)
			}
		}
		t.Run("after/"+surface, func(t *testing.T) {
			back := func() bool {
				now := measure()
				return now.goroutines <= base.goroutines+moreGoroutines && now.heap <= base.heap+moreHeap
			}
			poll.Until(t, back, "goroutines or heap stay")
		})
	}
}

// TestInboundSlow sends the rows that wait, side by side, and beside other tests: clients that
// stop in the middle of a request or read a byte a second, idle streams, and a NATS that is gone.
func TestInboundSlow(t *testing.T) { //nolint:tparallel // run says that the rows are
	t.Parallel()
	g := newGateway(t, "")
	for _, r := range readRows[inboundRow](t, "inbound") {
		if r.slow() {
			run(t, &r, g, true)
		}
	}
}

// run sends a row to each of its routes.
func run(t *testing.T, r *inboundRow, g *gateway, parallel bool) {
	t.Helper()
	routes := r.routes()
	for _, via := range routes {
		row, name := *r, r.ID
		row.via = via
		if len(routes) > 1 {
			name += "." + string(via)
		}
		t.Run(name, func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			c := &call{inboundRow: &row, t: t, g: g, values: map[string]string{}}
			c.run()
		})
	}
}

// call is a row on one of its routes, and what was made for it.
type call struct {
	*inboundRow
	t      *testing.T
	g      *gateway
	values map[string]string // of placeholders
	task   *filed            // the row's own
	began  int64             // bytes that were ever taken from the heap, when the request was sent
}

func (c *call) run() {
	if setup := setups[c.Setup]; setup != nil {
		c.g = setup(c)
	}
	log, issued := len(c.g.log.Bytes()), len(c.g.secrets())
	switch {
	case c.unserved():
		h := c.send("POST " + placeholder.ReplaceAllString(c.Path, "x") + " HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer " + c.g.admin + "\r\nContent-Length: 0\r\n\r\n")
		require.Equal(c.t, http.StatusNotFound, h.status, "%s is served now: run its rows", c.Path)
		require.Equal(c.t, string(schemas.NotFound), h.code(c.t))
	case c.Surface == rulesSurface:
		c.rules()
	case c.Surface == gitSurface:
		c.git()
	case c.With != nil:
		c.race()
	case c.Surface == chatSurface:
		c.chat()
	default:
		c.check(c.exchange())
	}
	// Others are served, and the log has no secret and nothing that the row forged.
	if c.Setup != "nats_down" {
		c.g.must(c.t, c.g.caller, http.MethodGet, "/v1/actions?limit=1", nil, http.StatusOK)
	}
	text := string(c.g.log.Bytes()[log:])
	for _, lost := range []string{"AGWCANARY", "evil.test", "goroutine ", "PUB x", c.g.admin, c.g.caller} {
		require.NotContains(c.t, text, lost)
	}
	for _, token := range c.g.secrets()[issued:] {
		require.NotContains(c.t, text, token[len(token)-43:], "the secret of a token")
	}
	if c.task != nil {
		require.NotContains(c.t, text, c.task.Token[len(c.task.Token)-43:], "the secret of a task's token")
	}
}

// exchange sends the row's request as the row wants it, and returns the answer to judge.
func (c *call) exchange() answer {
	c.began = taken()
	if script := scripts[c.Raw]; script != nil {
		return script(c)
	}
	switch {
	case c.Pace != nil:
		return c.send(c.bytes())
	case c.PaceRead > 0:
		return c.readSlowly()
	case c.asserts("heartbeat"):
		return c.waitForHeartbeat()
	case c.asserts(whatwg):
		return c.readHostileEvents()
	case c.Repeat > 2:
		return c.flood()
	case c.asserts("status unchanged"):
		return c.readStatus()
	}
	raw := c.bytes()
	h := c.send(raw)
	if c.Repeat == 2 {
		again := c.send(raw)
		assert.Equal(c.t, h.status, again.status, again.body)
		assert.Equal(c.t, h.header.Get("Weir-Action-Id"), again.header.Get("Weir-Action-Id"))
		assert.Equal(c.t, h.body, again.body)
	}
	return h
}

// send sends the bytes of a request; from here on memory counts as the row's.
func (c *call) send(raw string) answer {
	method, _, _ := strings.Cut(raw, " ")
	c.began = taken()
	return c.g.send(c.t, strings.NewReader(raw), method)
}

// check compares an answer with the row.
func (c *call) check(h answer) {
	class := c.Class
	if corrected[c.ID] != "" && c.via == viaTask {
		class = "2xx"
	}
	if c.asserts(traceDropped) || c.asserts(errPacket) {
		class += "|2xx"
	}
	require.True(c.t, h.matches(class), "%s: status %d, closed %t, wanted %s: %s", c.Why, h.status, h.closed, class, cut(h.body))
	if h.status >= http.StatusBadRequest {
		code := h.code(c.t)
		if (c.via == viaSync || c.via == viaStream) && h.status != http.StatusNotFound {
			require.Contains(c.t, h.body, `"outputs":{}`, "a refusal of a run has the form of a run")
		}
		if c.Code != "" {
			assert.Equal(c.t, c.Code, code, "%s: %s", c.Why, cut(h.body))
		}
	}
	text := h.body + fmt.Sprint(h.header)
	assert.NotContains(c.t, text, "evil.test")
	assert.NotContains(c.t, text, "AGWCANARY")
	if c.Code == string(schemas.RateLimited) {
		assert.NotEmpty(c.t, h.header.Get("Retry-After"))
	}
	if c.Surface == "auth" && h.status == http.StatusUnauthorized {
		assert.NotEmpty(c.t, h.header.Get("WWW-Authenticate"))
	}
	for _, cl := range c.clauses {
		if cl.check != nil {
			cl.check(c, h, cl.value)
		}
	}
}

// matches compares with a class such as "4xx|close".
func (h answer) matches(class string) bool {
	return slices.ContainsFunc(strings.Split(class, "|"), func(want string) bool {
		status := itoa(h.status)
		return want == "close" && h.closed || h.status > 0 && (want == status || strings.TrimSuffix(want, "xx") == status[:1])
	})
}

// code is that of an error, in the form of its surface.
func (h answer) code(t *testing.T) string {
	t.Helper()
	var doc struct {
		Title   string          `json:"title"`
		Code    string          `json:"code"`
		Status  json.RawMessage `json:"status"`
		Outputs json.RawMessage `json:"outputs"`
		OK      *bool           `json:"ok"`
		Error   struct {
			Message  string `json:"message"`
			Code     any    `json:"code"`
			Metadata struct {
				Code   string `json:"code"`
				Status int    `json:"status"`
			} `json:"metadata"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(h.body), &doc), "an error without a contract: %q", cut(h.body))
	if doc.Title != "" {
		require.Equal(t, "application/problem+json", h.header.Get("Content-Type"))
		require.Equal(t, itoa(h.status), string(doc.Status))
		return doc.Code
	}
	require.Equal(t, "application/json", h.header.Get("Content-Type"))
	require.NotEmpty(t, doc.Error.Message)
	switch {
	case doc.Outputs != nil: // of a run
		var refused schemas.RunRefusal
		require.NoError(t, readStrictly([]byte(h.body), &refused), cut(h.body))
		require.NotContains(t, h.body, "null")
		return string(refused.Code)
	case doc.OK != nil: // of the agent API
		return h.agent(t).Error.Code
	case doc.Error.Metadata.Code != "": // of a completion
		require.Equal(t, h.status, doc.Error.Metadata.Status)
		return doc.Error.Metadata.Code
	}
	return fmt.Sprint(doc.Error.Code)
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

// taken is all that was ever taken from the heap.
func taken() int64 { return metric("/gc/heap/allocs:bytes") }

func metric(name string) int64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample) // does not stop the world
	return int64(sample[0].Value.Uint64())
}

// What may be there that was not before: connections that net/http gives half a second to
// end, and what the log keeps in memory.
const (
	moreGoroutines = 20
	moreHeap       = 64 << 20
)

// TestRows: the page on security counts the rows, and no row stands twice.
func TestRows(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/explanation/security.md")
	require.NoError(t, err)
	outbound, inbound := readRows[outboundRow](t, "outbound"), readRows[inboundRow](t, "inbound")
	static, times := 0, map[string]int{}
	for _, r := range outbound {
		times[r.ID]++
		if r.Static {
			static++
		}
	}
	for _, r := range inbound {
		times[r.ID]++
	}
	require.Len(t, times, len(outbound)+len(inbound), "an id stands twice")
	require.Contains(t, strings.Join(strings.Fields(string(page)), " "), itoa(len(outbound))+" outbound rows ("+itoa(static)+" of them need no network) and "+itoa(len(inbound))+" inbound rows")
}
