package egress_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress"
	"weir/egress/executor"
	"weir/egress/plans"
	"weir/egress/runs"
	"weir/internal/redact"
	"weir/schemas"
)

// TestPayloadsHideCredentials: a worker needs them, and no reader does.
func TestPayloadsHideCredentials(t *testing.T) {
	t.Parallel()
	shown := map[schemas.Kind]func(*redact.Redactor, json.RawMessage) (json.RawMessage, error){}
	for _, s := range []egress.Surface{executor.Surface(), plans.Surface(), runs.Surface()} {
		shown[s.Views[0].Kind] = s.Views[0].Payload
	}
	const (
		call = `{"method":"POST","url":"http://h/?token=t","headers":[{"name":"Accept","value":"a"},{"name":"authorization","value":"Bearer x"},{"name":"X-Mine","value":"x"}],"body":{"token":"t","n":1.50}}`
		seen = `{"method":"POST","url":"http://h/?token=t","headers":[{"name":"Accept","value":"a"},{"name":"authorization","value":"REDACTED"},{"name":"X-Mine","value":"REDACTED"}],"body":{"token":"t","n":1.50}}`
		plan = `{"state:env.snapshot":{"snapshot_id":"s","password":"x"},"artifact:proposed.plan":{"plan_id":"p","decisions":[{"effect_ref":"e","target_state":{"url":"u","headers":{"Cookie":"x","A":1},"body":{"token":"t"},"params":{"token":"t"},"auth":{"token":"x"}},"idempotency_key":"d"}]}}`
		said = `{"state:env.snapshot":{"snapshot_id":"s","password":"REDACTED"},"artifact:proposed.plan":{"plan_id":"p","decisions":[{"effect_ref":"e","target_state":{"url":"u","headers":{"Cookie":"REDACTED","A":1},"body":{"token":"t"},"params":{"token":"t"},"auth":{"token":"REDACTED"}},"idempotency_key":"d"}]}}`
	)
	for _, tt := range []struct {
		kind          schemas.Kind
		payload, want string
	}{
		{schemas.KindHTTP, call, seen},
		{schemas.KindPlan, plan, said},
		{schemas.KindRun, `{"task_type":"HTTP_EXECUTE","call":` + call + `}`, `"call":` + seen},
		{schemas.KindRun, `{"task_type":"HTTP_PLAN","plan":` + plan + `}`, `"plan":` + said},
	} {
		got, err := shown[tt.kind](redact.New([]string{"X-Mine"}), json.RawMessage(tt.payload))
		require.NoError(t, err)
		require.Contains(t, string(got), tt.want, "order and numbers are kept")
	}
}
