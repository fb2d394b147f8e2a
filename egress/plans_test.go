package egress_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress/plans"
	"weir/internal/problem"
	"weir/schemas"
)

var aPlan = schemas.Ref{Tenant: "acme", Kind: schemas.KindPlan, ID: "p-1"}

func TestAReportIsGivenAsItIsStored(t *testing.T) {
	t.Parallel()
	doc := `{"z":1,"artifact:execution.report":{"n":1.10000000000000000001},"a":"<&>"}`
	for _, o := range schemas.Outcomes() {
		_, body, err := plans.Render(aPlan, &schemas.Settled{Outcome: o}, json.RawMessage(doc))
		require.NoError(t, err)
		require.Equal(t, doc, string(body))
	}
}

func TestAPlanWithoutAReportIsAProblem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		settled schemas.Settled
		status  int
		code    schemas.Code
	}{
		{schemas.Settled{Outcome: schemas.OutcomeCanceled}, 409, schemas.Canceled},
		{schemas.Settled{Outcome: schemas.OutcomeExpired}, 504, schemas.DeadlineExceeded},
		{schemas.Settled{Outcome: schemas.OutcomeUnknown, Code: schemas.Interrupted}, 424, schemas.OutcomeUnknownCode},
		{schemas.Settled{Outcome: schemas.OutcomeDenied, Code: schemas.DenyKilled, Message: "killed"}, 403, schemas.DenyKilled},
		{schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.Poison}, 500, schemas.Poison},
		{schemas.Settled{Outcome: schemas.OutcomeFailed}, 500, schemas.Internal},
	} {
		_, _, err := plans.Render(aPlan, &tc.settled, nil)
		p := problem.Of(err)
		require.Equal(t, tc.status, p.Status)
		require.Equal(t, tc.code, p.Code)
		require.NotEmpty(t, p.Detail)
		require.False(t, p.Retryable)
	}
}
