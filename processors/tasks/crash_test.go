package tasks_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/task"
	"weir/schemas"
)

// lives are what may happen to a task, as its people and agents do it. None of them
// knows that workers die.
func lives() map[string]func(h *house) schemas.Outcome {
	ask := func(h *house, n int) {
		h.signal(func(t *task.State) (schemas.TaskEvent, bool) {
			return schemas.TaskEvent{What: schemas.TaskAsked, Status: t.Status, Lease: n, Inquiry: &schemas.TaskInquiry{N: 1, Text: "?"}}, true
		})
		h.advance(5 * time.Second)
		h.signal(func(t *task.State) (schemas.TaskEvent, bool) {
			return schemas.TaskEvent{What: schemas.TaskAnswered, Status: t.Status, Inquiry: &schemas.TaskInquiry{N: 1, Text: "!"}}, true
		})
	}
	return map[string]func(h *house) schemas.Outcome{
		"a whole job of the pool's": func(h *house) schemas.Outcome {
			h.advance(5 * time.Second)
			n, _ := h.claim("pool-1")
			h.advance(5 * time.Second)
			ask(h, n)
			h.pushed("c1")
			h.advance(5 * time.Second)
			h.report(n, schemas.TaskReport{Completed: true, Description: "d"})
			h.advance(30 * time.Second)
			return schemas.OutcomeSucceeded
		},
		"lost, and taken again": func(h *house) schemas.Outcome {
			h.advance(5 * time.Second)
			h.claim("pool-1")
			h.advance(lease + 10*time.Second)
			n, ok := h.claim("pool-2")
			require.True(h.t, ok)
			h.report(n, schemas.TaskReport{Description: "d", Reason: schemas.ReasonTechnicalIssues})
			h.advance(30 * time.Second)
			return schemas.OutcomeFailed
		},
		"canceled": func(h *house) schemas.Outcome {
			h.own()
			h.advance(5 * time.Second)
			h.cancel()
			h.advance(30 * time.Second)
			return schemas.OutcomeCanceled
		},
		"expired": func(h *house) schemas.Outcome {
			h.own()
			h.advance(deadline + 30*time.Second)
			return schemas.OutcomeExpired
		},
		"the branch was another's": func(h *house) schemas.Outcome {
			_, s := h.load()
			h.branches[s.Branch] = "another"
			h.advance(30 * time.Second)
			return schemas.OutcomeFailed
		},
	}
}

// TestCrashAtEveryStep kills the worker at each thing it does, done or not: there is
// one end, and every change is told of and left as evidence once.
func TestCrashAtEveryStep(t *testing.T) {
	t.Parallel()
	for name, live := range lives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := 0
			for _, kept := range []bool{false, true} {
				for n, crashed := 0, true; crashed; n++ {
					synctest.Test(t, func(t *testing.T) {
						h := newHouse(t)
						h.accept()
						h.steps, h.kept = n, kept
						outcome := live(h)
						msg := fmt.Sprintf("%s, step %d, done %v", name, n, kept)
						end, _ := h.check(msg)
						require.Equal(t, outcome, end.Outcome, msg)
						crashed = h.crashes > 0
						require.LessOrEqual(t, h.crashes, 1, msg)
					})
					steps = max(steps, n)
				}
			}
			require.Greater(t, steps, 8, "the workers did too little for a test")
		})
	}
}
