package processors_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/schemas"
)

// TestLostAcknowledgements from a log whose replica is late: the worker that writes
// an action's events knows them for its own. Otherwise it would give up the call it
// has just written down, or leave it to another node, which would wait for it.
func TestLostAcknowledgements(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		rec := d.store(t, "mine", "one", "POST")
		d.deaf, d.late = true, time.Now().Add(time.Second)
		require.NoError(t, d.node(t, "n1", false).Handle(t.Context(), rec, true))
		st := d.state(t, "mine", "one")
		require.NotNil(t, st.Settled)
		assert.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
		assert.Equal(t, 1, d.sent)
		assert.Len(t, st.Attempts, 1)
	})
}

// TestActionThatAReplicaDoesNotKnow is not taken for one that has been dropped: its
// message would be acknowledged, and nobody would ever perform it.
func TestActionThatAReplicaDoesNotKnow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		rec := d.store(t, "mine", "one", "POST")
		n := d.node(t, "n1", false)
		d.late = time.Now().Add(time.Hour)
		require.ErrorIs(t, n.Handle(t.Context(), rec, false), fault.ErrUnavailable)
		assert.Zero(t, d.sent)

		d.late = time.Now().Add(time.Second)
		require.NoError(t, n.Handle(t.Context(), rec, false))
		assert.Equal(t, schemas.OutcomeSucceeded, d.state(t, "mine", "one").Settled.Outcome)
		assert.Equal(t, 1, d.sent)
	})
}
