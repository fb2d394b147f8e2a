package admit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/processors/admit"
	"weir/schemas"
)

var layout = schemas.Layout{Partitions: 1}

// forgetful is a log that shows nothing of what it has given out.
type forgetful struct{ *ledger.Ledger }

func (forgetful) Load(context.Context, schemas.Ref) (*ledger.State, error) {
	return nil, fault.ErrNotFound
}

// TestMissingAction is done only where history has dropped it. Any other is asked for
// again: its message is all that has it performed.
func TestMissingAction(t *testing.T) {
	t.Parallel()
	log := memlog.New(layout, time.Now, memlog.Hooks{})
	l := ledger.New(log, layout, nil)
	st, _, err := l.Claim(t.Context(), schemas.Action{ID: "a", Tenant: "t", Kind: schemas.KindHTTP, AcceptedAt: time.Now()})
	require.NoError(t, err)
	rec, err := log.Last(t.Context(), schemas.LogStream(0), layout.Subject(st.Ref, schemas.SectionAccepted))
	require.NoError(t, err)

	a := admit.New(forgetful{l}, admit.Config{})
	_, err = a.Again(t.Context(), rec)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	log.Purge(schemas.LogStream(0), rec.Seq+1)
	_, err = a.Again(t.Context(), rec)
	require.ErrorIs(t, err, admit.ErrDone)
}
