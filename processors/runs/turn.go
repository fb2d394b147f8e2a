package runs

import (
	"fmt"
	"math"
	"time"

	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/call/agent"
	"weir/schemas"
)

// away says that the agent is left alone for now.
type away struct{ after time.Duration }

func (*away) Error() string { return "the agent is left alone" }

// well is *away where the agent is left alone.
func (d *agentState) well() error {
	if after := d.breaker.remaining(); after > 0 {
		return &away{after}
	}
	return nil
}

// acquire lets one call through, if the agent is not left alone; after that time one
// call is let through to see.
func (d *agentState) acquire(st *ledger.State) (*callPermit, error) {
	probe, ok := d.breaker.acquire()
	if !ok {
		return nil, &away{max(d.breaker.remaining(), time.Second)}
	}
	return &callPermit{breaker: d.breaker, state: st, before: len(st.Attempts), probe: probe}, nil
}

// callPermit is the leave to make one call, and learns from it. It belongs to one
// goroutine.
type callPermit struct {
	breaker *breaker
	state   *ledger.State
	before  int  // how many attempts there were
	probe   bool // no other call may start until this one has a result
}

// answering records that the agent begins to answer. A probe that got this far counts as
// successful: its run may take hours.
func (t *callPermit) answering(status int) {
	if t.probe && status < 500 {
		t.probe = false
		t.breaker.trial()
	}
}

// learn hears how the call came out. That the run's own time was up is no fault of
// the agent's, and an attempt of an earlier turn says nothing of it now, nor does
// one that a traffic rule answered, or for whose answer there was no memory.
func (t *callPermit) learn(r call.Result) {
	switch {
	case len(t.state.Attempts) == t.before || r.Denied || r.Canceled || r.Expired || r.Last.Mocked() || r.Last.Result.NoMemory:
	case faulty(r.Last.Result):
		t.breaker.failure(t.probe)
		t.probe = false
	case r.Last.Result.Status != 0:
		t.probe = false
		t.breaker.success()
	}
}

// over gives back a probe that has shown nothing. One that was sent and cut off has
// taken its time, and the next comes after as long again; where nothing was sent
// the next one is due at once.
func (t *callPermit) over() {
	switch {
	case !t.probe:
	case t.sent():
		t.breaker.cut()
	default:
		t.breaker.untried()
	}
}

// sent reports whether anything may have reached the agent in this turn.
func (t *callPermit) sent() bool {
	for _, try := range t.state.Attempts[t.before:] {
		if try.Result == nil || try.Result.Sent {
			return true
		}
	}
	return false
}

// faulty reports whether a call ended in a way that speaks of the agent, not of
// the run.
func faulty(res *schemas.Attempted) bool {
	return call.Faulty(res) && (res.Code != "" || !agent.NoRoute(res.Status))
}

// seconds rounds up.
func seconds(d time.Duration) string { return fmt.Sprintf("%d s", int(math.Ceil(d.Seconds()))) }
