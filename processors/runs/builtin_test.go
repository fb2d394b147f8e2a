package runs_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/policy"
	"weir/internal/weirtest/table"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// calling is a room that may call one upstream.
func calling(t *testing.T, up *upstream.Server) *room {
	t.Helper()
	return newRoom(t, options{entry: &policy.Entry{Name: "up", URLPrefix: up.URL() + "/", Methods: []string{"GET", "POST"}, Network: policy.NetworkLoopback}})
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
		e := r.perform(r.claim("1", schemas.Run{RunOrder: schemas.RunOrder{TaskType: schemas.TaskHTTPExecute}, Call: &call}, time.Minute), still{})
		require.NoError(t, e.err)
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
		e := r.perform(r.claim("1", schemas.Run{RunOrder: schemas.RunOrder{TaskType: schemas.TaskHTTPPlan}, Plan: &plan}, time.Minute), still{})
		require.NoError(t, e.err)
		assert.Equal(t, tt.outcome, e.Outcome)
		assert.Len(t, r.evidence("1"), tt.evidence)
		doc := e.result.Outputs
		if tt.outcome != schemas.OutcomeSucceeded {
			require.NotNil(t, e.result.Error)
			assert.Empty(t, e.result.Outputs)
			assert.Equal(t, "TASK_FAILED", e.result.Error.Code)
			doc = e.result.Error.Details
		}
		var report schemas.PlanResult
		require.NoError(t, json.Unmarshal(doc, &report))
		assert.Len(t, report.Report.PolicyDecisions, len(tt.decisions), "what became of each is told, however it ended")

		st, err := r.ledger.Load(t.Context(), schemas.Ref{Tenant: "default", Kind: schemas.KindRun, ID: "1"})
		require.NoError(t, err)
		_, err = r.runs.Evidence(st)
		require.NoError(t, err)
	})
}

// TestPayloadsThatCannotBeRead are parked.
func TestPayloadsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newRoom(t, options{})
	for _, payload := range []string{`[]`, `{"task_type":"HTTP_EXECUTE"}`, `{"task_type":"HTTP_PLAN"}`, `{`} {
		st := r.claim(string(rune('a'+len(payload))), schemas.Run{}, time.Minute)
		st.Action.Payload = json.RawMessage(payload)
		var parked *fault.Parked
		require.ErrorAs(t, r.perform(st, still{}).err, &parked, payload)
		_, err := r.runs.Evidence(st)
		require.ErrorAs(t, err, &parked, payload)
	}
}
