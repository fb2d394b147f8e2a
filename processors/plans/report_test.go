package plans_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/processors/plans"
	"weir/schemas"
)

func report(t *testing.T, planID *string, snapshot string, steps ...plans.Step) (schemas.PlanResult, string) {
	t.Helper()
	r := plans.Report(planID, json.RawMessage(snapshot), steps)
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(r))
	return r, strings.TrimSpace(b.String())
}

func step(t *testing.T, ref, target string) plans.Step {
	t.Helper()
	_, view := translate(t, target)
	return plans.Step{EffectRef: ref, View: view, Hash: "ab", Snippet: "{\"ok\": true}"}
}

func TestReportOfNothing(t *testing.T) {
	t.Parallel()
	_, got := report(t, nil, `{}`)
	require.JSONEq(t, `{
		"artifact:execution.report": {"report_id":null,"artifact_refs":{},"status":"succeeded","policy_decisions":[],"errors":[],
			"artifacts":{"HttpConnectorAgent":{"snapshot_id":null,"requests":{}}},
			"execution_hash":"cac1ed95cbd89ef597bf001621b0bd5f811fd02c34574e545cb48762c8de69fa"},
		"state:act.result": {"artifact_refs":{},"status":"succeeded"}}`, got)
	require.NotContains(t, got, `"errors":null`)
}

func TestReport(t *testing.T) {
	t.Parallel()
	id := "plan-1"
	applied := step(t, "res:a", `{"url":"http://h/a/b","params":{"q":1},"allowlist_key":"k"}`)
	applied.IdempotencyKey = "d-1"
	failed := plans.Step{EffectRef: "res:b", Message: "unknown allowlist key 'x'"}
	_, got := report(t, &id, `{"snapshot_id":"snap-1","other":1}`, applied, failed)
	refs := `{"res:a":{"status":"applied","url":"http://h/a/b?q=1","method":"GET","fingerprint":"GET http://h/a/b?q","response_snippet":"{\"ok\": true}","response_hash":"ab"},
		"res:b":{"status":"failed","error":"unknown allowlist key 'x'"}}`
	var whole struct {
		Report struct {
			Hash string `json:"execution_hash"`
		} `json:"artifact:execution.report"`
	}
	require.NoError(t, json.Unmarshal([]byte(got), &whole))
	require.JSONEq(t, `{
		"artifact:execution.report": {"report_id":"plan-1","artifact_refs":`+refs+`,"status":"partial",
			"policy_decisions":[{"effect_ref":"res:a","allowed":true,"reason":"allowlist","idempotency_key":"d-1"},
				{"effect_ref":"res:b","allowed":false,"reason":"unknown allowlist key 'x'","idempotency_key":""}],
			"errors":["unknown allowlist key 'x'"],
			"artifacts":{"HttpConnectorAgent":{"snapshot_id":"snap-1","requests":`+refs+`}},
			"execution_hash":"`+whole.Report.Hash+`"},
		"state:act.result": {"artifact_refs":`+refs+`,"status":"partial"}}`, got)
	for range 20 {
		_, again := report(t, &id, `{"snapshot_id":"snap-1","other":1}`, applied, failed)
		require.Equal(t, got, again, "the same steps give the same bytes")
	}
}

func TestReportStatus(t *testing.T) {
	t.Parallel()
	ok := step(t, "a", `{"url":"http://h/","allowlist_key":"k"}`)
	bad := plans.Step{EffectRef: "b", Message: "m"}
	tests := []struct {
		steps  []plans.Step
		want   string
		errors []string
	}{
		{[]plans.Step{ok}, "succeeded", []string{}},
		{[]plans.Step{bad}, "failed", []string{"m"}},
		{[]plans.Step{ok, bad}, "partial", []string{"m"}},
		{[]plans.Step{bad, ok}, "partial", []string{"m"}},
	}
	for _, tt := range tests {
		r, _ := report(t, nil, `{}`, tt.steps...)
		require.Equal(t, tt.want, r.Report.Status)
		require.Equal(t, tt.want, r.ActResult.Status)
		require.Equal(t, tt.errors, r.Report.Errors)
		require.Len(t, r.Report.PolicyDecisions, len(tt.steps))
	}
	last := step(t, "a", `{"url":"http://h/2","allowlist_key":"k"}`)
	r, _ := report(t, nil, `{}`, plans.Step{EffectRef: "a", Message: "m"}, ok, last)
	require.Len(t, r.Report.ArtifactRefs, 1, "of an effect that is there twice the last counts")
	require.Equal(t, "http://h/2", *r.Report.ArtifactRefs["a"].URL)
}

