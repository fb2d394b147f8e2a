package runs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/policy"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/internal/weirtest/upstream"
	"weir/processors/call"
	"weir/schemas"
)

func echo(inputs string) schemas.Run {
	return schemas.Run{RunOrder: schemas.RunOrder{TaskType: schemas.TaskEcho, Inputs: json.RawMessage(inputs)}}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	type testCase struct {
		inputs  string
		outputs string
		events  int
	}
	table.Run(t, map[string]testCase{
		"nothing":       {``, `{}`, 1},
		"empty":         {`{}`, `{}`, 1},
		"as they came":  {`{"n":1.50,"big":12345678901234567890,"null":null}`, `{"n":1.50,"big":12345678901234567890,"null":null}`, 1},
		"steps":         {`{"steps":3}`, `{"steps":3}`, 3},
		"other letters": {`{"Steps":9,"STEPS":"x"}`, `{"Steps":9,"STEPS":"x"}`, 1},
		"null":          {`{"steps":null,"interval_ms":null}`, `{"steps":null,"interval_ms":null}`, 1},
		"the most":      {`{"steps":1000,"interval_ms":0}`, `{"steps":1000,"interval_ms":0}`, 1000},
	}, func(t *testing.T, tt testCase) {
		r := newEnv(t, options{})
		e := r.done(r.claim("1", echo(tt.inputs), time.Minute), still)
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Equal(t, tt.outputs, string(e.result.Outputs))
		events := r.events("1")
		require.Len(t, events, 1+tt.events)
		for i, ev := range events[1:] {
			want := fmt.Sprintf(`{"name":"progress","data":{"step":%d,"steps":%d,"percent":%d}}`, i+1, tt.events, 100*(i+1)/tt.events)
			require.Equal(t, want, string(ev.Data))
		}
		assert.Empty(t, r.evidence("1"))
	})
}

func TestEchoRefuses(t *testing.T) {
	t.Parallel()
	for _, inputs := range []string{`{"steps":0}`, `{"steps":1001}`, `{"steps":1.5}`, `{"steps":"1"}`, `{"interval_ms":-1}`, `{"interval_ms":60001}`, `[]`} {
		r := newEnv(t, options{})
		e := r.done(r.claim("1", echo(inputs), time.Minute), still)
		assert.Equal(t, schemas.OutcomeFailed, e.Outcome, inputs)
		assert.Equal(t, schemas.TaskFailed, e.Code, inputs)
		assert.Equal(t, "VALIDATION_ERROR", e.result.Error.Code, inputs)
	}
}

func TestEchoByTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slow = `{"steps":10,"interval_ms":1000}`
		r := newEnv(t, options{})
		began := time.Now()
		e := r.done(r.claim("all", echo(slow), time.Minute), still)
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Equal(t, 10*time.Second, time.Since(began))

		began = time.Now()
		e = r.done(r.claim("late", echo(slow), 3500*time.Millisecond), still)
		assert.Equal(t, schemas.OutcomeExpired, e.Outcome)
		assert.Equal(t, 3500*time.Millisecond, time.Since(began))
		assert.Len(t, r.events("late"), 1+3)

		stop := harness.NewStop(t)
		time.AfterFunc(2500*time.Millisecond, stop.Pull)
		e = r.done(r.claim("stopped", echo(slow), time.Minute), stop.Stop)
		assert.Equal(t, schemas.OutcomeCanceled, e.Outcome)
		assert.Len(t, r.events("stopped"), 1+2)

		// A worker that drains gives it back, and another goes on where it stood.
		time.AfterFunc(4500*time.Millisecond, func() { close(r.draining) })
		st := r.claim("moved", echo(slow), time.Minute)
		e = r.perform(st, still)
		require.ErrorAs(t, e.err, new(*fault.RetryAfter))
		st = harness.Load(t, r.ledger, st.Ref)
		require.Equal(t, 4, st.Progress)
		r.undrain()
		e = r.done(st, still)
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Len(t, r.events("moved"), 1+10)
	})
}

// TestASlowEcho waits on the log, not in its worker's slot, and keeps its time.
func TestASlowEcho(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t, options{})
		// carry performs a run as the pipeline does, and says how it ended.
		carry := func(id string, deadline time.Duration) ended {
			st := r.claim(id, echo(`{"steps":3,"interval_ms":60000}`), deadline)
			time.Sleep(time.Second) // in the queue
			harness.Start(t, r.ledger, st)
			for {
				began := time.Now()
				e := r.perform(st, still)
				require.LessOrEqual(t, time.Since(began), 3*time.Second)
				var rest *call.Deferral
				if !errors.As(e.err, &rest) {
					require.NoError(t, e.err)
					return e
				}
				require.Equal(t, schemas.WaitDelay, rest.Reason)
				require.Greater(t, time.Until(rest.Until), time.Duration(0))
				require.LessOrEqual(t, time.Until(rest.Until), time.Minute, "no longer than to the next event")
				ev := schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: rest.Reason, Until: rest.Until}}
				harness.Append(t, r.ledger, st, ev)
				time.Sleep(time.Until(rest.Until))
				st, e.err = r.ledger.Load(t.Context(), st.Ref)
				require.NoError(t, e.err)
			}
		}
		began := time.Now()
		assert.Equal(t, schemas.OutcomeSucceeded, carry("all", time.Hour).Outcome)
		assert.Equal(t, 3*time.Minute+time.Second, time.Since(began))

		began = time.Now()
		assert.Equal(t, schemas.OutcomeExpired, carry("late", 90*time.Second).Outcome)
		assert.Equal(t, 90*time.Second, time.Since(began))
	})
}

