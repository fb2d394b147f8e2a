package agent

import (
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"weir/schemas"
)

// Request is one run that the agent was asked for.
type Request struct {
	// Route is schemas.RouteRunSync or schemas.RouteRunStream.
	Route  string
	Header http.Header
	Body   []byte
	// Run is Body, decoded.
	Run schemas.RunRequest

	closed chan struct{}
	done   atomic.Bool
	cut    atomic.Bool
	sent   atomic.Int64
}

// Closed is closed when the exchange is over: the answer is out, or the caller
// has left, or the agent cut it off.
func (r *Request) Closed() <-chan struct{} { return r.closed }

// Done reports whether all of the answer was written.
func (r *Request) Done() bool { return r.done.Load() }

// Cut reports whether the exchange ended before all of the answer was written:
// the caller left, or the agent was stopped or died of its fault.
func (r *Request) Cut() bool { return r.cut.Load() }

// Sent counts the events that were written so far.
func (r *Request) Sent() int { return int(r.sent.Load()) }

// Ledger is every run the agent was asked for so far, in order of arrival, those
// it refused left out. A run is in it before the first byte of its answer.
func (a *Agent) Ledger() []*Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.ledger)
}

// Hits counts the runs in the ledger.
func (a *Agent) Hits() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ledger)
}

// Refused counts the requests that were refused: no token, no request, a task
// type that is not served.
func (a *Agent) Refused() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// guard is how long a wait lasts before it fails the test.
const guard = time.Minute

// WaitRun blocks until the n-th run, counted from 1, has come, and returns it.
// It fails the test after 10 s, and must be called from the test's goroutine.
func (a *Agent) WaitRun(n int) *Request {
	a.t.Helper()
	a.wait("runs", func() bool { return len(a.ledger) >= n })
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ledger[n-1]
}

// WaitIdle blocks until no run is under way.
func (a *Agent) WaitIdle() {
	a.t.Helper()
	a.wait("idleness", func() bool { return a.runs == 0 })
}

// wait blocks until cond, called under the lock, holds.
func (a *Agent) wait(what string, cond func() bool) {
	a.t.Helper()
	late := false
	timer := time.AfterFunc(guard, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		late = true
		a.changed.Broadcast()
	})
	defer timer.Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	for !cond() {
		if late {
			a.t.Fatalf("agent: waited too long for %s", what)
		}
		a.changed.Wait()
	}
}

// enter writes a run to the ledger and takes its act.
func (a *Agent) enter(r *Request) Act {
	a.mu.Lock()
	defer a.mu.Unlock()
	act := a.cfg.Script[min(len(a.ledger), len(a.cfg.Script)-1)]
	a.ledger = append(a.ledger, r)
	a.runs++
	a.changed.Broadcast()
	return act
}

func (a *Agent) leave(r *Request) {
	if !r.done.Load() {
		r.cut.Store(true)
	}
	close(r.closed)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs--
	a.changed.Broadcast()
}

func (a *Agent) refuse() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused++
}
