package tasks_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestAPushBehindTheEnd comes when the evidence of the end is left, and its event is not
// written: the end says what its evidence says, the branch is shown where it is, and the
// push is told of.
func TestAPushBehindTheEnd(t *testing.T) {
	t.Parallel()
	table.RunNamed(t, map[string]func(h *house){
		"canceled": func(h *house) { h.cancel() },
		"reported": func(h *house) { require.True(h.t, h.report(0, schemas.TaskReport{Completed: true})) },
		"expired":  func(h *house) { h.advance(deadline) },
	}, func(t *testing.T, name string, end func(h *house)) {
		before := 0 // how many records there were at the push
		for n := 0; ; n++ {
			over := false
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t)
				h.accept()
				h.own()
				h.advance(time.Second)
				h.pushed("c1")
				appends := 0
				h.each = func() {
					if appends++; appends == n+1 {
						_, s := h.load()
						require.NotNil(t, s)
						before = len(s.Head)
						h.pushed("c2")
					}
				}
				end(h)
				h.advance(time.Minute)
				h.each = nil
				over = appends <= n
				msg := fmt.Sprintf("%s, before append %d", name, n)
				settled, res := h.check(msg)
				audits, _ := h.audits()
				require.Equal(t, res.Head, audits["t-1.task.settled"].Head, msg)
				st, s := h.load()
				require.Equal(t, s.Left, res.Head, msg)
				require.Equal(t, s.Last, audits["t-1.task.settled"].N, msg)
				require.NotNil(t, st.Settled)
				require.NotEmpty(t, settled.Outcome)
				if !over {
					require.Equal(t, "c2", s.Head, "the branch is where it is")
				}
			})
			if over {
				require.Greater(t, n, 3, "there was little to come between")
				break
			}
		}
		require.Positive(t, before)
	})
}

// TestACancelIsAllOnTheLog before anything is told of the end: who comes first has it.
func TestACancelIsAllOnTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.accept()
		h.own()
		h.advance(time.Second)
		h.cancel()
		h.advance(0)
		end, res := h.check("canceled")
		require.Equal(t, []any{schemas.OutcomeCanceled, schemas.Canceled, schemas.TaskStatusCanceled}, []any{end.Outcome, end.Code, res.Status})
		require.Equal(t, []string{"accepted", "claimed", "started", "opened", "waiting", "cancel", "closed", "settled"}, h.what())
	})
}

// TestATaskThatNobodyKeeps is ended when it was leased as often as it may be.
func TestATaskThatNobodyKeeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.accept()
		h.advance(0)
		st, _ := h.load()
		signal := func(e schemas.TaskEvent) {
			require.NoError(t, h.door.Append(t.Context(), st, schemas.Event{Type: schemas.EventSignal, Task: &e}))
		}
		for n := 1; n <= schemas.MaxTaskLeases; n++ {
			signal(schemas.TaskEvent{What: schemas.TaskClaimed, Status: schemas.TaskStatusRunning, Lease: n, Holder: "pool-1", TokenHash: "01"})
			signal(schemas.TaskEvent{What: schemas.TaskReleased, Status: schemas.TaskStatusQueued, Lease: n, Holder: "pool-1"})
		}
		h.queue = nil // the workers look once it is over
		_, ok := h.claim("pool-1")
		require.False(t, ok)
		require.NoError(t, h.door.Nudge(t.Context(), ref))
		h.advance(time.Second)
		st, s := h.load()
		require.NotNil(t, st.Settled)
		require.Equal(t, schemas.TaskFailed, st.Settled.Code)
		require.Contains(t, st.Settled.Message, "1000 times")
		require.Equal(t, schemas.TaskStatusFailed, s.Status)
	})
}
