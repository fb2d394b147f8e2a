package processors_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/schemas"
)

// TestCostOfAnAction: what one call of a pipeline allocates between the log and its
// target, both in memory. The broker's tests count what an append costs.
func TestCostOfAnAction(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	h := newHouse()
	p, l := h.worker(t, "w"), ledger.New(h.log, layout, time.Now)
	payload, err := ledger.Encode(schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"})
	require.NoError(t, err)
	records := make([]schemas.Record, 0, 201)
	for i := range cap(records) {
		ref := schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: strconv.Itoa(i)}
		_, _, err := l.Claim(t.Context(), schemas.Action{
			ID: ref.ID, Tenant: ref.Tenant, Kind: ref.Kind, Fingerprint: "f",
			AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(time.Hour).UTC(), Payload: payload,
		})
		require.NoError(t, err)
		rec, err := h.log.Last(t.Context(), schemas.LogStream(0), layout.Subject(ref, schemas.TailAccepted))
		require.NoError(t, err)
		records = append(records, rec)
	}
	i := -1
	cost := testing.AllocsPerRun(len(records)-1, func() {
		i++
		if err := p.Handle(t.Context(), records[i], true); err != nil {
			t.Error(err)
		}
	})
	require.Equal(t, len(records), h.sent)
	t.Log(cost, "allocations")
	require.LessOrEqual(t, cost, 200.0)
}
