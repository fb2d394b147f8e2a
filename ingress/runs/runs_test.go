package runs_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress/runs"
	"weir/ingress/strict"
	"weir/internal/jsonschema"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/problem"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/permit"
	"weir/schemas"
)

const fixtures = "../../schemas/runs/testdata"

// granted is a policy of two grants: the host localhost, and the key orders.
func granted(tb testing.TB) permit.Policy {
	tb.Helper()
	return permit.Compile(tb, policy.Config{AllowedHosts: []string{"localhost"}, Entries: []policy.Entry{{
		Name: "orders", URLPrefix: "http://localhost/", Network: policy.NetworkLoopback, Methods: []string{"POST"},
	}}})
}

// outcome is what a fixture expects: a run, or a refusal.
type outcome struct {
	ID        string          `json:"id,omitempty"`
	Timeout   string          `json:"timeout,omitempty"`
	Sensitive bool            `json:"sensitive,omitempty"`
	Denied    bool            `json:"denied,omitempty"`
	Run       *schemas.Run    `json:"run,omitempty"`
	Code      schemas.Code    `json:"code,omitempty"`
	Message   string          `json:"message,omitempty"`
	Details   json.RawMessage `json:"details,omitempty"`
}

// translate takes a body the way the door takes it.
func translate(tb testing.TB, body []byte) outcome {
	tb.Helper()
	req, err := runs.Read(body, schemas.MaxRunTimeout)
	if err == nil && !runs.Builtin(req.Order.TaskType) && req.Order.TaskType != "LIT_RETRIEVAL" {
		err = runs.Unsupported()
	}
	var run runs.Run
	if err == nil {
		run, err = runs.Translate(req.Order, granted(tb), new(jsonschema.Cache))
	}
	if err != nil {
		p := problem.Of(err)
		require.NotEqual(tb, schemas.Internal, p.Code, "%v", err)
		return outcome{ID: req.ID, Code: p.Code, Message: p.Detail, Details: p.Details}
	}
	out := outcome{ID: req.ID, Sensitive: run.Sensitive(), Denied: run.Denied, Run: &run.Run}
	if d := run.Timeout(); d > 0 {
		out.Timeout = d.String()
	}
	return out
}

func TestFixtures(t *testing.T) {
	t.Parallel()
	set := fixture.Set{Dir: fixtures, Valid: "action.json", Invalid: "error.json"}
	set.Run(t, func(t *testing.T, _ string, body []byte) (any, bool) {
		t.Helper()
		require.NoError(t, strict.Check(body, strict.Limits{}))
		got := translate(t, body)
		return got, got.Run != nil
	})
}

func TestUnreadableInputsOfATranslatedRunAreRefused(t *testing.T) {
	t.Parallel()
	_, err := runs.Translate(schemas.RunOrder{TaskType: schemas.TaskEcho, Inputs: json.RawMessage(`{"steps":`)}, granted(t), new(jsonschema.Cache))
	require.ErrorContains(t, err, "inputs")
}

// FuzzRead holds what is stored for a body that is accepted against the body.
func FuzzRead(f *testing.F) {
	fixture.Seed(f, fixtures)
	f.Fuzz(func(t *testing.T, body []byte) {
		if strict.Check(body, strict.Limits{}) != nil {
			return
		}
		got := translate(t, body)
		require.True(t, got.ID == "" || schemas.ValidID(got.ID))
		if got.Run == nil {
			require.Contains(t, []schemas.Code{schemas.ValidationError, schemas.InvalidRequest, schemas.UnsupportedTaskType}, got.Code)
			return
		}
		require.True(t, schemas.ValidID(got.ID))
		require.True(t, schemas.ValidTaskType(got.Run.TaskType))
		require.Equal(t, got.Run.RiskTier != schemas.RiskNonSensitive, got.Sensitive)
		data, err := ledger.Encode(schemas.RunRequest{RequestID: got.ID, RunOrder: got.Run.RunOrder})
		require.NoError(t, err)
		again, err := runs.Read(data, schemas.MaxRunTimeout)
		require.NoError(t, err, "what goes on to an agent could be asked for again: %s", data)
		require.Equal(t, got.Run.RunOrder, again.Order)
	})
}
