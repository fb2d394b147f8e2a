package runs

import (
	"slices"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// The steps of a run: one a route.
const (
	stepStream = iota
	stepSync
)

// route is the route of a step.
func route(step int) (string, error) {
	switch step {
	case stepStream:
		return schemas.RouteRunStream, nil
	case stepSync:
		return schemas.RouteRunSync, nil
	default:
		return "", &fault.Parked{Code: schemas.Poison, Reason: "an attempt names a step that no run has"}
	}
}

// target names a call without its values, and without the agent's address: that
// is the configuration's, which may be another one when the record is left again.
func target(taskType string, step int) (string, error) {
	route, err := route(step)
	return "POST " + schemas.AgentEntry(taskType) + route, err
}

// next is the step to be made: the one that was begun, else the one that the
// agent's mode says; and behind a stream that there is not, the other.
func next(st *ledger.State, a schemas.Agent) int {
	switch last := newest(st); {
	case last == nil && a.Mode == schemas.AgentSync, last != nil && noStream(last):
		return stepSync
	case last == nil:
		return stepStream
	default:
		return last.Step
	}
}

// finished is the step that has ended, if the log holds that and no other is to
// follow it.
func finished(st *ledger.State) (step int, over bool) {
	last := newest(st)
	if last == nil || last.Result == nil || !last.Result.RetryAt.IsZero() || noStream(last) {
		return 0, false
	}
	return last.Step, true
}

func newest(st *ledger.State) *ledger.Try {
	if n := len(st.Attempts); n > 0 {
		return &st.Attempts[n-1]
	}
	return nil
}

// noStream reports whether an attempt found that the agent has no stream.
func noStream(t *ledger.Try) bool {
	return t.Step == stepStream && t.Result != nil && t.Result.Code == "" && noSuchRoute(t.Result.Status)
}

// noSuchRoute holds for what agents answer that have no stream.
func noSuchRoute(status int) bool { return slices.Contains([]int{404, 405, 406, 501}, status) }
