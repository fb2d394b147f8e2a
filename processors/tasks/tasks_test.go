package tasks_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/task"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestEnds(t *testing.T) {
	t.Parallel()
	completed := schemas.TaskReport{Completed: true, Description: "d"}
	failed := schemas.TaskReport{Description: "no", Reason: schemas.ReasonTaskIssues}
	type testCase struct {
		live    func(h *env)
		outcome schemas.Outcome
		code    schemas.Code
		status  schemas.TaskStatus
	}
	table.BubbleNamed(t, map[string]testCase{
		"completed": {func(h *env) { h.own(); h.report(0, completed) }, schemas.OutcomeSucceeded, "", schemas.TaskStatusCompleted},
		"failed":    {func(h *env) { h.own(); h.report(0, failed) }, schemas.OutcomeFailed, schemas.TaskFailed, schemas.TaskStatusFailed},
		"at once":   {func(h *env) { h.Queue = nil; h.own(); h.report(0, completed) }, schemas.OutcomeSucceeded, "", schemas.TaskStatusCompleted},
		"canceled while it is queued": {
			func(h *env) { h.Advance(time.Minute); h.cancel() }, schemas.OutcomeCanceled, schemas.Canceled, schemas.TaskStatusCanceled,
		},
		"canceled while it runs": {
			func(h *env) { h.own(); h.Advance(time.Minute); h.cancel() }, schemas.OutcomeCanceled, schemas.Canceled, schemas.TaskStatusCanceled,
		},
		"the agent is late": {
			func(h *env) {
				h.own()
				h.Advance(deadline)
				require.False(h.T, h.report(0, completed))
			}, schemas.OutcomeExpired, schemas.DeadlineExceeded, schemas.TaskStatusExpired,
		},
		"the repository is gone": {
			func(h *env) {
				h.refuse = func() error { return fault.New(schemas.NotFound, "the repository shop is gone") }
			}, schemas.OutcomeFailed, schemas.NotFound, schemas.TaskStatusFailed,
		},
		"the branch exists": {
			func(h *env) {
				_, s := h.load()
				h.branches[s.Branch] = "another"
			}, schemas.OutcomeFailed, schemas.Conflict, schemas.TaskStatusFailed,
		},
		"the upstream was tried often enough": {
			func(h *env) {
				h.refuse = func() error { return fault.New(schemas.Unavailable, "file the task again later") }
			}, schemas.OutcomeFailed, schemas.Unavailable, schemas.TaskStatusFailed,
		},
		"policy denies the upstream": {
			func(h *env) {
				h.refuse = func() error { return fault.New(schemas.DenyHost, "the host is not allowed") }
			}, schemas.OutcomeDenied, schemas.DenyHost, schemas.TaskStatusFailed,
		},
	}, func(t *testing.T, name string, tt testCase) {
		h := filed(t)
		tt.live(h)
		h.Advance(time.Second)
		if name == "at once" { // as a wake-up of an action whose accepted message is lost
			require.NoError(t, h.Ingress.Notify(t.Context(), ref))
			h.Advance(time.Second)
		}
		end, res := h.check(name)
		require.Equal(t, []any{tt.outcome, tt.code, tt.status}, []any{end.Outcome, end.Code, res.Status})
		if tt.outcome != schemas.OutcomeSucceeded {
			require.NotEmpty(t, end.Message)
		}
		if name == "canceled while it runs" { // all of it is on the log before anything is told of the end
			require.Equal(t, []string{"accepted", "claimed", "started", "opened", "waiting", "cancel", "closed", "settled"}, h.what())
		}
		if tt.code == schemas.TaskFailed {
			require.Equal(t, "no", res.Description)
			require.Equal(t, schemas.ReasonTaskIssues, res.Reason)
		}
	})
}

