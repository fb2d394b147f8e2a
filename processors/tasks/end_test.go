package tasks_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/task"
	"weir/internal/weirtest/harness"
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
		"reported": func(h *house) { require.True(h.T, h.report(0, schemas.TaskReport{Completed: true})) },
		"expired":  func(h *house) { h.Advance(deadline) },
	}, func(t *testing.T, name string, end func(h *house)) {
		before := 0 // how many records there were at the push
		for n := 0; ; n++ {
			over := false
			synctest.Test(t, func(t *testing.T) {
				h := filed(t)
				h.own()
				h.Advance(time.Second)
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
				h.Advance(time.Minute)
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
		h := filed(t)
		h.own()
		h.Advance(time.Second)
		h.cancel()
		h.Advance(0)
		end, res := h.check("canceled")
		require.Equal(t, []any{schemas.OutcomeCanceled, schemas.Canceled, schemas.TaskStatusCanceled}, []any{end.Outcome, end.Code, res.Status})
		require.Equal(t, []string{"accepted", "claimed", "started", "opened", "waiting", "cancel", "closed", "settled"}, h.what())
	})
}

// TestATaskThatNobodyKeeps is ended when it was leased as often as it may be.
func TestATaskThatNobodyKeeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := queued(t)
		st, _ := h.load()
		signal := func(e schemas.TaskEvent) {
			harness.Append(t, h.Door, st, schemas.Event{Type: schemas.EventSignal, Task: &e})
		}
		for n := 1; n <= schemas.MaxTaskLeases; n++ {
			signal(schemas.TaskEvent{What: schemas.TaskClaimed, Status: schemas.TaskStatusRunning, Lease: n, Holder: "pool-1", TokenHash: "01"})
			signal(schemas.TaskEvent{What: schemas.TaskReleased, Status: schemas.TaskStatusQueued, Lease: n, Holder: "pool-1"})
		}
		h.Queue = nil // the workers look once it is over
		_, ok := h.claim("pool-1")
		require.False(t, ok)
		require.NoError(t, h.Door.Nudge(t.Context(), ref))
		h.Advance(time.Second)
		st, s := h.load()
		require.NotNil(t, st.Settled)
		require.Equal(t, schemas.TaskFailed, st.Settled.Code)
		require.Contains(t, st.Settled.Message, "1000 times")
		require.Equal(t, schemas.TaskStatusFailed, s.Status)
	})
}

// lives are what may happen to a task, as its people and agents do it. None of them
// knows that workers die.
func lives() map[string]func(h *house) schemas.Outcome {
	ask := func(h *house, n int) {
		h.signal(func(t *task.State) (schemas.TaskEvent, bool) {
			return schemas.TaskEvent{What: schemas.TaskAsked, Status: t.Status, Lease: n, Inquiry: &schemas.TaskInquiry{N: 1, Text: "?"}}, true
		})
		h.Advance(5 * time.Second)
		h.signal(func(t *task.State) (schemas.TaskEvent, bool) {
			return schemas.TaskEvent{What: schemas.TaskAnswered, Status: t.Status, Inquiry: &schemas.TaskInquiry{N: 1, Text: "!"}}, true
		})
	}
	return map[string]func(h *house) schemas.Outcome{
		"a whole job of the pool's": func(h *house) schemas.Outcome {
			h.Advance(5 * time.Second)
			n, _ := h.claim("pool-1")
			h.Advance(5 * time.Second)
			ask(h, n)
			h.pushed("c1")
			h.Advance(5 * time.Second)
			h.report(n, schemas.TaskReport{Completed: true, Description: "d"})
			h.Advance(30 * time.Second)
			return schemas.OutcomeSucceeded
		},
		"lost, and taken again": func(h *house) schemas.Outcome {
			h.Advance(5 * time.Second)
			h.claim("pool-1")
			h.Advance(lease + 10*time.Second)
			n, ok := h.claim("pool-2")
			require.True(h.T, ok)
			h.report(n, schemas.TaskReport{Description: "d", Reason: schemas.ReasonTechnicalIssues})
			h.Advance(30 * time.Second)
			return schemas.OutcomeFailed
		},
		"canceled": func(h *house) schemas.Outcome {
			h.own()
			h.Advance(5 * time.Second)
			h.cancel()
			h.Advance(30 * time.Second)
			return schemas.OutcomeCanceled
		},
		"expired": func(h *house) schemas.Outcome {
			h.own()
			h.Advance(deadline + 30*time.Second)
			return schemas.OutcomeExpired
		},
		"the branch was another's": func(h *house) schemas.Outcome {
			_, s := h.load()
			h.branches[s.Branch] = "another"
			h.Advance(30 * time.Second)
			return schemas.OutcomeFailed
		},
	}
}

// TestCrashAtEveryStep kills the worker at each thing it does, done or not: there is
// one end, and every change is told of and left as evidence once.
func TestCrashAtEveryStep(t *testing.T) {
	t.Parallel()
	table.Run(t, lives(), func(t *testing.T, live func(h *house) schemas.Outcome) {
		harness.EachStep(t, 7, func(t *testing.T, n int, done bool, msg string) bool {
			h := filed(t)
			h.DieAt(n, done)
			outcome := live(h)
			end, _ := h.check(msg)
			require.Equal(t, outcome, end.Outcome, msg)
			require.LessOrEqual(t, h.Crashes, 1, msg)
			return h.Crashes > 0
		})
	})
}
