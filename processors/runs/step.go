package runs

import (
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
func route(step int) string {
	if step == stepSync {
		return schemas.RouteRunSync
	}
	return schemas.RouteRunStream
}

// known returns an error if an attempt on the log has a step that no run has.
func known(st *ledger.State) error {
	for _, t := range st.Attempts {
		if t.Step > stepSync {
			return &fault.Terminal{Code: schemas.Poison, Reason: "an attempt names a step that no run has"}
		}
	}
	return nil
}

// next is the step to make: the one that was begun, or the other one if the agent does not serve
// its route. The first step follows the agent's mode, or the choice of the run's caller.
func next(st *ledger.State, a schemas.Agent) int {
	switch last := newest(st); {
	case last != nil && fallsBack(st):
		return other(last.Step)
	case last != nil:
		return last.Step
	case a.Mode == schemas.AgentSync, a.Mode != schemas.AgentStream && st.Action.Sync:
		return stepSync
	default:
		return stepStream
	}
}

// finished is the step that has ended, if the log holds that and no other is to
// follow it.
func finished(st *ledger.State) (step int, over bool) {
	last := newest(st)
	if last == nil || last.Result == nil || !last.Result.RetryAt.IsZero() || fallsBack(st) {
		return 0, false
	}
	return last.Step, true
}

func newest(st *ledger.State) *ledger.Attempt {
	if n := len(st.Attempts); n > 0 {
		return &st.Attempts[n-1]
	}
	return nil
}

// other is the step of the other route.
func other(step int) int { return stepStream + stepSync - step }

// fallsBack reports whether the newest attempt proved that the agent does not serve its
// route, and the other one was not asked.
func fallsBack(st *ledger.State) bool {
	last := newest(st)
	return last != nil && last.Result != nil && last.Result.Code == "" && last.Result.Answer != nil && last.Result.Answer.NoRoute &&
		len(st.AttemptsOf(other(last.Step))) == 0
}
