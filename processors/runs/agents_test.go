package runs_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	double "weir/internal/weirtest/agent"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/processors/call/agent"
	"weir/processors/runs"
	"weir/schemas"
)

// pass lets the time go by for which the double is left alone.
func (r *env) pass() {
	r.t.Helper()
	require.True(r.t, r.remote.Pass(double.TaskType), "the agent is not left alone")
}

func acts(n int, f double.Fault) []double.Act {
	list := make([]double.Act, n)
	for i := range list {
		list[i].Fault = f
	}
	return list
}

// TestAnAgentThatFailsIsLeftAlone: five failures in a row and it is not asked for
// ten seconds; then one run alone shows whether it is well.
func TestAnAgentThatFailsIsLeftAlone(t *testing.T) {
	t.Parallel()
	script := append(acts(6, double.DiesUnanswered), double.Act{})
	a := double.New(t, double.Config{Script: script})
	r := newEnv(t, options{}, to(a))
	r.breakOff()
	e := r.run("6")
	assert.Equal(t, schemas.AgentUnavailable, e.Code)
	assert.Equal(t, "AGENT_UNAVAILABLE", e.result.Error.Code)
	var again struct {
		AfterMS int64 `json:"retry_after_ms"`
	}
	require.NoError(t, json.Unmarshal(e.result.Error.Details, &again))
	assert.Positive(t, again.AfterMS)
	assert.LessOrEqual(t, again.AfterMS, int64(10_000))
	assert.Contains(t, e.result.Error.Message, fmt.Sprintf("try again in %d s", (again.AfterMS+999)/1000))
	assert.Equal(t, 5, a.Hits())
	assert.Empty(t, r.evidence("6"), "no call was decided about")

	r.pass()
	assert.NotEqual(t, schemas.OutcomeSucceeded, r.run("7").Outcome, "the probe")
	assert.Equal(t, 6, a.Hits())
	assert.Equal(t, schemas.AgentUnavailable, r.run("8").Code)
	assert.Equal(t, 6, a.Hits())

	r.pass()
	assert.Equal(t, schemas.OutcomeSucceeded, r.run("9").Outcome)
	assert.False(t, r.metrics.isOpen())
	assert.Equal(t, schemas.OutcomeSucceeded, r.run("10").Outcome)
}

// TestWhatIsNoFaultOfTheAgent leaves it in its place.
func TestWhatIsNoFaultOfTheAgent(t *testing.T) {
	t.Parallel()
	for _, f := range []double.Fault{double.Failed, double.Status400} {
		a := double.New(t, double.Config{Fault: f})
		r := newEnv(t, options{}, to(a))
		for _, id := range []string{"1", "2", "3", "4", "5", "6"} {
			r.run(id)
		}
		assert.Equal(t, 6, a.Hits(), f)
		assert.False(t, r.metrics.isOpen(), f)
	}
	a := double.New(t, double.Config{Fault: double.NeverAnswers})
	r := newEnv(t, options{}, to(a))
	for _, id := range []string{"1", "2", "3", "4", "5", "6"} {
		e := r.done(r.claim(id, schemas.Run{}, 50*time.Millisecond), still)
		require.Equal(t, schemas.OutcomeExpired, e.Outcome)
	}
	assert.False(t, r.metrics.isOpen(), "whoever gives it no time learns nothing of it")
}

// TestAProbeIsOne, and one that is canceled before it has shown anything is given
// back: the agent is paused for as long again, not for ever. One that is
// answered has shown enough, however long its run goes on.
func TestAProbeIsOne(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	script := append(acts(5, double.Status500), double.Act{Fault: double.NeverAnswers}, double.Act{Hold: hold}, double.Act{})
	a := double.New(t, double.Config{Script: script})
	r := newEnv(t, options{}, to(a))
	r.breakOff()
	r.pass()
	stop := harness.NewStop(t)
	probe := make(chan ended, 1)
	go func() { probe <- r.perform(r.claim("6", schemas.Run{}, 1<<40), stop.Stop) }()
	a.WaitRun(6)
	assert.Equal(t, schemas.AgentUnavailable, r.run("7").Code, "while the probe is under way")
	stop.Pull()
	assert.Equal(t, schemas.OutcomeCanceled, (<-probe).Outcome)
	assert.Equal(t, schemas.AgentUnavailable, r.run("8").Code)

	r.pass()
	go func() { probe <- r.perform(r.claim("9", schemas.Run{}, 1<<40), still) }()
	<-r.metrics.closed
	assert.Equal(t, schemas.OutcomeSucceeded, r.run("10").Outcome)
	close(hold)
	assert.Equal(t, schemas.OutcomeSucceeded, (<-probe).Outcome)
}

