package processors_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/processors/settle"
	"weir/schemas"
)

// TestEvidenceThatAPowerCutTook is left again when the message comes again that was not
// acknowledged before the end was durable. Nothing is sent for it.
func TestEvidenceThatAPowerCutTook(t *testing.T) {
	t.Parallel()
	h := newHouse()
	rec := h.accept(t, schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"})
	require.NoError(t, h.worker(t, "w1").Handle(t.Context(), rec, true))
	id := settle.AttemptID("a", schemas.Attempt{Number: 1})
	require.Equal(t, map[string]int{id: 1}, h.evidence(t))

	h.log.Purge(schemas.EvidenceStream, math.MaxUint64)
	require.Empty(t, h.evidence(t))
	for range 2 {
		require.NoError(t, h.worker(t, "w2").Handle(t.Context(), rec, false))
	}
	assert.Equal(t, schemas.OutcomeSucceeded, h.check(t, "after the cut", 1))
	assert.Equal(t, map[string]int{id: 1}, h.evidence(t))
}
