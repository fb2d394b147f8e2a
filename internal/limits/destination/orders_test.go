package destination

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func pausing(t schemas.Target) schemas.Operation {
	return schemas.Operation{Do: schemas.OperationPause, Target: t}
}

// TestPause: what operators hold back waits on every worker, and is woken when they let
// it go.
func TestPause(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]schemas.Target{
		"entry": {Entry: "api"}, "destination": {Destination: "https://api.example:443"}, "tenant": {Tenant: "acme"}, "kind": {Kind: schemas.KindHTTP},
	}, func(t *testing.T, target schemas.Target) {
		operations := bucket.New()
		a, b := join(t, "a", operations, bucket.New(), Config{}), join(t, "b", operations, bucket.New(), Config{})
		other := Call{Ref: schemas.Ref{Tenant: "other", Kind: schemas.KindPlan}, Entry: "other", Destination: "https://other.example:443"}
		op, err := a.Order(t.Context(), pausing(target))
		require.NoError(t, err)
		assert.Equal(t, []schemas.Operation{op}, b.Operations())
		own := call("0")
		own.Own = true
		a.waits(t, own, schemas.WaitPaused)
		a.waits(t, call("1"), schemas.WaitPaused)
		b.waits(t, call("2"), schemas.WaitPaused)
		b.enters(t, other).Release()
		_, held, _ := b.Acquire(t.Context(), call("3")) // not at rest yet when it is let go

		again, err := b.Order(t.Context(), pausing(target))
		require.NoError(t, err)
		assert.Equal(t, []schemas.Operation{again}, a.Operations(), "one of a sort")
		lifted, err := b.Lift(t.Context(), schemas.OperationPause, target)
		require.NoError(t, err)
		assert.Equal(t, again, lifted)
		held.Deferred()
		synctest.Wait()
		assert.ElementsMatch(t, []string{"0", "1"}, a.ids())
		assert.ElementsMatch(t, []string{"2", "3"}, b.ids())
		a.enters(t, call("1")).Release()
		_, err = b.Lift(t.Context(), schemas.OperationPause, target)
		require.ErrorIs(t, err, fault.ErrNotFound)
	})
}

// TestPins go before what was found out.
func TestPins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := join(t, "a", bucket.New(), nil, Config{Failures: 1})
		pin := func(state string, target schemas.Target) {
			_, err := n.Order(t.Context(), schemas.Operation{Do: schemas.OperationPin, Target: target, State: state})
			require.NoError(t, err)
		}
		api := schemas.Target{Entry: "api"}
		pin(schemas.PinOpen, api)
		n.waits(t, call("1"), schemas.WaitPaused)
		pin(schemas.PinClosed, schemas.Target{Destination: call("1").Destination})
		turn := n.enters(t, call("1")) // the destination's own
		turn.Failed(t.Context())
		turn.Asked(t.Context(), time.Now().Add(time.Minute))
		turn.Release()
		n.enters(t, call("1")).Release()
		_, err := n.Lift(t.Context(), schemas.OperationPin, api)
		require.NoError(t, err)
		_, err = n.Lift(t.Context(), schemas.OperationPin, schemas.Target{Destination: call("1").Destination})
		require.NoError(t, err)
		turn = n.enters(t, call("1"))
		turn.Failed(t.Context())
		turn.Release()
		n.waits(t, call("1"), schemas.WaitDestination)
		pin(schemas.PinClosed, api)
		n.enters(t, call("1")).Release()
	})
}

// TestOperationsOfAnotherVersion are not written over, and change nothing.
func TestOperationsOfAnotherVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		operations := bucket.New()
		n := join(t, "a", operations, nil, Config{})
		_, err := n.Order(t.Context(), pausing(schemas.Target{Entry: "api"}))
		require.NoError(t, err)
		_, err = operations.Put(t.Context(), holdsKey, []byte(`{"v":2}`), 1)
		require.NoError(t, err)
		n.waits(t, call("1"), schemas.WaitPaused)
		_, err = n.Lift(t.Context(), schemas.OperationPause, schemas.Target{Entry: "api"})
		require.ErrorIs(t, err, ErrUnreadable)
	})
}
