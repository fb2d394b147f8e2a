package egress_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/schemas"
)

// TestALateReplicaIsNotBelieved: who holds a task by the leader's word is not told by a
// replica, which has not heard of that, that it does not.
func TestALateReplicaIsNotBelieved(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(h *house) *httptest.ResponseRecorder{
		"the task": func(h *house) *httptest.ResponseRecorder { return h.agent(h.t.Context(), 2) },
		"the lease": func(h *house) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.room.Leased(w, httptest.NewRequestWithContext(h.t.Context(), http.MethodPost, schemas.RouteTaskLease, http.NoBody), taskOf("t-1"), 2, "weirt1_x", time.Minute)
			return w
		},
		"the answer": func(h *house) *httptest.ResponseRecorder { return h.inquire(h.t.Context(), 2, 1, func() {}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for late := range 6 {
				synctest.Test(t, func(t *testing.T) {
					h := build(t, tasked)
					st := h.task("t-1", "d")
					h.opened(st)
					h.claimed(st, 1)
					h.append(st, schemas.Event{Type: schemas.EventStatus, Task: &schemas.TaskEvent{What: schemas.TaskLost, Status: "Queued", Lease: 1}})
					h.claimed(st, 2)
					h.asked(st, 1, "a")
					if name == "the answer" {
						go func() {
							time.Sleep(time.Minute)
							h.answered(st, 1, "A")
						}()
					}
					h.late.Store(int64(late))
					go func() {
						time.Sleep(time.Second)
						h.late.Store(0)
					}()
					w := do(h)
					require.Equal(t, http.StatusOK, w.Code, "late by %d: %s", late, w.Body)
					time.Sleep(2 * time.Second)
					h.feed.Close()
				})
			}
		})
	}
}

// TestABranchThatTheFeedHasMissed is found before the agent is sent away.
func TestABranchThatTheFeedHasMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t, tasked)
		st := h.task("t-1", "d")
		h.claimed(st, 0)
		h.deaf.Store(true)
		got := make(chan *httptest.ResponseRecorder, 1)
		go func() { got <- h.agent(t.Context(), 0) }()
		time.Sleep(time.Second)
		h.opened(st)
		begun := time.Now()
		require.Equal(t, http.StatusOK, (<-got).Code)
		require.Less(t, time.Since(begun), 3*time.Second)
		h.feed.Close()
	})
}

// TestAListOfAFewAmongMany reads few of the many as a whole, and ends early where it
// has to read many.
func TestAListOfAFewAmongMany(t *testing.T) {
	t.Parallel()
	h := build(t, tasked)
	const many = 150
	h.claimed(h.task("first", "d"), 0)
	for i := range many {
		h.completed(h.filed(fmt.Sprintf("done-%d", i)))
	}
	canceled := h.filed("canceled")
	h.settle(canceled, schemas.Settled{Outcome: schemas.OutcomeCanceled, Code: schemas.Canceled})
	poison := h.filed("poison")
	h.reported(poison, 1)
	h.settle(poison, schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.Poison})
	list := func(query string) (ids []string, next string) {
		page := decode[schemas.TaskPage](t, h.get("/v1/tasks?"+query).Body)
		for _, v := range page.Items {
			ids = append(ids, v.ID)
		}
		return ids, page.Next
	}
	before := h.reads.Load()
	ids, next := list("status=Running")
	require.Equal(t, []string{"first"}, ids)
	require.Empty(t, next, "the many were passed over")
	require.Less(t, h.reads.Load()-before, int64(many/2), "without a look at any of them")
	ids, _ = list("status=Canceled")
	require.Equal(t, []string{"canceled"}, ids)
	ids, _ = list("status=Completed&limit=1")
	require.Equal(t, []string{"poison"}, ids, "what its agent has said stands, whatever came of its record")
	for i := range many {
		h.filed(fmt.Sprintf("queued-%d", i))
	}
	ids, next = list("status=Failed")
	require.Empty(t, ids)
	require.NotEmpty(t, next, "one page costs only so much")
	_, next = list("status=Failed&cursor=" + next)
	require.Empty(t, next)
}

// filed is a task that was leased.
func (h *house) filed(id string) *ledger.State {
	h.t.Helper()
	st := h.task(id, "d")
	h.claimed(st, 1)
	return st
}
