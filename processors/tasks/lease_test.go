package tasks_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestALeaseIsLost when nobody hears of its holder, and the next one has it then.
func TestALeaseIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := queued(t)
		first, ok := h.claim("pool-1")
		require.True(t, ok)
		_, again := h.claim("pool-2")
		require.False(t, again, "one has it")
		h.Advance(lease - time.Second)
		h.leased(true)
		h.Advance(2 * time.Second)
		_, s := h.load()
		require.Equal(t, []any{false, schemas.TaskStatusQueued, 1}, []any{s.Leased, s.Status, s.Lease})
		require.False(t, h.report(first, schemas.TaskReport{Completed: true}), "it is too late for that")
		second, ok := h.claim("pool-2")
		require.True(t, ok)
		require.Equal(t, 2, second)
		require.True(t, h.report(second, schemas.TaskReport{Completed: true}))
		h.Advance(time.Second)
		h.check("lost and taken again")
		require.Equal(t, []string{"accepted", "started", "opened", "waiting", "claimed", "lost", "claimed", "reported", "settled"}, h.what())
	})
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

// TestTheOwnTokenHasNoTimeout but the deadline.
func TestTheOwnTokenHasNoTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := filed(t)
		h.own()
		h.Advance(deadline - time.Second)
		_, s := h.load()
		require.True(t, s.Own)
		require.Equal(t, schemas.TaskStatusRunning, s.Status)
		_, ok := h.claim("pool-1")
		require.False(t, ok)
		h.Advance(2 * time.Second)
		end, _ := h.check("the deadline")
		require.Equal(t, schemas.OutcomeExpired, end.Outcome)
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
				require.NoError(t, h.Door.Nudge(t.Context(), ref)) // somebody has it looked at
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
		require.NoError(t, h.Door.Nudge(t.Context(), ref))
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
func (h *house) due(d time.Duration) {
	h.T.Helper()
	time.Sleep(d)
	require.NoError(h.T, h.Door.Nudge(h.T.Context(), ref))
	h.Drain()
}

// TestTheLeasesAreAway: nothing is lost for that.
func TestTheLeasesAreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := queued(t)
		h.claim("pool-1")
		h.away = errors.New("no leader")
		h.Advance(2 * lease)
		h.leased(true)
		h.away = nil
		h.Advance(2 * time.Second)
		h.leased(false)
	})
}
