//go:build e2e

package corpus_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// TestOutbound sends the rows that need a network through a whole Weir: what DNS, TLS and the
// upstream do, redirects, retries and their outcome, secrets, and traffic rules that are
// created or lie in the store. Of the rows that policy alone decides it sends one allowed and
// one denied of each category, and those that assert something about the wire; TestStatic
// decides all of them.
func TestOutbound(t *testing.T) {
	t.Parallel()
	for _, l := range lanes(t) {
		t.Run("lane", func(t *testing.T) {
			t.Parallel()
			for _, r := range l.rows {
				t.Run(r.ID, func(sub *testing.T) { // one after the other
					n := l.node(sub, t, &r)
					if r.Assert.Rule != nil {
						n.ruled(sub, &r, l.authority)
						return
					}
					n.run(sub, &r, newStage(sub, &r, l.authority)).check()
				})
			}
		})
	}
}

// mostRows is how many rows a lane has at most: many of them wait for a retry.
const mostRows = 8

// lanes are the rows of TestOutbound, by the node that they need.
func lanes(t *testing.T) (all []*lane) {
	t.Helper()
	rows, authority := readRows[outboundRow](t, "outbound"), upstream.NewAuthority(t)
	sampled, last := map[string]bool{}, map[string]*lane{}
	for _, r := range rows {
		sample := r.Category + r.Expected
		plain := r.Static && string(encode(r.Assert)) == string(encode(outboundAssert{}))
		if r.Assert.CrashAt != "" || r.Assert.MaxRSS > 0 || plain && (r.planned() || sampled[sample]) {
			continue
		}
		sampled[sample] = sampled[sample] || plain
		l := last[r.key()]
		if l == nil || len(l.rows) == mostRows {
			l = &lane{authority: authority, all: rows, nodes: map[string]*node{}}
			last[r.key()], all = l, append(all, l)
		}
		l.rows = append(l.rows, r)
	}
	return all
}

// maxSent is the most that an upstream may send in one attempt: the largest body that Weir
// reads, and what the kernel holds on both sides of the connection.
const maxSent = 32 << 20

// TestOutboundMemory sends the rows that bound memory, each alone in the process: the growth
// of the heap, which holds the upstream too, and how much the upstream could send.
func TestOutboundMemory(t *testing.T) { //nolint:paralleltest // as said
	rows := readRows[outboundRow](t, "outbound")
	l := &lane{authority: upstream.NewAuthority(t), nodes: map[string]*node{}}
	for _, r := range rows { //nolint:paralleltest // as said
		if r.Assert.MaxRSS == 0 {
			continue
		}
		t.Run(r.ID, func(sub *testing.T) {
			n, s := l.node(sub, t, &r), newStage(sub, &r, l.authority)
			runtime.GC()
			before := heap()
			peak := watch(heap)
			x := n.run(sub, &r, s)
			grown := peak() - before
			x.check()
			assert.Less(sub, grown, r.Assert.MaxRSS<<20, "the heap grew")
			assert.LessOrEqual(sub, s.server.Written(), int64(max(1, x.attempts()))*maxSent, "the upstream could send too much")
		})
	}
}

// heap is the bytes of live objects and of dead ones that are not swept yet.
func heap() int64 { return metric("/memory/classes/heap/objects:bytes") }

// watch measures every few milliseconds until the returned function is called, which returns
// the highest value.
func watch(measure func() int64) (stop func() int64) {
	var peak int64
	var group sync.WaitGroup
	done := make(chan struct{})
	group.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, measure())
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	return func() int64 {
		close(done)
		group.Wait()
		return peak
	}
}

// trial is one row on its way through a node, and what came of it.
type trial struct {
	*outboundRow
	t     *testing.T
	node  *node
	stage *stage
	token string // of the row's tenant
	bare  bool   // sent as it is: see way

	sent    int // requests that the upstream received, without the preparing ones
	reply   answer
	id      string // of the action; empty if the request was refused at the entry
	code    string
	allowed bool
	view    schemas.ActionView
	events  []schemas.EventView
	shown   string // everything that an owner is shown of the action
	snippet string // the excerpt of the body in a plan's report
}

// run sends a row as a tenant of its own.
func (n *node) run(t *testing.T, r *outboundRow, s *stage) *trial {
	t.Helper()
	return n.runAs(t, r, s, n.as(t, strings.ToLower(r.ID)))
}

func (n *node) runAs(t *testing.T, r *outboundRow, s *stage, token string) *trial {
	t.Helper()
	x := &trial{outboundRow: r, t: t, node: n, stage: s, token: token}
	n.stage.Store(s)
	prepared := x.prepare()
	path, body := r.body()
	x.reply = n.ask(t, token, http.MethodPost, path, []byte(body))
	x.observe(prepared)
	return x
}

