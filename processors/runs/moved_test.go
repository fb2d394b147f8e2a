package runs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	double "weir/internal/weirtest/agent"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestAnAgentThatMoves while a run of it is about to be made, right before
// whatever is read of the configuration: the run is made at its new place, as that
// wants it, and denied nowhere.
func TestAnAgentThatMoves(t *testing.T) {
	t.Parallel()
	for _, at := range []struct {
		what string
		n    int
	}{{"agents", 1}, {"agents", 2}, {"policy", 1}, {"policy", 2}} {
		t.Run(fmt.Sprint(at.what, at.n), func(t *testing.T) {
			t.Parallel()
			old, moved := double.New(t, double.Config{}), double.New(t, double.Config{})
			synced := to(moved)
			synced.Mode = schemas.AgentSync
			var r *room
			r = newRoom(t, options{reading: func(what string, n int) {
				if what == at.what && n == at.n {
					r.enforce(synced)
				}
			}}, to(old))
			e := r.run("1")
			assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
			assert.Zero(t, old.Hits())
			assert.Equal(t, schemas.RouteRunSync, moved.WaitRun(1).Route)
			assert.Len(t, r.evidence("1"), 1)
			assert.Equal(t, map[string]int{double.TaskType: 0}, r.metrics.runs)
		})
	}
}

// TestAnAgentThatGoes while a run of it waits for its place is not there.
func TestAnAgentThatGoes(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"agents", "policy"} {
		a := double.New(t, double.Config{})
		var r *room
		r = newRoom(t, options{reading: func(what string, n int) {
			if what == at && n == map[string]int{"agents": 2, "policy": 1}[at] {
				r.enforce()
			}
		}}, to(a))
		e := r.run("1")
		assert.Equal(t, schemas.AgentUnavailable, e.Code, at)
		assert.Zero(t, a.Hits(), at)
		assert.Empty(t, r.evidence("1"), at)
	}
}

// TestWhatIsSaidOfAnAgentThatMoved: nothing any more, also not by a run that is
// still with it.
func TestWhatIsSaidOfAnAgentThatMoved(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string][]schemas.Agent{
		"moved": {{TaskType: double.TaskType, URL: "http://127.0.0.1:1", Mode: schemas.AgentStream, Concurrency: 1}}, "gone": nil,
	}, func(t *testing.T, next []schemas.Agent) {
		begin := make(chan struct{})
		script := append([]double.Act{{Fault: double.Status500, Begin: begin}}, acts(9, double.Status500)...)
		a := double.New(t, double.Config{Script: script})
		r := newRoom(t, options{}, to(a))
		late := make(chan ended, 1)
		st := r.claim("late", schemas.Run{}, 1<<40)
		go func() { late <- r.perform(st, still{}) }()
		a.WaitRun(1)
		for _, id := range []string{"1", "2", "3", "4"} {
			r.run(id)
		}
		r.enforce(next...)
		r.runs.Refresh()
		close(begin)
		require.NoError(t, (<-late).err)
		assert.False(t, r.metrics.isOpen(), "the fifth failure is that of another address")

		r.enforce(to(a))
		for _, id := range []string{"5", "6", "7", "8", "9"} {
			assert.False(t, r.metrics.isOpen())
			r.run(id)
		}
		assert.True(t, r.metrics.isOpen())
		r.runs.Refresh()
		assert.True(t, r.metrics.isOpen(), "nothing has changed")
		r.enforce(next...)
		r.runs.Refresh()
		assert.False(t, r.metrics.isOpen())
	})
}

// TestAMoveIsNoFavour: what the new address does counts there from the first run,
// also of one that had its place at the old address when the agent moved.
func TestAMoveIsNoFavour(t *testing.T) {
	t.Parallel()
	old, moved := double.New(t, double.Config{}), double.New(t, double.Config{Fault: double.Status500})
	var r *room
	r = newRoom(t, options{reading: func(what string, n int) {
		if what == "agents" && n == 2 {
			r.enforce(to(moved))
		}
	}}, to(old))
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		assert.False(t, r.metrics.isOpen())
		r.run(id)
	}
	assert.True(t, r.metrics.isOpen())
	assert.Equal(t, 5, moved.Hits())
}
