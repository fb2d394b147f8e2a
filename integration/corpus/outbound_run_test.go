//go:build e2e

package corpus_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// trial is one row on its way through a lane, and what came of it.
type trial struct {
	*outboundRow
	lane  *lane
	stage *stage

	sent    int // what the ledger has, requests that only prepared the ground aside
	wall    time.Duration
	reply   reply
	id      string // of the action; empty where the door refused
	code    string
	allowed bool
	view    schemas.ActionView
	events  []schemas.EventView
	shown   string // everything that an owner is shown of the action
	snippet string // what a plan's report shows of the body
}

// planned rows go through POST /v1/plans: the executor has no parameters, no
// default method, and lets a call go without a key; a plan has, and does not.
func (r *outboundRow) planned() bool {
	_, keyed := r.Request["allowlist_key"]
	return !absent(r.Request["params"]) || absent(r.Request["method"]) ||
		!keyed || text(r.Request["allowlist_key"]) == "" || r.asserts("snippet_chars") || r.asserts("snippet_valid_utf8")
}

// body is the row's request in the words of the surface it goes through, as
// text: the corpus may want what no encoder would write.
func (r *outboundRow) body() (path, body string) {
	var args []string
	add := func(name, value string) { args = append(args, `"`+name+`":`+value) }
	for _, name := range requestMembers {
		value, ok := r.Request[name]
		if !ok || (name == "method" && absent(value)) || (name == "idempotency_key" && !r.planned()) {
			continue
		}
		exact, _ := written(value) // lacks has seen that it can be
		add(name, exact)
	}
	if is(r.Assert["insecure_field"]) {
		add("insecure_skip_verify", "true")
	}
	object := "{" + strings.Join(args, ",") + "}"
	if r.planned() {
		return "/v1/plans", `{"state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[{"effect_ref":"case","target_state":` + object + `}]}}`
	}
	key := ""
	if value, ok := r.Request["idempotency_key"]; ok {
		key = `,"idempotency_key":` + string(value)
	}
	return "/v1/execute", `{"type":"Http","args":` + object + key + "}"
}

// run sends a row through a lane and reads off what came of it.
func (l *lane) run(t *testing.T, r *outboundRow, s *stage) *trial {
	t.Helper()
	x := &trial{outboundRow: r, lane: l, stage: s}
	l.stage.Store(s)
	prepared := x.prepare(t)
	begin := time.Now()
	path, body := r.body()
	x.reply = l.ask(t, http.MethodPost, path, body)
	x.wall = time.Since(begin)
	x.id = x.reply.header.Get("Weir-Action-Id")
	if !bytes.Contains(r.line, []byte(`"accept_hang"`)) { // which holds its connection until the test ends
		s.server.WaitIdle()
	}
	x.sent = s.server.Hits() - prepared
	x.read(t)
	return x
}

// prepare does what has to be before the row's request, and says how many of
// the ledger's requests do not count.
func (x *trial) prepare(t *testing.T) int {
	t.Helper()
	get := func() {
		r := x.lane.ask(t, http.MethodPost, "/v1/execute", `{"method":"GET","url":`+string(x.Request["url"])+`}`)
		require.Equal(t, http.StatusOK, r.status, r.body)
	}
	if x.Upstream.Behaviour == "close_reused_conn_after_read" {
		get()
		return x.stage.server.Hits()
	}
	if next, ok := x.Assert["policy_reload"]; ok {
		for range number(t, x.Assert["after_requests"]) {
			get()
		}
		var p outboundPolicy
		require.NoError(t, json.Unmarshal(next, &p))
		x.lane.configure(x.outboundRow, p)
		r := x.lane.ask(t, http.MethodPost, "/v1/policy/reload", "{}")
		require.Equal(t, http.StatusOK, r.status, r.body)
		require.Contains(t, r.body, `"changed":true`)
	}
	return 0
}

// read finds the verdict and the code, whichever surface says them.
func (x *trial) read(t *testing.T) {
	t.Helper()
	var e struct {
		Code  string `json:"code"` // of a problem body
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(x.reply.body), &e), x.reply.body)
	x.code = e.Code + e.Error.Code
	if x.id == "" {
		require.GreaterOrEqual(t, x.reply.status, http.StatusBadRequest, x.reply.body)
		return
	}
	view := x.lane.get(t, "/v1/actions/"+x.id, &x.view)
	events, raw := x.lane.events(t, x.id)
	x.events, x.shown = events, x.reply.body+view+raw
	if x.view.Kind == schemas.KindPlan {
		x.readPlan(t)
		return
	}
	x.allowed = x.view.Status == schemas.Status(schemas.OutcomeSucceeded)
	require.Equal(t, x.allowed, x.reply.status == http.StatusOK, "the answer and the log tell different ends: %s", x.reply.body)
	if x.allowed {
		x.code = "OK"
	}
}

// readPlan takes the code from where a plan leaves it: an attempt, or evidence.
func (x *trial) readPlan(t *testing.T) {
	t.Helper()
	require.Equal(t, http.StatusOK, x.reply.status, x.reply.body)
	var done schemas.PlanResult
	require.NoError(t, json.Unmarshal([]byte(x.reply.body), &done))
	x.allowed = done.Report.Status == "succeeded"
	if x.allowed {
		x.code = "OK"
	}
	var report struct {
		Refs map[string]struct {
			Snippet string `json:"response_snippet"`
		} `json:"artifact_refs"`
	}
	require.NoError(t, json.Unmarshal(mustEncode(t, done.Report), &report))
	x.snippet = report.Refs["case"].Snippet
	if n := len(x.view.Attempts); n > 0 && x.view.Attempts[n-1].Code != "" {
		x.code = string(x.view.Attempts[n-1].Code)
		return
	}
	for _, e := range x.evidence(t) {
		if e.Kind == "policy.decision" {
			var payload struct {
				Code string `json:"code"`
			}
			require.NoError(t, json.Unmarshal(e.Payload, &payload))
			x.code = payload.Code
		}
	}
}

// evidence is what the action left for auditors.
func (x *trial) evidence(t *testing.T) []schemas.Evidence {
	t.Helper()
	var p schemas.Page[schemas.Evidence]
	x.lane.get(t, "/v1/evidence?limit=1000&action_id="+x.id, &p)
	return p.Items
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

func mustEncode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}
