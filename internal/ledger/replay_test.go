package ledger_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// TestReplay gives every event in order, those that a state only counts among them, over
// more than one page, and of a replica that is late.
func TestReplay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newLate(3, memlog.Hooks{})
		st, _, err := w.l.Claim(t.Context(), action("f"))
		require.NoError(t, err)
		const n = 700
		for i := range n {
			ev := schemas.Event{Type: schemas.EventDelta, Data: fmt.Appendf(nil, `{"chunks":[%d]}`, i)}
			require.NoError(t, w.l.Append(t.Context(), st, ev))
			if i%100 == 0 {
				require.NoError(t, w.l.Nudge(t.Context(), st.Ref))
				st, err = w.l.Load(t.Context(), st.Ref)
				require.NoError(t, err)
			}
		}
		other := action("g")
		other.ID = "b"
		_, _, err = w.l.Claim(t.Context(), other)
		require.NoError(t, err)
		w.stall()
		var all []schemas.Event
		require.NoError(t, w.l.Replay(t.Context(), st.Ref, func(ev schemas.Event) error {
			all = append(all, ev)
			return nil
		}))
		require.Len(t, all, n+1)
		for i, ev := range all {
			require.Equal(t, i+1, ev.N)
		}
		assert.JSONEq(t, `{"chunks":[699]}`, string(all[n].Data))
	})
}

func TestReplayEnds(t *testing.T) {
	t.Parallel()
	l, log := setup(memlog.Hooks{})
	st, _, err := l.Claim(t.Context(), action("f"))
	require.NoError(t, err)
	require.NoError(t, l.Append(t.Context(), st, schemas.Event{Type: schemas.EventDelta, Time: time.Now().UTC()}))
	enough := errors.New("enough")
	n := 0
	require.ErrorIs(t, l.Replay(t.Context(), st.Ref, func(schemas.Event) error {
		n++
		return enough
	}), enough)
	assert.Equal(t, 1, n)

	never := func(schemas.Event) error { return nil }
	require.ErrorIs(t, l.Replay(t.Context(), schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "none"}, never), fault.ErrNotFound)

	_, err = log.Append(t.Context(), schemas.Append{Subject: layout.Subject(st.Ref, schemas.TailEvent), Data: []byte(`{"v":99}`)})
	require.NoError(t, err)
	var parked *fault.Parked
	require.ErrorAs(t, l.Replay(t.Context(), st.Ref, never), &parked)
}