// TestAFullAgent: a run waits for a place, and of those that wait only a few do
// so in their workers' slots; the others rest.
func TestAFullAgent(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	a := double.New(t, double.Config{Script: []double.Act{{Hold: hold}}})
	full := to(a)
	full.Concurrency = 1
	r := newEnv(t, options{}, full)
	ends := make(chan ended, 10)
	begin := func(id string) {
		st := r.claim(id, schemas.Run{}, time.Minute)
		go func() { ends <- r.perform(st, still) }()
	}
	begin("0")
	a.WaitRun(1)
	for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		begin(id)
	}
	rest := harness.As[*call.Deferral](t, (<-ends).err)
	assert.Equal(t, schemas.WaitCapacity, rest.Reason)
	assert.Equal(t, 1, a.Hits())
	close(hold)
	for range 9 {
		if e := <-ends; e.err == nil {
			assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		} else { // on a slow machine it has waited for longer than a slot is kept
			require.ErrorAs(t, e.err, &rest)
		}
	}
}

// TestWaitingForAPlace by the clock: three seconds in the slot, then rests that
// grow from two seconds to ten, until the deadline; a stop is heard at once.
func TestWaitingForAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t, options{}, schemas.Agent{TaskType: double.TaskType, URL: "http://127.0.0.1:1", Mode: schemas.AgentStream})
		st := r.claim("1", schemas.Run{}, time.Minute)
		var delays []time.Duration
		for range 8 {
			began := time.Now()
			e := r.perform(st, still)
			if e.err == nil {
				assert.Equal(t, schemas.OutcomeExpired, e.Outcome)
				break
			}
			rest := harness.As[*call.Deferral](t, e.err)
			require.Equal(t, 3*time.Second, time.Since(began))
			delays = append(delays, time.Until(rest.Until))
			ev := schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: rest.Reason, Until: rest.Until}}
			harness.Append(t, r.ledger, st, ev)
			time.Sleep(time.Until(rest.Until))
		}
		require.GreaterOrEqual(t, len(delays), 4)
		for i, d := range delays {
			if i < len(delays)-1 { // the last one may have ended at the deadline
				assert.GreaterOrEqual(t, d, 2*time.Second, i)
			}
			assert.LessOrEqual(t, d, 10*time.Second, i)
		}
		assert.Greater(t, delays[1], 4*time.Second-time.Nanosecond)

		stop := harness.NewStop(t)
		time.AfterFunc(time.Second, stop.Pull)
		began := time.Now()
		e := r.done(r.claim("2", schemas.Run{}, time.Minute), stop.Stop)
		assert.Equal(t, schemas.OutcomeCanceled, e.Outcome)
		assert.Equal(t, time.Second, time.Since(began))

		e = r.done(r.claim("3", schemas.Run{}, 2*time.Second), still)
		assert.Equal(t, schemas.OutcomeExpired, e.Outcome)

		time.AfterFunc(time.Second, func() { close(r.draining) })
		e = r.perform(r.claim("4", schemas.Run{}, time.Minute), still)
		require.Error(t, e.err)
		var rest *call.Deferral
		require.NotErrorAs(t, e.err, &rest)
	})
}

// TestNothingToWaitFor: a run that is to stop, or whose time is up, ends so and
// takes no place in a queue that is full, nor blames an agent that is left alone.
func TestNothingToWaitFor(t *testing.T) {
	t.Parallel()
	over := func(r *env) {
		r.t.Helper()
		stop := harness.NewStop(r.t)
		stop.Pull()
		e := r.done(r.claim("stopped", schemas.Run{}, time.Minute), stop.Stop)
		assert.Equal(r.t, schemas.OutcomeCanceled, e.Outcome)
		e = r.done(r.claim("late", schemas.Run{}, -time.Second), still)
		assert.Equal(r.t, schemas.OutcomeExpired, e.Outcome)
	}
	t.Run("a full queue", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newEnv(t, options{}, schemas.Agent{TaskType: double.TaskType, URL: "http://127.0.0.1:1", Mode: schemas.AgentStream})
			var waiting sync.WaitGroup
			for i := range 8 {
				st := r.claim(strconv.Itoa(i), schemas.Run{}, time.Hour)
				waiting.Go(func() { r.perform(st, still) })
			}
			synctest.Wait()
			over(r)
			began, firsts := time.Now(), map[time.Duration]bool{}
			for i := range 20 {
				rest := harness.As[*call.Deferral](t, r.perform(r.claim(fmt.Sprint("r", i), schemas.Run{}, time.Hour), still).err)
				firsts[rest.Until.Sub(began)] = true
			}
			assert.Greater(t, len(firsts), 1, "those that rest at once do not come again at once")
			soon := r.claim("soon", schemas.Run{}, time.Second)
			rest := harness.As[*call.Deferral](t, r.perform(soon, still).err)
			assert.Equal(t, time.Second, rest.Until.Sub(began), "no rest goes beyond the deadline")
			time.Sleep(time.Second)
			e := r.perform(soon, still)
			require.NoError(t, e.err, "and none is behind it")
			assert.Equal(t, schemas.OutcomeExpired, e.Outcome)
			waiting.Wait()
		})
	})
	t.Run("an agent that is left alone", func(t *testing.T) {
		t.Parallel()
		a := double.New(t, double.Config{Fault: double.Status500})
		r := newEnv(t, options{}, to(a))
		r.breakOff()
		over(r)
	})
	t.Run("an agent that is gone", func(t *testing.T) {
		t.Parallel()
		over(newEnv(t, options{}))
	})
}