// calling is a room that may call one upstream.
func calling(t *testing.T, up *upstream.Server) *env {
	t.Helper()
	return newEnv(t, options{entry: &policy.Entry{Name: "up", URLPrefix: up.URL() + "/", Methods: []string{"GET", "POST"}, Network: policy.NetworkLoopback}})
}

func TestHTTPExecute(t *testing.T) {
	t.Parallel()
	type testCase struct {
		path    string
		answer  upstream.Behaviour
		outcome schemas.Outcome
		code    schemas.Code
		sent    int
	}
	table.Run(t, map[string]testCase{
		"answered": {"/x", upstream.Respond(200, `{"a":1}`), schemas.OutcomeSucceeded, "", 1},
		"a status": {"/x", upstream.Respond(404, `{}`), schemas.OutcomeFailed, schemas.HTTPFailure, 1},
		"unknown":  {"/x", upstream.ResetBeforeResponse(), schemas.OutcomeUnknown, schemas.OutcomeUnknownCode, 1},
		"denied":   {"", upstream.Respond(200, `{}`), schemas.OutcomeDenied, schemas.DenyHost, 0},
	}, func(t *testing.T, tt testCase) {
		up := upstream.New(t, tt.answer)
		r := calling(t, up)
		call := schemas.HTTPCall{Method: "POST", URL: up.URL() + tt.path, Body: json.RawMessage("{}")}
		if tt.path == "" {
			call.URL = "http://elsewhere.example/"
		}
		e := r.done(r.claim("1", schemas.Run{RunOrder: schemas.RunOrder{TaskType: schemas.TaskHTTPExecute}, Call: &call}, time.Minute), still)
		assert.Equal(t, tt.outcome, e.Outcome)
		assert.Equal(t, tt.code, e.Code)
		assert.Equal(t, tt.sent, up.Hits())
		require.NotNil(t, e.result.HTTP, "the call's own result goes with every end")
		assert.Len(t, r.evidence("1"), 1)
		if tt.outcome == schemas.OutcomeSucceeded {
			assert.Nil(t, e.result.Error)
			assert.JSONEq(t, `{"a":1}`, string(e.result.HTTP.Answer.Body))
			return
		}
		require.NotNil(t, e.result.Error)
		assert.Equal(t, "TASK_FAILED", e.result.Error.Code)
		assert.Equal(t, e.result.HTTP.Message, e.result.Error.Message)
		assert.JSONEq(t, `{"code":"`+string(tt.code)+`"}`, string(e.result.Error.Details))
	})
}

func TestHTTPPlan(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.Respond(200, `{"a":1}`))
	decision := func(ref, target string) schemas.PlanDecision {
		return schemas.PlanDecision{EffectRef: ref, TargetState: json.RawMessage(target)}
	}
	good := decision("e1", `{"url":"`+up.URL()+`/x","method":"GET","allowlist_key":"up"}`)
	bad := decision("e2", `{"url":"`+up.URL()+`/x","method":"GET","allowlist_key":"other"}`)
	type testCase struct {
		decisions []schemas.PlanDecision
		outcome   schemas.Outcome
		evidence  int
	}
	table.Run(t, map[string]testCase{
		"applied": {[]schemas.PlanDecision{good}, schemas.OutcomeSucceeded, 2},
		"partial": {[]schemas.PlanDecision{good, bad}, schemas.OutcomeFailed, 3},
		"denied":  {[]schemas.PlanDecision{bad}, schemas.OutcomeDenied, 2},
	}, func(t *testing.T, tt testCase) {
		r := calling(t, up)
		plan := schemas.PlanRequest{Snapshot: json.RawMessage(`{}`), Plan: schemas.ProposedPlan{Decisions: tt.decisions}}
		e := r.done(r.claim("1", schemas.Run{RunOrder: schemas.RunOrder{TaskType: schemas.TaskHTTPPlan}, Plan: &plan}, time.Minute), still)
		assert.Equal(t, tt.outcome, e.Outcome)
		assert.Len(t, r.evidence("1"), tt.evidence)
		doc := e.result.Outputs
		if tt.outcome != schemas.OutcomeSucceeded {
			require.NotNil(t, e.result.Error)
			assert.Empty(t, e.result.Outputs)
			assert.Equal(t, "TASK_FAILED", e.result.Error.Code)
			doc = e.result.Error.Details
		}
		report := fixture.Decode[schemas.PlanResult](t, doc)
		assert.Len(t, report.Report.PolicyDecisions, len(tt.decisions), "what became of each is told, however it ended")

		st := harness.Load(t, r.ledger, runRef("1"))
		again, err := r.runs.Evidence(st)
		require.NoError(t, err)
		for _, e := range again {
			assert.Equal(t, schemas.EvidenceConnector, e.Kind)
		}
		if tt.outcome != schemas.OutcomeDenied {
			require.NotEmpty(t, again)
		}
	})
}

// TestPayloadsThatCannotBeRead are parked.
func TestPayloadsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newEnv(t, options{})
	for _, payload := range []string{`[]`, `{"task_type":"HTTP_EXECUTE"}`, `{"task_type":"HTTP_PLAN"}`, `{`} {
		st := r.claim(string(rune('a'+len(payload))), schemas.Run{}, time.Minute)
		st.Action.Payload = json.RawMessage(payload)
		parked := harness.As[*fault.Terminal](t, r.perform(st, still).err)
		assert.Equal(t, schemas.Poison, parked.Code, payload)
	}
}