func TestSnapshotIDIsKeptAsItCame(t *testing.T) {
	t.Parallel()
	for snapshot, want := range map[string]string{
		`{"snapshot_id":"s"}`: `"s"`, `{"snapshot_id":12345678901234567890}`: `12345678901234567890`,
		`{"snapshot_id":null}`: `null`, `{}`: `null`, ``: `null`, `{"Snapshot_ID":"s"}`: `null`,
	} {
		r, _ := report(t, nil, snapshot)
		require.Equal(t, want, string(r.Report.Artifacts[schemas.ConnectorAgent].SnapshotID), snapshot)
	}
}

// The hashes are SHA-256 of what Python's json.dumps writes for the same
// documents with sorted keys, separators "," and ":" and ensure_ascii off.
func TestExecutionHash(t *testing.T) {
	t.Parallel()
	bad := plans.Step{EffectRef: "a", Message: "unknown allowlist key 'x'"}
	r, _ := report(t, nil, `{}`, bad)
	require.Equal(t, "3de73cbfbe4d8d69ff06a63ec322593bb8285e628648305711081e49d2971b3a", r.Report.ExecutionHash)

	odd := plans.Step{EffectRef: "res:b", Hash: "ab", Snippet: "  <é>\r\nline\u2028\x01\x7f\"\\\t\b\f\x1c "}
	odd.View.URL, odd.View.Method, odd.View.Fingerprint = "http://h/a/b?q=1&x=%20", "GET", "GET http://h/a/b?q,x"
	bad.EffectRef, bad.IdempotencyKey = " res:é", "k-1"
	r, _ = report(t, nil, `{}`, odd, bad)
	require.Equal(t, "b1d22f9951a61f9979a8ff03cb1ed5345f028471f77af989fd09498c4d2d2beb", r.Report.ExecutionHash)

	// White space at the ends and line ends do not count, all else does.
	same := odd
	same.Snippet = "<é>\nline\u2028\x01\x7f\"\\\t\b"
	again, _ := report(t, nil, `{}`, same, bad)
	require.Equal(t, r.Report.ExecutionHash, again.Report.ExecutionHash)
	same.Snippet = "<é>\rline\u2028\x01\x7f\"\\\t\b\r"
	again, _ = report(t, nil, `{}`, same, bad)
	require.Equal(t, r.Report.ExecutionHash, again.Report.ExecutionHash)
	same.Snippet += "x"
	again, _ = report(t, nil, `{}`, same, bad)
	require.NotEqual(t, r.Report.ExecutionHash, again.Report.ExecutionHash)
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	_, view := translate(t, `{"url":"http://h/a?x=1","allowlist_key":"k","method":"post","idempotency_key":"t-1"}`)
	require.Equal(t, //nolint:testifylint // the text itself: its order, and < as it is
		`{"effect_ref":"res:<a>","method":"POST","url":"http://h/a?x=1","status":404,"request_fingerprint":"POST http://h/a?x","response_hash":"","response_snippet":"<p>","allowlist":"svc","idempotency_key":"t-1"}`,
		string(plans.CallRecord("res:<a>", view, 404, "", "<p>", "svc")))
	r, _ := report(t, nil, `{}`, plans.Step{EffectRef: "a", Message: "m"})
	require.Equal(t, `{"artifact_refs":{"a":{"status":"failed","error":"m"}},"status":"failed"}`, string(plans.ClosingRecord(r))) //nolint:testifylint // the text itself
}
