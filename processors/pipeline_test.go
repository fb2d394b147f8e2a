package processors_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/policy"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/settle"
	"weir/schemas"
)

// TestCrashAtEveryAppend kills the worker at each append it makes, stored or
// not, and has another take over: one terminal event, no send too many, no
// evidence missing or double.
func TestCrashAtEveryAppend(t *testing.T) {
	t.Parallel()
	calls := map[string]struct {
		call schemas.HTTPCall
		most int
	}{
		"safe":       {schemas.HTTPCall{Method: "GET", URL: "http://up.example/x"}, 3},
		"idempotent": {schemas.HTTPCall{Method: "PUT", URL: "http://up.example/x"}, 3},
		"keyed":      {schemas.HTTPCall{Method: "POST", URL: "http://up.example/x", IdempotencyKey: "k"}, 3},
		"once":       {schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"}, 1},
		"denied":     {schemas.HTTPCall{Method: "GET", URL: "http://elsewhere.example/"}, 0},
		"mocked":     {schemas.HTTPCall{Method: "POST", URL: "http://up.example/mocked"}, 0},
	}
	branches := map[schemas.Outcome]int{}
	for name, tt := range calls {
		harness.EachStep(t, 1, func(t *testing.T, n int, done bool, msg string) bool { //nolint:thelper // it is the test
			h := newEnv()
			h.book.Put(t, rulebook.Mock("m", "http://up.example/mocked", 200, ""))
			rec := h.accept(t, tt.call)
			h.DieAt(n, done)
			first := h.worker(t, "w1").Handle(t.Context(), rec, true)
			if !h.Dead() {
				require.NoError(t, first)
				return false
			}
			require.Error(t, first)
			h.Heal()
			require.NoError(t, h.worker(t, "w2").Handle(t.Context(), rec, false))
			outcome := h.check(t, name+", "+msg, tt.most)
			branches[outcome]++
			if name == "mocked" {
				assert.Equal(t, schemas.OutcomeSucceeded, outcome, "what was not sent is never in doubt")
			}
			return true
		})
	}
	for _, o := range []schemas.Outcome{schemas.OutcomeSucceeded, schemas.OutcomeUnknown, schemas.OutcomeDenied} {
		assert.Positive(t, branches[o], "no crash led to %s: the test sees less than it claims", o)
	}
}

// check holds the log, the target and the evidence against each other.
func (h *env) check(t *testing.T, what string, most int) schemas.Outcome {
	t.Helper()
	st := h.state(t)
	settled := 0
	for _, e := range st.Events {
		if e.Type == schemas.EventSettled {
			settled++
		}
	}
	require.Equal(t, 1, settled, "%s: terminal events", what)
	assert.LessOrEqual(t, h.sent, most, "%s: requests", what)
	for id, n := range h.evidence(t) {
		assert.Equal(t, 1, n, "%s: evidence %s", what, id)
	}
	for _, a := range st.Attempts {
		assert.Equal(t, 1, h.evidence(t)[settle.AttemptID("a", a.Attempt)], "%s: evidence of attempt %d", what, a.Number)
	}
	switch st.Settled.Outcome {
	case schemas.OutcomeSucceeded:
		assert.Equal(t, st.Attempts[0].Mocked(), h.sent == 0, what)
	case schemas.OutcomeDenied:
		assert.Zero(t, h.sent, what)
		assert.Equal(t, 1, h.evidence(t)["a.denial.0.0"], what)
	default:
	}
	return st.Settled.Outcome
}

func TestSettledIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv()
		rec := h.accept(t, schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"})
		handle := func(name string, first bool) {
			require.NoError(t, h.worker(t, name).Handle(t.Context(), rec, first))
		}
		handle("1", true)
		handle("2", true) // it dials before the fence tells
		handle("3", false)
		time.Sleep(20 * time.Second) // longer than AckWait, and before the deadline
		handle("4", true)            // as from a queue that was made anew: nobody is dialled for it
		assert.Equal(t, []int{1, 2}, []int{h.sent, h.opened})
		assert.Equal(t, schemas.OutcomeSucceeded, h.check(t, "delivered four times", 1))
	})
}