// TestTheBranchCannotBeMadeYet: it is tried again, and the log hears of it once.
func TestTheBranchCannotBeMadeYet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t)
		tries := 0
		h.refuse = func() error {
			tries++
			switch {
			case tries == 1:
				return errors.New("the disk is away")
			case tries < 6:
				return fault.ErrUnavailable
			case tries == 6:
				return &fault.RetryAfter{After: time.Second}
			default:
				return nil
			}
		}
		h.accept()
		h.Advance(time.Minute)
		require.Equal(t, 7, tries)
		require.Equal(t, []string{"accepted", "started", "waiting", "opened", "waiting"}, h.what())
	})
}

// TestCanceledWhileTheBranchIsMade, and heard of by who makes it.
func TestCanceledWhileTheBranchIsMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := filed(t)
		h.refuse = func() error {
			h.Apart(func() {
				h.cancel()
				// As a call finds out that writes to the log.
				harness.Append(t, h.Ingress, h.opening, schemas.Event{Type: schemas.EventProgress})
				require.True(t, h.opening.CancelRequested)
			})
			return &fault.RetryAfter{After: time.Hour}
		}
		h.Advance(time.Second)
		end, _ := h.check("canceled on the way")
		require.Equal(t, schemas.OutcomeCanceled, end.Outcome)
		require.Equal(t, 1, h.opens)
	})
}

// TestFirstWriterWins: whatever comes between a worker's look and its word, the order of the log decides, and
// the evidence says the same. Up to its deadline a task is its own token's, which has no timeout.
func TestFirstWriterWins(t *testing.T) {
	t.Parallel()
	type testCase struct {
		between func(h *env)
		outcome schemas.Outcome
	}
	table.BubbleNamed(t, map[string]testCase{
		"a report at the deadline": {func(h *env) {
			st, _ := h.load() // by the door's clock it is not late
			require.NoError(h.T, h.Ingress.Append(h.T.Context(), st, schemas.Event{Type: schemas.EventSignal, Task: &schemas.TaskEvent{
				What: schemas.TaskReported, Status: schemas.TaskStatusCompleted, Report: &schemas.TaskReport{Completed: true, Description: "d"},
			}}))
		}, schemas.OutcomeSucceeded},
		"a cancel at the deadline": {func(h *env) { h.cancel() }, schemas.OutcomeCanceled},
		"nothing":                  {func(*env) {}, schemas.OutcomeExpired},
	}, func(t *testing.T, name string, tt testCase) {
		h := filed(t)
		h.own()
		h.Advance(deadline - time.Second)
		_, s := h.load()
		require.Equal(t, []any{true, schemas.TaskStatusRunning}, []any{s.Own, s.Status})
		_, ok := h.claim("pool-1")
		require.False(t, ok)
		h.before = func() { tt.between(h) }
		h.Advance(10 * time.Second)
		end, _ := h.check(name)
		require.Equal(t, tt.outcome, end.Outcome)
	})
}

// TestWhatCannotBeRead is put aside, and its task ends.
func TestWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`[]`, `{}`} {
		synctest.Test(t, func(t *testing.T) {
			h := newEnv(t)
			_, _, err := h.Ingress.Claim(t.Context(), schemas.Action{
				ID: ref.ID, Tenant: ref.Tenant, Kind: ref.Kind, Fingerprint: "f", AcceptedAt: time.Now(), Payload: []byte(payload),
			})
			require.NoError(t, err)
			h.Advance(time.Second)
			st := harness.Load(t, h.Ingress, ref)
			require.Equal(t, schemas.Poison, st.Settled.Code)
			require.Len(t, h.told, 1)
			require.Equal(t, schemas.TaskStatusFailed, h.told[0].Status)
		})
	}
}

// TestALeaseIsKept by whatever is heard of its holder, to the deadline.
func TestALeaseIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := queued(t)
		n, _ := h.claim("pool-1")
		for range int(deadline/lease) - 1 {
			h.Advance(lease * 3 / 4)
			h.touch(n)
			h.leased(true)
		}
		quiet := h.what()
		require.Len(t, quiet, 5, "a holder that is heard of writes nothing to the log")
		h.Advance(lease - time.Second)
		h.leased(true)
		h.Advance(2 * time.Second)
		h.leased(false)
		h.Advance(deadline)
		end, _ := h.check("kept, then lost, then expired")
		require.Equal(t, schemas.OutcomeExpired, end.Outcome)
	})
}

