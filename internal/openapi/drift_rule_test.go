package openapi_test

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

	"weir/egress/rules"
	ingress "weir/ingress/rules"
	"weir/internal/fault"
	"weir/internal/problem"
	snapshots "weir/internal/rules"
	"weir/internal/traffic"
	"weir/schemas"
)

// fixtures are the rules that are accepted.
func fixtures(t *testing.T) []schemas.Rule {
	t.Helper()
	files, err := filepath.Glob("../../schemas/rules/testdata/valid/*.txtar")
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
		doc, err := json.Marshal(r)
		require.NoError(t, err)
		require.Empty(t, rule.Validate(doc), "%s", doc)
	}
	list, err := rules.Page(nil, now)
	require.NoError(t, err)
	doc, err := json.Marshal(list)
	require.NoError(t, err)
	require.Empty(t, page.Validate(doc), "%s", doc)
	recording, err := json.Marshal(schemas.Recording{Rules: list.Items, Skipped: []schemas.Unrecorded{{Step: 1, Reason: "r"}, {Step: 2, Reason: "r", Rule: "rec-1"}}})
	require.NoError(t, err)
	require.Empty(t, compiled(t, "rule.recording.json").Validate(recording))
	for _, op := range schemas.AgentReads() {
		data, err := rules.Read(schemas.AgentRequest{Operation: op, Args: json.RawMessage(`{"id":"` + list.Items[0].ID + `"}`)}, func() (snapshots.Snapshot, error) { return now, nil })
		require.NoError(t, err)
		body, err := rules.Answer(rules.Asked{RequestID: "r", Operation: op}, data)
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
			_, body, err := rules.Render(rules.Asked{}, &schemas.Settled{Outcome: outcome}, doc)
			require.NoError(t, err)
			require.Empty(t, answer.Validate(body), "%s", body)
		}
	}
	for _, code := range append(schemas.DoorCodes(), schemas.SettleCodes()...) {
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

func TestPreviewsFitTheirSchema(t *testing.T) {
	t.Parallel()
	s := compiled(t, "rule.preview.json")
	for _, p := range []schemas.Preview{
		{Result: schemas.PreviewSent, Rules: []schemas.RuleVerdict{}, Decision: schemas.Decision{Allowed: true, Traffic: &schemas.Traffic{RulesEtag: "e"}}},
		{
			Result: schemas.PreviewMocked, Mock: &schemas.PreviewAnswer{Status: 200, Body: json.RawMessage(`"x"`)},
			Rules: []schemas.RuleVerdict{{ID: "a", Type: schemas.RuleMock, Applies: true}}, ResponseHeaders: []schemas.HeaderChange{{Op: schemas.HeaderRemove, Name: "x"}},
		},
	} {
		doc, err := json.Marshal(p)
		require.NoError(t, err)
		require.Empty(t, s.Validate(doc), "%s", doc)
	}
	audit, err := json.Marshal(schemas.RuleAudit{Result: "ok"})
	require.NoError(t, err)
	require.Empty(t, compiled(t, "rule.audit.json").Validate(audit))
}
