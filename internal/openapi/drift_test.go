package openapi_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/executor"
	"weir/ingress/actions"
	"weir/internal/jsonschema"
	"weir/internal/postcondition"
	"weir/processors/plans"
	"weir/schemas"
	published "weir/schemas/json"
)

// One room has a type of its own for what it writes. The contract says the same
// of it: member for member, in the same order.
func TestTheContractMatchesWhatIngressWrites(t *testing.T) {
	t.Parallel()
	require.Equal(t, tags(reflect.TypeFor[actions.Status]()), tags(reflect.TypeFor[schemas.ActionStatus]()))
}

// tags are the names, options and kinds of what a type writes.
func tags(t reflect.Type) []string {
	var out []string
	for f := range t.Fields() {
		if !f.IsExported() {
			continue
		}
		out = append(out, f.Tag.Get("json")+" "+f.Type.Kind().String())
	}
	return out
}

func compiled(t *testing.T, file string) *jsonschema.Schema {
	t.Helper()
	text, err := published.Files.ReadFile(file)
	require.NoError(t, err)
	s, err := jsonschema.Compile(text)
	require.NoError(t, err)
	return s
}

func TestExecutorAnswersFitTheirSchemas(t *testing.T) {
	t.Parallel()
	outcome, failure := compiled(t, "execute.outcome.json"), compiled(t, "execute.error.json")
	p, err := postcondition.Parse(json.RawMessage(`{"name":"n","assertions":[{"type":"http_status","equals":200},{"type":"json_path","path":"$.a","equals":"x"}]}`))
	require.NoError(t, err)
	answer := schemas.Answer{Status: 200, Headers: []schemas.Header{{Name: "a", Value: "b"}}, Body: json.RawMessage(`{"a":"y"}`), JSON: true, Hash: "x"}
	_, report := p.Evaluate(answer)
	results := []schemas.HTTPResult{{Answer: &answer, Report: report}}
	for _, v := range schemas.Variants() {
		results = append(results, schemas.HTTPResult{
			Variant: string(v), Message: "m", Answer: &answer, Report: report, LastError: "l",
			History:  []schemas.RetryRecord{{Attempt: 1, Outcome: json.RawMessage(`{"status":503}`)}, {Attempt: 2, Outcome: json.RawMessage(`"timeout"`)}},
			Decision: &schemas.Decision{Code: schemas.DenyHost, Reason: "r", Entry: "e"},
		})
	}
	for _, res := range results {
		doc, err := json.Marshal(res)
		require.NoError(t, err)
		for _, end := range schemas.Outcomes() {
			_, body, err := executor.Render(schemas.Ref{ID: "a"}, &schemas.Settled{Outcome: end, Code: schemas.HTTPFailure, Attempts: 2}, doc)
			require.NoError(t, err)
			s := failure
			if end == schemas.OutcomeSucceeded {
				s = outcome
			}
			require.Empty(t, s.Validate(body), "%s", body)
		}
	}
	require.NotEmpty(t, failure.Validate(json.RawMessage(`{"error":{"variant":"Other","message":"m","retryable":false}}`)))
}

func TestPlanReportsFitTheirSchema(t *testing.T) {
	t.Parallel()
	_, view, err := plans.Translate(json.RawMessage(`{"url":"http://h/a","allowlist_key":"k"}`))
	require.NoError(t, err)
	id := "p"
	s := compiled(t, "plan.result.json")
	for _, planID := range []*string{nil, &id} {
		for _, steps := range [][]plans.Step{nil, {{EffectRef: "a", View: view}, {EffectRef: "b", Message: "m"}}} {
			doc, err := json.Marshal(plans.Report(planID, json.RawMessage(`{"snapshot_id":1}`), steps))
			require.NoError(t, err)
			require.Empty(t, s.Validate(doc), "%s", doc)
		}
	}
}

func stats(now time.Time) schemas.Stats {
	none := schemas.Latencies{nil, new(0.5)}
	return schemas.Stats{
		Since: now, Until: now, StepS: 10, Total: schemas.StatsSum{Outcomes: map[string]uint64{"denied": 1}},
		Groups: []schemas.StatsGroup{{Name: "a", StatsSum: schemas.StatsSum{P50MS: new(1.5), Outcomes: map[string]uint64{}}, Points: schemas.StatsGroupPoints{Settled: []uint64{0, 1}, P50MS: none, P99MS: none}}},
		Points: schemas.StatsPoints{Time: []time.Time{now, now}, Accepted: []uint64{0, 0}, Settled: []uint64{0, 1}, P50MS: none, P99MS: none, Outcomes: map[string][]uint64{"denied": {0, 1}}},
	}
}

func TestRecordsFitTheirSchemas(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	for file, v := range map[string]any{
		"receipt.json":          schemas.Receipt{ID: "a", Status: "accepted", Durability: schemas.DurabilityDisk},
		"problem.json":          schemas.Problem{Type: "about:blank", Title: "t", Status: 404, Code: schemas.NotFound},
		"evidence.json":         schemas.Evidence{ID: "a", Time: now, Payload: json.RawMessage(`{}`)},
		"evidence.page.json":    schemas.Page[schemas.Evidence]{Items: []schemas.Evidence{}},
		"action.json":           schemas.ActionView{ID: "a", Kind: schemas.KindHTTP, Status: "waiting", Attempts: []schemas.AttemptView{{Number: 1, ExpiresAt: now}}, Waiting: &schemas.Waiting{For: schemas.WaitDelay}},
		"action.page.json":      schemas.ActionPage{Items: []schemas.ActionEntry{{ID: "a", Kind: schemas.KindPlan, Status: "denied", Code: schemas.DenyHost, Settled: now, DurationMS: new(1.5)}}, Freshness: schemas.Freshness{AsOf: now, Behind: 1}, Count: &schemas.ActionCount{Total: 1, By: map[string]uint64{"denied": 1}}},
		"stats.json":            stats(now),
		"action.payload.json":   schemas.ActionPayload{ID: "a", Kind: schemas.KindHTTP, Payload: json.RawMessage(`{"method":"GET"}`)},
		"dead_letter.page.json": schemas.Page[schemas.DeadLetterView]{Items: []schemas.DeadLetterView{{Seq: 1, Kind: schemas.KindHTTP, Code: schemas.Poison}}, Next: "1"},
		"resolve.request.json":  map[string]any{"effect": "applied", "note": nil},
		"redrive.request.json":  map[string]any{"sequence": uint64(1) << 63},
		"readiness.json":        schemas.Readiness{Durability: schemas.DurabilityProcess, Checks: map[string]string{}},
		"sandbox.json":          schemas.Sandbox{AllowedHosts: []string{}},
		"action.status.json":    actions.Status{ID: "a", Status: "canceled"},
		"event.json":            schemas.EventView{Type: schemas.EventSettled, Settled: &schemas.EventViewSettled{Outcome: schemas.OutcomeFailed, Code: schemas.HTTPFailure}},
		"event.page.json":       schemas.Page[schemas.EventView]{Items: []schemas.EventView{{Type: schemas.EventAttempt, Attempt: &schemas.EventViewAttempt{}}}},
	} {
		doc, err := json.Marshal(v)
		require.NoError(t, err)
		require.Empty(t, compiled(t, file).Validate(doc), "%s: %s", file, doc)
	}
}