// TestTheSignOfAnotherLease keeps nobody's.
func TestTheSignOfAnotherLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := queued(t)
		n, _ := h.claim("pool-1")
		h.touch(n)
		h.Advance(lease + time.Second)
		m, ok := h.claim("pool-2")
		require.True(t, ok)
		h.Advance(lease / 2)
		h.leased(true, "what is known of the one before takes nothing from it")
		h.touch(n) // who lost it calls again
		h.Advance(lease/2 + time.Second)
		h.leased(false, "lease %d was heard of, and not %d", n, m)
	})
}

// TestAHolderComesBackAtTheLastMoment: between the worker's look and its word.
func TestAHolderComesBackAtTheLastMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := queued(t)
		n, _ := h.claim("pool-1")
		h.Advance(lease - time.Second)
		h.before = func() { h.report(n, schemas.TaskReport{Completed: true}) }
		h.Advance(10 * time.Second)
		end, _ := h.check("reported while it was lost")
		require.Equal(t, schemas.OutcomeSucceeded, end.Outcome)
		require.NotContains(t, h.what(), "lost")
	})
}

// TestClocksThatJump: a lease lasts as long as it should while one worker looks after
// it, whatever its clock says meanwhile.
func TestClocksThatJump(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{30 * time.Minute, -30 * time.Minute, -72 * time.Hour} {
		for _, touched := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				h := queued(t)
				n, _ := h.claim("pool-1")
				if touched {
					h.touch(n)
				}
				h.Advance(lease / 2)
				h.jump = jump
				require.NoError(t, h.Ingress.Notify(t.Context(), ref)) // somebody has it looked at
				h.Drain()
				h.leased(true, "jump %v", jump)
				h.due(lease) // its wake-ups are by its own clock, and may come late or at once
				h.leased(false, "jump %v", jump)
				h.jump = 0
				h.Advance(2 * deadline)
				h.check("after a jump")
			})
		}
	}
}

// TestANewWorkerGoesByTheClocks, and never waits longer than a lease.
func TestANewWorkerGoesByTheClocks(t *testing.T) {
	t.Parallel()
	type testCase struct {
		silent, jump time.Duration
		leased       bool
	}
	table.Bubble(t, map[string]testCase{
		"heard of just now":             {lease / 2, 0, true},
		"silent while nobody was there": {2 * lease, 0, false},
		"its clock is behind":           {2 * lease, -deadline, true},
	}, func(t *testing.T, tt testCase) {
		h := queued(t)
		n, _ := h.claim("pool-1")
		h.Advance(time.Second)
		h.touch(n)
		time.Sleep(tt.silent)
		h.Replace()
		h.jump = tt.jump
		require.NoError(t, h.Ingress.Notify(t.Context(), ref))
		h.Drain()
		_, s := h.load()
		require.Equal(t, tt.leased, s.Leased)
		if tt.leased {
			h.due(lease)
			h.leased(false)
		}
	})
}

// due lets time go by and has the worker look at the task then, whatever its own
// wake-up is.
func (h *env) due(d time.Duration) {
	h.T.Helper()
	time.Sleep(d)
	require.NoError(h.T, h.Ingress.Notify(h.T.Context(), ref))
	h.Drain()
}

// TestTheLeasesAreAway: nothing is lost for that.
func TestTheLeasesAreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := queued(t)
		h.claim("pool-1")
		h.leases.Away(true)
		h.Advance(2 * lease)
		h.leased(true)
		h.leases.Away(false)
		h.Advance(2 * time.Second)
		h.leased(false)
	})
}