// TestAProbeThatIsNotMade, because policy or a drain stops it, does not stand in the way of the next run, which
// is one.
func TestAProbeThatIsNotMade(t *testing.T) {
	t.Parallel()
	a := double.New(t, double.Config{Fault: double.Status500})
	r := newEnv(t, options{}, to(a))
	r.breakOff()
	r.pass()
	for i := range 3 {
		st := r.claim(fmt.Sprint("denied-", i), schemas.Run{}, time.Minute)
		st.Action.Entries = []string{"another"}
		e := r.done(st, still)
		assert.Equal(t, schemas.OutcomeDenied, e.Outcome)
	}
	close(r.draining)
	require.ErrorAs(t, r.perform(r.claim("drained", schemas.Run{}, time.Minute), still).err, new(*fault.RetryAfter))
	assert.False(t, r.remote.Pass(double.TaskType), "it is not left alone again")
}

// TestARunThatPanics leaves its place.
func TestARunThatPanics(t *testing.T) {
	t.Parallel()
	r := newEnv(t, options{})
	reads := 0
	m := runs.NewRemote(r.ledger, nil, nil, call.Answers{}, runs.RemoteConfig{
		Agents: func(string) (schemas.Agent, bool) {
			if reads++; reads%2 == 0 { // the second is read with the place taken
				panic("broken")
			}
			return schemas.Agent{URL: "http://127.0.0.1:1", Mode: schemas.AgentStream, Concurrency: 1}, true
		},
		Metrics: r.metrics, Adapter: agent.New(nil, nil, agent.Config{}),
	})
	for _, id := range []string{"1", "2"} {
		st := r.claim(id, schemas.Run{}, time.Minute)
		require.PanicsWithValue(t, "broken", func() {
			_, _ = m.Execute(t.Context(), st, schemas.Run{RunOrder: schemas.RunOrder{TaskType: double.TaskType}}, still)
		})
	}
}

// TestAnAgentThatMoves while a run of it is about to be made, right before whatever is read of the configuration: the
// run is made at its new place, as that wants it, and denied nowhere. One that goes is not there.
func TestAnAgentThatMoves(t *testing.T) {
	t.Parallel()
	for _, at := range []struct {
		what string
		n    int
		gone bool
	}{{"agents", 1, false}, {"agents", 2, false}, {"policy", 1, false}, {"policy", 2, false}, {"agents", 2, true}, {"policy", 1, true}} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			old, moved := double.New(t, double.Config{}), double.New(t, double.Config{})
			synced := to(moved)
			synced.Mode = schemas.AgentSync
			next := []schemas.Agent{synced}
			if at.gone {
				next = nil
			}
			var r *env
			r = newEnv(t, options{reading: func(what string, n int) {
				if what == at.what && n == at.n {
					r.enforce(next...)
				}
			}}, to(old))
			e := r.run("1")
			assert.Zero(t, old.Hits())
			if at.gone {
				assert.Equal(t, schemas.AgentUnavailable, e.Code)
				assert.Empty(t, r.evidence("1"))
				return
			}
			assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
			assert.Equal(t, schemas.RouteRunSync, moved.WaitRun(1).Route)
			assert.Len(t, r.evidence("1"), 1)
			assert.Equal(t, map[string]int{double.TaskType: 0}, r.metrics.runs)
		})
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
		r := newEnv(t, options{}, to(a))
		late := make(chan ended, 1)
		st := r.claim("late", schemas.Run{}, 1<<40)
		go func() { late <- r.perform(st, still) }()
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
		again := to(a)
		again.Concurrency = 7
		r.enforce(again)
		r.runs.Refresh()
		assert.Equal(t, schemas.AgentUnavailable, r.run("open").Code, "its address has not changed")
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
	var r *env
	r = newEnv(t, options{reading: func(what string, n int) {
		if what == "agents" && n == 2 {
			r.enforce(to(moved))
		}
	}}, to(old))
	r.breakOff()
	assert.Equal(t, 5, moved.Hits())
}
