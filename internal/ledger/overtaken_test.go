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

// TestACancelStandsBehindWhateverCameBetween, but for an end: of all that only what is
// new is read.
func TestACancelStandsBehindWhateverCameBetween(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		between []schemas.Event
		fenced  bool
	}{
		"started":          {between: []schemas.Event{begun}},
		"attempt":          {between: []schemas.Event{begun, attempt}},
		"attempted":        {between: []schemas.Event{begun, attempt, result}},
		"waiting":          {between: []schemas.Event{begun, waiting}},
		"progress, deltas": {between: []schemas.Event{{Type: schemas.EventProgress}, {Type: schemas.EventDelta, Data: []byte("{}")}, {Type: schemas.EventDelta}}},
		"another cancel":   {between: []schemas.Event{begun, {Type: schemas.EventCancel, Time: time.Unix(1, 0).UTC()}}, fenced: true},
		"the end":          {between: []schemas.Event{begun, {Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded}}}, fenced: true},
		"what a task says": {between: []schemas.Event{{Type: schemas.EventSignal, Task: &schemas.TaskEvent{What: schemas.TaskReported}}}, fenced: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, log := setup(memlog.Hooks{})
				st, _, err := l.Claim(t.Context(), action("f"))
				require.NoError(t, err)
				other, err := l.Load(t.Context(), st.Ref)
				require.NoError(t, err)
				for _, ev := range tt.between {
					require.NoError(t, l.Append(t.Context(), other, ev))
				}
				_, err = log.Append(t.Context(), schemas.Append{Subject: layout.Subject(st.Ref, schemas.TailWake)})
				require.NoError(t, err)
				begin := time.Now()
				err = l.Append(t.Context(), st, schemas.Event{Type: schemas.EventCancel})
				if tt.fenced {
					require.ErrorIs(t, err, fault.ErrFenced)
					return
				}
				require.NoError(t, err)
				assert.Zero(t, time.Since(begin), "it is made again at once")
				loaded, err := l.Load(t.Context(), st.Ref)
				require.NoError(t, err)
				assert.Nil(t, loaded.Damaged)
				assert.True(t, loaded.CancelRequested)
				assert.Equal(t, len(tt.between)+2, loaded.N)
				assert.Equal(t, loaded.N, loaded.Events[len(loaded.Events)-1].N)
				st.Inherited = loaded.Inherited
				assert.Equal(t, loaded, st)
			})
		})
	}
}

// TestACancelIsNotStarved by a writer that is first every time, until it has been for so
// long that something else is the matter.
func TestACancelIsNotStarved(t *testing.T) {
	t.Parallel()
	for first, ok := range map[int]bool{100: true, 10_000: false} {
		synctest.Test(t, func(t *testing.T) {
			var l *ledger.Ledger
			var writer *ledger.State
			left, tries := first, 0
			l, _ = setup(memlog.Hooks{Before: func(m schemas.Append) error {
				if ev, err := ledger.Decode(m.Data); err == nil && ev.Type != schemas.EventCancel {
					return nil
				}
				if tries++; left > 0 {
					left--
					require.NoError(t, l.Append(t.Context(), writer, schemas.Event{Type: schemas.EventDelta}))
				}
				return nil
			}})
			st, _, err := l.Claim(t.Context(), action("f"))
			require.NoError(t, err)
			writer, err = l.Load(t.Context(), st.Ref)
			require.NoError(t, err)
			begin := time.Now()
			err = l.Append(t.Context(), st, schemas.Event{Type: schemas.EventCancel})
			if !ok {
				require.ErrorIs(t, err, fault.ErrFenced)
				require.Less(t, tries, 1000)
				return
			}
			require.NoError(t, err)
			require.Zero(t, time.Since(begin))
			require.Equal(t, first+1, tries)
			require.Equal(t, first+2, st.N)
		})
	}
}