// TestAPushBehindTheEnd comes when the evidence of the end is left, and its event is not
// written: the end says what its evidence says, the branch is shown where it is, and the
// push is told of.
func TestAPushBehindTheEnd(t *testing.T) {
	t.Parallel()
	table.RunNamed(t, map[string]func(h *env){
		"canceled": func(h *env) { h.cancel() },
		"reported": func(h *env) { require.True(h.T, h.report(0, schemas.TaskReport{Completed: true})) },
		"expired":  func(h *env) { h.Advance(deadline) },
	}, func(t *testing.T, name string, end func(h *env)) {
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
				audits := h.audits()
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

// TestATaskThatNobodyKeeps is ended when it was leased as often as it may be.
func TestATaskThatNobodyKeeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := queued(t)
		st, _ := h.load()
		signal := func(e schemas.TaskEvent) {
			harness.Append(t, h.Ingress, st, schemas.Event{Type: schemas.EventSignal, Task: &e})
		}
		for n := 1; n <= schemas.MaxTaskLeases; n++ {
			signal(schemas.TaskEvent{What: schemas.TaskClaimed, Status: schemas.TaskStatusRunning, Lease: n, Holder: "pool-1", TokenHash: "01"})
			signal(schemas.TaskEvent{What: schemas.TaskReleased, Status: schemas.TaskStatusQueued, Lease: n, Holder: "pool-1"})
		}
		h.Queue = nil // the workers look once it is over
		_, ok := h.claim("pool-1")
		require.False(t, ok)
		require.NoError(t, h.Ingress.Notify(t.Context(), ref))
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
func lives() map[string]func(h *env) schemas.Outcome {
	ask := func(h *env, n int) {
		h.signal(func(t *task.State) (schemas.TaskEvent, bool) {
			return schemas.TaskEvent{What: schemas.TaskAsked, Status: t.Status, Lease: n, Inquiry: &schemas.TaskInquiry{N: 1, Text: "?"}}, true
		})
		h.Advance(5 * time.Second)
		h.signal(func(t *task.State) (schemas.TaskEvent, bool) {
			return schemas.TaskEvent{What: schemas.TaskAnswered, Status: t.Status, Inquiry: &schemas.TaskInquiry{N: 1, Text: "!"}}, true
		})
	}
	return map[string]func(h *env) schemas.Outcome{
		"a whole job of the pool's": func(h *env) schemas.Outcome {
			h.Advance(5 * time.Second)
			n, _ := h.claim("pool-1")
			h.Advance(5 * time.Second)
			ask(h, n)
			h.pushed("c1")
			h.Advance(5 * time.Second)
			h.report(n, schemas.TaskReport{Completed: true, Description: "done <b>"})
			h.Advance(30 * time.Second)
			return schemas.OutcomeSucceeded
		},
		"lost, and taken again": func(h *env) schemas.Outcome {
			h.Advance(5 * time.Second)
			first, ok := h.claim("pool-1")
			require.True(h.T, ok)
			_, again := h.claim("pool-2")
			require.False(h.T, again, "one has it")
			h.Advance(lease - 10*time.Second)
			h.leased(true)
			h.Advance(20 * time.Second)
			h.leased(false)
			require.False(h.T, h.report(first, schemas.TaskReport{Completed: true}), "it is too late for that")
			n, ok := h.claim("pool-2")
			require.True(h.T, ok)
			h.report(n, schemas.TaskReport{Description: "d", Reason: schemas.ReasonTechnicalIssues})
			h.Advance(30 * time.Second)
			return schemas.OutcomeFailed
		},
		"canceled": func(h *env) schemas.Outcome {
			h.own()
			h.Advance(5 * time.Second)
			h.cancel()
			h.Advance(30 * time.Second)
			return schemas.OutcomeCanceled
		},
		"expired": func(h *env) schemas.Outcome {
			h.own()
			h.Advance(deadline + 30*time.Second)
			return schemas.OutcomeExpired
		},
		"the branch was another's": func(h *env) schemas.Outcome {
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
	table.Run(t, lives(), func(t *testing.T, live func(h *env) schemas.Outcome) {
		harness.EachStep(t, 7, func(t *testing.T, n int, done bool, msg string) bool { //nolint:thelper // it is the test
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
