package runs

import (
	"time"

	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/call/agent"
	"weir/schemas"
)

// acquire permits one call, unless the breaker is open; after its time it permits a single probe.
func (d *agentState) acquire(st *ledger.State) (*callPermit, error) {
	probe, ok := d.breaker.acquire()
	if !ok {
		return nil, paused(max(d.breaker.remaining(), time.Second))
	}
	return &callPermit{breaker: d.breaker, state: st, before: len(st.Attempts), probe: probe}, nil
}

// callPermit permits one call, and passes its result to the breaker. It belongs to one goroutine.
type callPermit struct {
	breaker *breaker
	state   *ledger.State
	before  int  // the number of earlier attempts
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
	case len(t.state.Attempts) == t.before || r.Last == nil || r.Denied || r.Canceled || r.Expired || r.Last.Mocked() || r.Last.Result.NoMemory:
	case faulty(r.Last.Result):
		t.breaker.failure(t.probe)
		return
	case r.Last.Result.Status != 0:
		t.breaker.success()
		return
	}
	if t.probe { // it has shown nothing
		t.breaker.returned(t.sent())
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