// observe reads what came of a row, without the requests that prepared it.
func (x *trial) observe(prepared int) {
	x.id = x.reply.header.Get("Weir-Action-Id")
	if x.Upstream.Behaviour != "accept_hang" { // which holds its connection until the test ends
		x.stage.server.WaitIdle()
	}
	x.sent = x.stage.server.Hits() - prepared
	x.read()
}

// prepare sends what the row wants before its request, and returns the number of requests that
// the upstream received of it.
func (x *trial) prepare() int {
	calls := x.Assert.AfterRequests
	if x.Upstream.Behaviour == "close_reused_conn_after_read" {
		calls = 1
	}
	for range calls {
		x.node.must(x.t, x.token, http.MethodPost, "/v1/execute", map[string]any{"method": "GET", "url": x.Request.URL}, http.StatusOK)
	}
	if x.Assert.PolicyReload == nil {
		return x.stage.server.Hits()
	}
	x.node.configure(x.outboundRow, *x.Assert.PolicyReload)
	r := x.node.must(x.t, x.node.admin, http.MethodPost, "/v1/policy/reload", struct{}{}, http.StatusOK)
	require.Contains(x.t, r.body, `"changed":true`)
	return 0
}

// read finds the verdict and the code on whichever surface the row went through.
func (x *trial) read() {
	if x.bare {
		x.readBare()
		return
	}
	if x.reply.status >= http.StatusBadRequest {
		x.code = x.reply.code(x.t)
	}
	if x.id == "" {
		require.NotEmpty(x.t, x.code, x.reply.body)
		return
	}
	x.readAction()
	if x.view.Kind == schemas.KindPlan {
		x.readPlan()
	} else {
		x.allowed = x.view.Status == schemas.Status(schemas.OutcomeSucceeded)
		require.Equal(x.t, x.allowed, x.reply.status == http.StatusOK, "the answer and the log have different outcomes: %s", x.reply.body)
	}
	if x.allowed {
		x.code = "OK"
	}
}

// readAction reads what the log has of the row's action.
func (x *trial) readAction() {
	view, events := x.get("/v1/actions/"+x.id), x.get("/v1/actions/"+x.id+"/events?limit=1000")
	require.NoError(x.t, json.Unmarshal([]byte(view.body), &x.view))
	x.events, x.shown = items[schemas.EventView](x.t, events), x.reply.body+view.body+events.body
}

// readBare reads the verdict of a way: the answer is the target's if no header says that Weir
// refused the call.
func (x *trial) readBare() {
	x.code = x.reply.header.Get(schemas.HeaderRefused)
	if x.code == "" && x.id == "" && !x.allowed { // refused before the surface was reached
		x.code = x.reply.code(x.t)
	}
	if x.id != "" {
		x.readAction()
		x.allowed = x.view.Status == schemas.Status(schemas.OutcomeSucceeded)
		x.code = cmp.Or(x.code, string(x.view.Code))
	}
	if x.allowed {
		require.Empty(x.t, x.code, x.reply.body)
		x.code = "OK"
	}
}

// readPlan reads the verdict in the plan's report, and the code in the last attempt or, if
// there was none, in the evidence.
func (x *trial) readPlan() {
	require.Equal(x.t, http.StatusOK, x.reply.status, x.reply.body)
	var done struct {
		Report struct {
			Status string `json:"status"`
			Refs   map[string]struct {
				Snippet string `json:"response_snippet"`
			} `json:"artifact_refs"`
		} `json:"artifact:execution.report"`
	}
	require.NoError(x.t, json.Unmarshal([]byte(x.reply.body), &done))
	x.allowed, x.snippet = done.Report.Status == "succeeded", done.Report.Refs["case"].Snippet
	x.code = x.cause()
}

// get reads a document as the row's tenant.
func (x *trial) get(path string) answer {
	return x.node.must(x.t, x.token, http.MethodGet, path, nil, http.StatusOK)
}

// evidence are the records of the action. The log and the evidence are streams of their own, so the
// answer may be there a moment before them.
func (x *trial) evidence() (all []schemas.Evidence) {
	poll.Until(x.t, func() bool {
		all = items[schemas.Evidence](x.t, x.get("/v1/evidence?limit=1000&action_id="+x.id))
		return len(all) > 0
	}, "evidence of the action")
	return all
}

// attempts counts the attempts; the hops of one are one.
func (x *trial) attempts() int {
	n := 0
	for _, a := range x.view.Attempts {
		if a.Hop == 0 {
			n++
		}
	}
	return n
}

// cause is the code of the last attempt.
func (x *trial) cause() string {
	if n := len(x.view.Attempts); n > 0 {
		return string(x.view.Attempts[n-1].Code)
	}
	return ""
}
