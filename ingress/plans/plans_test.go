package plans_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress/plans"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/fixture"
	"weir/schemas"
)

const fixtures = "../../schemas/plans/testdata"

// outcome is what a fixture expects: a plan, or a refusal.
type outcome struct {
	Plan    *schemas.PlanRequest `json:"plan,omitempty"`
	Code    schemas.Code         `json:"code,omitempty"`
	Message string               `json:"message,omitempty"`
}

func translate(t *testing.T, body []byte) outcome {
	t.Helper()
	require.NoError(t, strict.Check(body, strict.Limits{}))
	req, err := plans.Translate(body)
	if err != nil {
		var e *fault.Error
		require.ErrorAs(t, err, &e)
		require.Zero(t, req, "nothing comes with a refusal")
		return outcome{Code: e.Code, Message: e.Message}
	}
	return outcome{Plan: &req}
}

func TestFixtures(t *testing.T) {
	t.Parallel()
	set := fixture.Set{Dir: fixtures, Valid: "action.json", Invalid: "error.json"}
	set.Run(t, func(t *testing.T, _ string, body []byte) (any, bool) {
		t.Helper()
		got := translate(t, body)
		return got, got.Plan != nil
	})
}

func FuzzTranslate(f *testing.F) {
	fixture.Seed(f, fixtures)
	f.Fuzz(func(t *testing.T, body []byte) {
		if strict.Check(body, strict.Limits{}) != nil {
			return
		}
		req, err := plans.Translate(body)
		if err != nil {
			var e *fault.Error
			if !errors.As(err, &e) || (e.Code != schemas.ValidationError && e.Code != schemas.InvalidRequest) {
				t.Fatalf("not a refusal: %v", err)
			}
			return
		}
		for _, d := range req.Plan.Decisions {
			if d.EffectRef == "" || strict.Kind(d.TargetState) != '{' {
				t.Fatal("a decision that cannot be performed or reported")
			}
		}
		if _, err := ledger.Encode(req); err != nil {
			t.Fatalf("a plan that cannot be stored: %v", err)
		}
	})
}
