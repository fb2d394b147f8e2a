package ledger_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// late is a log whose replica does not show the newest messages for a while.
type late struct {
	*memlog.Log
	l     *ledger.Ledger
	until time.Time
}

// all is more messages than there are.
const all = 1000

func newLate(by int, hooks memlog.Hooks) *late {
	w := &late{}
	hooks.Late = func() int {
		if time.Now().Before(w.until) {
			return by
		}
		return 0
	}
	w.l, w.Log = setup(hooks)
	return w
}

// stall has the replica fall behind for less than it is waited for.
func (w *late) stall() { w.until = time.Now().Add(time.Second) }

// TestLateReplica: an action that a replica does not know is no action that was dropped, and one's
// own write that it does not show is not another's.
func TestLateReplica(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]int{"one": 1, "two": 2, "all": all} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { lateReplica(t, by) })
		})
	}
}

func lateReplica(t *testing.T, by int) {
	t.Helper()
	lose := false
	w := newLate(by, memlog.Hooks{After: func(schemas.Append, uint64) error {
		if lose {
			return fault.ErrUnavailable
		}
		return nil
	}})
	st := claim(t, w.l, action("f"))
	require.NoError(t, w.l.Append(t.Context(), st, begun))
	w.stall()
	old := load(t, w.l, st.Ref)
	assert.Equal(t, st.Events, old.Events)
	w.stall()
	found, err := w.l.Find(t.Context(), "t", "a")
	require.NoError(t, err, "however old it is")
	assert.Equal(t, st.Action, found.Action)

	wakeUp(t, w, st.Ref)
	lose = true
	w.stall()
	require.NoError(t, w.l.Append(t.Context(), st, attempt), "it stands behind a wake-up, and its acknowledgement was lost")
	require.NoError(t, w.l.Append(t.Context(), st, result))
	w.stall()
	require.ErrorIs(t, w.l.Append(t.Context(), old, attempt), fault.ErrFenced)

	lose = false
	loaded := load(t, w.l, st.Ref)
	assert.Equal(t, 4, loaded.N, "each was written once")
	assert.Equal(t, st.Events, loaded.Events)
}

// TestReplicaThatStaysLate: nobody takes its word for there being nothing.
func TestReplicaThatStaysLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newLate(all, memlog.Hooks{})
		st := claim(t, w.l, action("f"))
		w.until = time.Now().Add(time.Hour)
		_, err := w.l.Load(t.Context(), st.Ref)
		require.ErrorIs(t, err, fault.ErrUnavailable)
		_, err = w.l.Load(t.Context(), schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "b"})
		require.ErrorIs(t, err, fault.ErrNotFound)
	})
}

func accepted(t *testing.T, a schemas.Action) []byte {
	t.Helper()
	data := must(ledger.Encode(schemas.Event{V: schemas.EventVersion, N: 1, Type: schemas.EventAccepted, Time: a.AcceptedAt, Action: &a}))(t)
	return data
}

// TestDoubtfulClaimOfAFullLog: whether a copy of it is stored is unknown, so that nobody is told
// that nothing was.
func TestDoubtfulClaimOfAFullLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := []error{fault.ErrUnavailable, fault.ErrFull}
		l, _ := setup(memlog.Hooks{Before: func(schemas.Append) error {
			err := answers[0]
			answers = answers[1:]
			return err
		}})
		_, _, err := l.Claim(t.Context(), action("f"))
		require.ErrorIs(t, err, fault.ErrUnavailable)
	})
}

// TestAnEndThatAReplicaDoesNotShow is told to who asks again.
func TestAnEndThatAReplicaDoesNotShow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newLate(1, memlog.Hooks{})
		st := claim(t, w.l, action("f"))
		for _, ev := range []schemas.Event{attempt, ended} {
			require.NoError(t, w.l.Append(t.Context(), st, ev))
		}
		w.stall()
		joined := must(w.l.Existing(t.Context(), action("f")))(t)
		require.NotNil(t, joined.Settled)
	})
}

// TestEncode: raw JSON keeps its bytes, and a text has no character at which a client may end a
// line.
func TestEncode(t *testing.T) {
	t.Parallel()
	raw := "{\"a\":\"<&\u2028\u2029\\u2028\\/\",\"b\":1.50}"
	got := must(ledger.Encode(schemas.Event{V: 1, N: 2, Type: schemas.EventDelta, Data: []byte(raw), Attempted: &schemas.Attempted{Code: "<\u2028&"}}))(t)
	require.Contains(t, string(got), `"data":`+raw)
	require.Contains(t, string(got), `"code":"<\u2028&"`)
}