// TestTooLargeEnds: a record that the log will never take ends its action instead
// of bringing it back for ever.
func TestTooLargeEnds(t *testing.T) {
	t.Parallel()
	h := newEnv()
	rec := h.accept(t, schemas.HTTPCall{Method: "GET", URL: "http://up.example/x"})
	h.refuse = func(m schemas.Append) error {
		if strings.HasPrefix(m.Subject, schemas.EvidenceRoot) {
			return fault.ErrTooLarge
		}
		return nil
	}
	require.NoError(t, h.worker(t, "w1").Handle(t.Context(), rec, true))
	st := h.state(t)
	require.NotNil(t, st.Settled)
	assert.Equal(t, schemas.OutcomeFailed, st.Settled.Outcome)
}

// TestCondemnWaitsForTheLog: an action that cannot be read is not acknowledged.
func TestCondemnWaitsForTheLog(t *testing.T) {
	t.Parallel()
	h := newEnv()
	rec := h.accept(t, schemas.HTTPCall{Method: "GET", URL: "http://up.example/x"})
	why := &fault.Terminal{Code: schemas.Poison, Reason: "again and again"}
	h.Kill() // nothing can be read
	w := h.worker(t, "w1")
	require.Error(t, w.DeadLetter(t.Context(), rec, why))
	h.Heal()
	require.NoError(t, w.DeadLetter(t.Context(), rec, why))
	st := h.state(t)
	require.NotNil(t, st.Settled)
	assert.Equal(t, schemas.Poison, st.Settled.Code)
	require.NoError(t, w.DeadLetter(t.Context(), rec, why), "what has settled is left alone")
	letter := fixture.Decode[schemas.DeadLetter](t, harness.Dead(t, h.log)[0].Data)
	assert.Equal(t, schemas.Called{Method: "GET", Host: "up.example", Path: "/x"}, letter.Called)
}

// TestALargeMessageIsParked: its letter fits into a message of any server.
func TestALargeMessageIsParked(t *testing.T) {
	t.Parallel()
	h := newEnv()
	large := bytes.Repeat([]byte("["), 1<<20)
	rec := h.store(t, large)
	require.NoError(t, h.worker(t, "w1").Handle(t.Context(), rec, true))
	dead := harness.Dead(t, h.log)
	require.Len(t, dead, 1)
	assert.Less(t, len(dead[0].Data), 1<<20)
	letter := fixture.Decode[schemas.DeadLetter](t, dead[0].Data)
	assert.Equal(t, large[:512<<10], letter.Data)
	assert.Contains(t, letter.Reason, "the first 524288 of its 1048576 bytes")
}

func TestPoisonIsParkedAndSettled(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]string{
		"not JSON":        `{`,
		"no action":       `{"v":1,"n":1,"type":"accepted"}`,
		"unknown version": `{"v":99,"n":1,"type":"accepted","action":{}}`,
		"not a call":      `{"v":1,"n":1,"type":"accepted","action":{"id":"a","tenant":"default","kind":"http","payload":[1]}}`,
	}, func(t *testing.T, data string) {
		h := newEnv()
		rec := h.store(t, []byte(data))
		require.NoError(t, h.worker(t, "w1").Handle(t.Context(), rec, true))

		dead := harness.Dead(t, h.log)
		require.Len(t, dead, 1)
		st := h.state(t)
		require.NotNil(t, st.Settled)
		assert.Equal(t, schemas.OutcomeFailed, st.Settled.Outcome)
		assert.Equal(t, schemas.Poison, st.Settled.Code)
		assert.Zero(t, h.sent)
	})
}

