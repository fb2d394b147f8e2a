package published_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/executor"
	"weir/egress/rules"
	"weir/egress/runs"
	ingress "weir/ingress/rules"
	"weir/internal/fault"
	"weir/internal/jsonschema"
	"weir/internal/postcondition"
	"weir/internal/problem"
	snapshots "weir/internal/rules"
	"weir/internal/traffic"
	"weir/processors/plans"
	"weir/schemas"
	published "weir/schemas/json"
)

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
			fits(t, s, plans.Report(planID, json.RawMessage(`{"snapshot_id":1}`), steps))
		}
	}
}

// fixtures are the rules that are accepted.
func fixtures(t *testing.T) []schemas.Rule {
	t.Helper()
	files, err := filepath.Glob("../rules/testdata/valid/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all []schemas.Rule
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, rest, ok := strings.Cut(string(text), "-- request.json --\n")
		require.True(t, ok, file)
		raw, _, _ := strings.Cut(rest, "\n-- ")
		r, err := traffic.Read(json.RawMessage(raw), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
		require.NoError(t, err, file)
		all = append(all, r)
	}
	return all
}

func TestRulesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	rule, page, answer := compiled(t, "rule.json"), compiled(t, "rule.page.json"), compiled(t, "agent.response.json")
	now := snapshots.Snapshot{Etag: "etag-1-00", Doc: schemas.RuleSet{Rules: fixtures(t)}}
	for _, r := range now.Doc.Rules {
		fits(t, rule, r)
	}
	list, err := rules.Page(nil, now)
	require.NoError(t, err)
	fits(t, page, list)
	skipped := []schemas.Unrecorded{{Step: 1, Reason: "r"}, {Step: 2, Reason: "r", Rule: "rec-1"}}
	fits(t, compiled(t, "rule.recording.json"), schemas.Recording{Rules: list.Items, Skipped: skipped})
	for _, op := range schemas.AgentReads() {
		data, err := rules.Read(schemas.AgentRequest{Operation: op, Args: json.RawMessage(`{"id":"` + list.Items[0].ID + `"}`)}, func() (snapshots.Snapshot, error) { return now, nil })
		require.NoError(t, err)
		body, err := rules.Answer(rules.Request{RequestID: "r", Operation: op}, data)
		require.NoError(t, err)
		require.Empty(t, answer.Validate(body), "%s", body)
	}
	require.NotEmpty(t, rule.Validate(json.RawMessage(`{"id":"a","group":"g","type":"block","enabled":true,"priority":0,"match":{"url_pattern":"*","method":"ANY","include_query":false},"action":{}}`)))
}

func TestEndsOfWritesFitTheirSchema(t *testing.T) {
	t.Parallel()
	answer := compiled(t, "agent.response.json")
	made := fixtures(t)[0]
	for _, outcome := range schemas.Outcomes() {
		for _, res := range []*schemas.RuleResult{
			nil, {Rule: &made, RulesEtag: "e"}, {Operation: "x", RequestID: "r", Error: &schemas.AgentError{Code: schemas.EtagMismatch, Message: "m"}},
		} {
			var doc []byte
			if res != nil {
				var err error
				doc, err = json.Marshal(res)
				require.NoError(t, err)
			}
			_, body, err := rules.Render(rules.Request{}, &schemas.Settled{Outcome: outcome}, doc)
			require.NoError(t, err)
			require.Empty(t, answer.Validate(body), "%s", body)
		}
	}
	for _, code := range append(schemas.IngressCodes(), schemas.SettleCodes()...) {
		w := httptest.NewRecorder()
		problem.WriteAgent(w, httptest.NewRequest(http.MethodPost, "/", http.NoBody), fault.New(code, "m"))
		require.Empty(t, answer.Validate(w.Body.Bytes()), "%s", w.Body)
	}
	require.NotEmpty(t, answer.Validate(json.RawMessage(`{"ok":false,"request_id":"r","operation":"x","error":{"code":"OOPS","message":"m"}}`)))
}

// TestAcceptedAgentRequestsFitTheirSchema: unknown members are ignored.
func TestAcceptedAgentRequestsFitTheirSchema(t *testing.T) {
	t.Parallel()
	s := compiled(t, "agent.request.json")
	for _, body := range []string{
		`{"type":"AGENT_API_REQUEST","request":{"request_id":"r","operation":"rules.list","args":{"group":"g","more":1},"more":[]},"more":{}}`,
		`{"request_id":"any text\u00fc","operation":"ping","args":null,"auth_token":null}`, `{"type":null,"request":{"request_id":"r","operation":"x"}}`,
	} {
		_, err := ingress.Read([]byte(body))
		require.NoError(t, err, body)
		require.Empty(t, s.Validate(json.RawMessage(body)), body)
	}
	for _, body := range []string{`{}`, `[]`, `{"request":{}}`, `{"type":"OTHER","request":{"request_id":"r","operation":"x"}}`, `{"request_id":"","operation":"x"}`, `{"request_id":"r","operation":"x","args":[]}`} {
		_, err := ingress.Read([]byte(body))
		require.Error(t, err, body)
		require.NotEmpty(t, s.Validate(json.RawMessage(body)), body)
	}
	preview := compiled(t, "rule.preview.request.json")
	for _, body := range []string{`{"url":"http://h/","rule":null,"scope":null}`, `{"method":"GET","url":"http://h/","scope":{"action_kind":"run","agent":"A"}}`} {
		_, _, err := ingress.ReadPreview([]byte(body), time.Now())
		require.NoError(t, err)
		require.Empty(t, preview.Validate(json.RawMessage(body)), body)
	}
	record := compiled(t, "rule.record.request.json")
	for _, body := range []string{`{"action_id":"a"}`, `{"action_id":"a","group":null,"scope":{"request_id":"r"},"expires_at":"2999-01-01T00:00:00Z"}`} {
		_, err := ingress.ReadRecord([]byte(body), time.Now())
		require.NoError(t, err)
		require.Empty(t, record.Validate(json.RawMessage(body)), body)
	}
}

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
			_, body, err := runs.Render(stream.Ref, end, json.RawMessage(doc))
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

// fits holds what is written of v against a schema.
func fits(t *testing.T, s *jsonschema.Schema, v any) {
	t.Helper()
	doc, err := json.Marshal(v)
	require.NoError(t, err)
	require.Empty(t, s.Validate(doc), "%s", doc)
}

// TestEveryCodeIsAProblem that the schema knows. The page of codes has the status of each.
func TestEveryCodeIsAProblem(t *testing.T) {
	t.Parallel()
	s := compiled(t, "problem.json")
	for _, code := range append(schemas.IngressCodes(), schemas.SettleCodes()...) {
		w := httptest.NewRecorder()
		problem.Write(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody), fault.New(code, "m"))
		require.Empty(t, s.Validate(w.Body.Bytes()), "%s", w.Body)
	}
}
