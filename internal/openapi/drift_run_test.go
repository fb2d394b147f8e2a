package openapi_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress/runs"
	"weir/schemas"
)

func TestRunsFitTheirSchemas(t *testing.T) {
	t.Parallel()
	response, event := compiled(t, "run.response.json"), compiled(t, "run.event.json")
	stream := runs.Stream{Ref: schemas.Ref{ID: "r1"}, TaskType: "T"}
	docs := []string{
		"", `{"outputs":{"a":1},"artifacts":["x"],"provenance":{},"usage":{"duration_ms":1},"grounding":[],"warnings":["w"]}`,
		`{"error":{"code":"OWN","message":"m","details":{"a":null}}}`, `{"outputs":null,"error":null}`,
	}
	for _, outcome := range schemas.Outcomes() {
		for _, doc := range docs {
			end := &schemas.Settled{Outcome: outcome, Code: schemas.TaskFailed}
			body, err := runs.Render(stream.Ref, end, json.RawMessage(doc))
			require.NoError(t, err)
			require.Empty(t, response.Validate(body), "%s", body)
			last := stream.Event(schemas.Event{Type: schemas.EventSettled, Settled: end}, json.RawMessage(doc))
			require.Empty(t, event.Validate(last.Data), "%s", last.Data)
		}
	}
	for _, ev := range []schemas.Event{
		{Type: schemas.EventAccepted}, {Type: schemas.EventProgress, Data: json.RawMessage(`{"name":"progress","data":{"step":1,"type":"halfway"}}`)},
	} {
		e := stream.Event(ev, nil)
		require.Empty(t, event.Validate(e.Data), "%s", e.Data)
	}
	require.NotEmpty(t, response.Validate(json.RawMessage(`{"status":"success","request_id":"r1","outputs":{}}`)))
	require.NotEmpty(t, event.Validate(json.RawMessage(`{"type":"final","request_id":"r1"}`)))
}

func TestRefusalsOfRunsFitTheirSchema(t *testing.T) {
	t.Parallel()
	s := compiled(t, "run.refusal.json")
	for _, code := range schemas.DoorCodes() {
		doc, err := json.Marshal(schemas.RunRefusal{
			Status: schemas.RunFault, Outputs: json.RawMessage(`{}`), Warnings: []string{},
			Error: schemas.RunError{Code: string(code), Message: "m"}, Code: code,
		})
		require.NoError(t, err)
		require.Empty(t, s.Validate(doc), "%s", doc)
	}
	require.NotEmpty(t, s.Validate(json.RawMessage(`{"ok":false,"status":"ok","outputs":{},"warnings":[],"error":{"code":"X","message":"m"},"code":"CONFLICT","retryable":false}`)))
}

func TestWhatGoesOnToAnAgentFitsTheRequest(t *testing.T) {
	t.Parallel()
	n := int64(1)
	doc, err := json.Marshal(schemas.RunRequest{RequestID: "r1", RunOrder: schemas.RunOrder{
		TaskType: "T", RiskTier: schemas.RiskPHI, Inputs: json.RawMessage(`{}`), Budgets: &schemas.RunBudgets{TimeoutMS: &n},
	}})
	require.NoError(t, err)
	s := compiled(t, "run.request.json")
	require.Empty(t, s.Validate(doc), "%s", doc)
	require.NotEmpty(t, s.Validate(json.RawMessage(`{"request_id":"r1","task_type":"T","risk_tier":"NONE"}`)))
	require.NotEmpty(t, s.Validate(json.RawMessage(`{"request_id":"r1","task_type":"T","budgets":{"max_time_ms":0}}`)))
	require.Empty(t, s.Validate(json.RawMessage(`{"request_id":"r1","task_type":"T","trace_id":"t","budgets":{"max_time_ms":300000,"max_tokens":100000}}`)))
}
