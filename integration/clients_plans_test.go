//go:build e2e

package integration_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// controllerPlan is a plan with every member that controllers are known to send.
const controllerPlan = `{
  "request_id": "controller-1",
  "state:env.snapshot": {"snapshot_id": "snap-1", "environment": "prod", "timestamp": "2025-01-01T00:00:00Z",
    "data_payload": {"orders": [{"id": 1, "total": 1.50}]}, "constraints": []},
  "artifact:proposed.plan": {
    "plan_id": "plan-1",
    "intent_id": "TM-INT-0001",
    "summary": "Create one order.\r\nThen read it.",
    "llm_metadata": {"model": "m", "prompt_hash": "ab", "determinism_hint": "temperature=0", "usage": {"tokens": 12}},
    "policy_requirements": [{"effect": "resource:orders/1", "needs": "approval"}],
    "decisions": [
      {"effect_ref": "orders/1", "idempotency_key": "d-1", "reasoning_trace": "LEFT-OUT: the order is missing",
       "confidence": 0.9, "policy_requirements": ["http"],
       "target_state": {"method": "post", "url": "$UPSTREAM/orders?source=a+b", "params": {"dry": false}, "body": {"n": 1.50},
         "headers": {"X-Trace": "t-1"}, "allowlist_key": "up", "idempotency_key": "k-1",
         "rollback": {"url": "http://169.254.169.254/"}, "URL": "http://169.254.169.254/", "note": null}},
      {"effect_ref": "orders/2", "target_state": {"url": "$UPSTREAM/orders/2", "allowlist_key": "up"}, "reasoning_trace": ["a", {"b": 1}]}
    ]
  }
}`

// TestControllersPlans sends plans as controllers do, and reads the answers as they do.
func TestControllersPlans(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- r.Method + " " + r.URL.RequestURI() + " key=" + r.Header.Get("Idempotency-Key") + " " + string(body)
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	t.Cleanup(up.Close)
	w := serve(t, t.TempDir(), "--durability", "process", "--config", policyFile(t, up.URL))
	plan := strings.ReplaceAll(controllerPlan, "$UPSTREAM", up.URL)

	resp, first := w.request(t, http.MethodPost, "/v1/plans", plan)
	require.Equal(t, http.StatusOK, resp.StatusCode, first)
	report := decode[schemas.PlanResult](t, first).Report
	require.Equal(t, "plan-1", *report.ReportID)
	require.Equal(t, "succeeded", report.Status)
	require.Empty(t, report.Errors)
	require.Equal(t, up.URL+"/orders?source=a+b&dry=False", *report.ArtifactRefs["orders/1"].URL)
	require.Equal(t, "d-1", report.PolicyDecisions[0].IdempotencyKey)
	require.JSONEq(t, `"snap-1"`, string(report.Artifacts[schemas.ConnectorAgent].SnapshotID))
	require.Equal(t, `POST /orders?source=a+b&dry=False key=k-1 {"n":1.50}`, <-seen)
	require.Equal(t, "GET /orders/2 key= ", <-seen)

	_, again := w.request(t, http.MethodPost, "/v1/plans", strings.Replace(plan, "TM-INT-0001", "TM-INT-0002", 1))
	require.Equal(t, first, again, "what is left out does not make another plan")
	require.Empty(t, seen)
	_, payload := w.request(t, http.MethodGet, "/v1/actions/controller-1/payload", "")
	require.NotContains(t, payload+w.Said(), "LEFT-OUT")

	for name, tt := range map[string]struct {
		old, with string
		status    int
		text      string
	}{
		"an unknown member of the body": {`"request_id": "controller-1"`, `"dry_run": true`, http.StatusUnprocessableEntity, "at /dry_run: this member is not known here"},
		"a name twice in the plan":      {`"intent_id": "TM-INT-0001"`, `"x": 1, "x": 2`, http.StatusBadRequest, "at /artifact:proposed.plan/x: the name stands twice"},
		"a name twice in an open member": {
			`"usage": {"tokens": 12}`, `"usage": {"tokens": 12, "tokens": 13}`, http.StatusBadRequest, "llm_metadata/usage/tokens: the name stands twice",
		},
		"an open member nested too deep": {`"confidence": 0.9`, `"confidence": ` + strings.Repeat("[", 80) + strings.Repeat("]", 80), http.StatusBadRequest, "nested deeper than 64 levels"},
		"another spelling of plan_id":    {`"plan_id"`, `"Plan_ID"`, http.StatusUnprocessableEntity, "names are case-sensitive; this one is 'plan_id'"},
		"decisions that are no list":     {`"decisions": [`, `"decisions": "none", "others": [`, http.StatusUnprocessableEntity, "plan.decisions must be a non-string sequence"},
		"an effect_ref that is empty":    {`"effect_ref": "orders/2"`, `"effect_ref": ""`, http.StatusUnprocessableEntity, "decision.effect_ref must be a non-empty string"},
		"no snapshot":                    {`"state:env.snapshot"`, `"snapshot"`, http.StatusUnprocessableEntity, "at /snapshot: this member is not known here"},
	} {
		bad := strings.Replace(plan, tt.old, tt.with, 1)
		require.NotEqual(t, plan, bad, name)
		resp, body := w.request(t, http.MethodPost, "/v1/plans", bad)
		assert.Equal(t, tt.status, resp.StatusCode, name)
		assert.Contains(t, decode[schemas.Problem](t, body).Detail, tt.text, name)
	}
	require.Empty(t, seen, "what is refused sends nothing")
}