// TestEvidenceThatAPowerCutTook is left again when the message comes again that was not
// acknowledged before the end was durable. Nothing is sent for it.
func TestEvidenceThatAPowerCutTook(t *testing.T) {
	t.Parallel()
	h := newEnv()
	rec := h.accept(t, schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"})
	require.NoError(t, h.worker(t, "w1").Handle(t.Context(), rec, true))
	id := settle.AttemptID("a", schemas.Attempt{Number: 1})
	require.Equal(t, map[string]int{id: 1}, h.evidence(t))

	h.log.Purge(schemas.EvidenceStream, math.MaxUint64)
	require.Empty(t, h.evidence(t))
	for range 2 {
		require.NoError(t, h.worker(t, "w2").Handle(t.Context(), rec, false))
	}
	assert.Equal(t, schemas.OutcomeSucceeded, h.check(t, "after the cut", 1))
	assert.Equal(t, map[string]int{id: 1}, h.evidence(t))
}

// TestResponseSchemaOfAPlan: a step whose answer does not fit fails, unless the entry only warns.
func TestResponseSchemaOfAPlan(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]schemas.Outcome{
		policy.SchemaStrict: schemas.OutcomeFailed, policy.SchemaRedact: schemas.OutcomeFailed, policy.SchemaWarn: schemas.OutcomeSucceeded,
	} {
		h := newEnv()
		h.entries = []policy.Entry{{
			Name: "up", URLPrefix: "http://up.example/", Methods: []string{"PUT"},
			Contract: policy.Contract{ResponseSchema: &policy.ResponseSchema{Schema: []byte(`{"required":["id"]}`), Mode: mode}},
		}}
		rec := h.claim(t, schemas.KindPlan, schemas.PlanRequest{Snapshot: json.RawMessage(`{}`), Plan: schemas.ProposedPlan{Decisions: []schemas.PlanDecision{
			{EffectRef: "put", TargetState: json.RawMessage(`{"method":"PUT","url":"http://up.example/1","allowlist_key":"up"}`)},
		}}})
		require.NoError(t, h.worker(t, "w1").Handle(t.Context(), rec, true))
		st := harness.Load(t, h.ingressLedger(), schemas.Ref{Tenant: "default", Kind: schemas.KindPlan, ID: "a"})
		require.NotNil(t, st.Settled)
		assert.Equal(t, want, st.Settled.Outcome, mode)
		if want == schemas.OutcomeFailed {
			assert.Equal(t, schemas.ResponseSchemaInvalid, st.Settled.Code)
			assert.Contains(t, string(st.Settled.Result), "the answer does not fit the response schema of its entry")
		}
	}
}

// TestLostAcknowledgements from a log whose replica is late: the worker that writes
// an action's events knows them for its own. Otherwise it would give up the call it
// has just written down, or leave it to another node, which would wait for it.
func TestLostAcknowledgements(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		rec := d.take(t, "one", "POST")
		d.deaf, d.late = true, time.Now().Add(time.Second)
		require.NoError(t, d.node(t, "n1", false).Handle(t.Context(), rec, true))
		st := d.state(t, "one")
		require.NotNil(t, st.Settled)
		assert.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
		assert.Equal(t, 1, d.sent)
		assert.Len(t, st.Attempts, 1)
	})
}

// TestActionThatAReplicaDoesNotKnow is not taken for one that has been dropped: its
// message would be acknowledged, and nobody would ever perform it.
func TestActionThatAReplicaDoesNotKnow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		rec := d.take(t, "one", "POST")
		n := d.node(t, "n1", false)
		d.late = time.Now().Add(time.Hour)
		require.ErrorIs(t, n.Handle(t.Context(), rec, false), fault.ErrUnavailable)
		assert.Zero(t, d.sent)

		d.late = time.Now().Add(time.Second)
		require.NoError(t, n.Handle(t.Context(), rec, false))
		assert.Equal(t, schemas.OutcomeSucceeded, d.state(t, "one").Settled.Outcome)
		assert.Equal(t, 1, d.sent)

		rec = d.take(t, "two", "POST")
		d.log.Purge(schemas.LogStream(0), rec.Seq+1)
		require.NoError(t, n.Handle(t.Context(), rec, false), "history has dropped it")
		assert.Equal(t, 1, d.sent)
		assert.Empty(t, harness.Dead(t, d.log))
	})
}

// TestCostOfAnAction: what one call of a pipeline allocates between the log and its
// target, both in memory. The broker's tests count what an append costs.
func TestCostOfAnAction(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	h := newEnv()
	p := h.worker(t, "w")
	records := make([]schemas.Record, 0, 201)
	for i := range cap(records) {
		st := harness.Claim(t, h.ingressLedger(), schemas.Action{
			ID: strconv.Itoa(i), Kind: schemas.KindHTTP, Deadline: time.Now().Add(time.Hour),
		}, schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"})
		records = append(records, harness.Accepted(t, h.log, st.Ref))
	}
	i := -1
	cost := testing.AllocsPerRun(len(records)-1, func() {
		i++
		if err := p.Handle(t.Context(), records[i], true); err != nil {
			t.Error(err)
		}
	})
	require.Equal(t, len(records), h.sent)
	t.Log(cost, "allocations")
	require.LessOrEqual(t, cost, 200.0)
}
