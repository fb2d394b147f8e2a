//go:build e2e

package crash_test

import (
	"fmt"
	"slices"

	"weir/internal/retry"
	"weir/internal/weirtest/callers"
	"weir/internal/weirtest/history"
	"weir/schemas"
)

// compare holds how the actions ended against what the fault should come to.
func (r *trial) compare(run history.Run) {
	ends, heard := map[string]schemas.Outcome{}, map[string]int{}
	for _, a := range run.Asked {
		if a.Outcome != "" {
			ends[a.Name] = a.Outcome
		}
	}
	for _, h := range run.Hits {
		heard[h.Mark]++
	}
	for _, class := range r.cell.classes {
		want := schemas.OutcomeSucceeded
		switch {
		case class == denied:
			want = schemas.OutcomeDenied
		case class == post && !r.certain():
			continue
		case class == post && (!r.cell.appends || r.nth[class] == theAttempt):
			want = r.cell.once
			if got := heard[r.name(class)]; got != r.cell.heard {
				r.unexpected(class, "the upstream heard it %d times, not %d", got, r.cell.heard)
			}
		}
		if got := ends[r.name(class)]; got != want && !r.spent(run, class, got) {
			r.unexpected(class, "it ended %s, not %s", got, want)
		}
	}
}

// spent: an action that may be repeated was at work at three kills, as on a slow machine it
// may be, when those of the classes after it come while it is made again. It has no further
// attempt, and nobody knows how it ended.
func (r *trial) spent(run history.Run, class string, got schemas.Outcome) bool {
	attempts := retry.Default().Attempts
	if got != schemas.OutcomeUnknown || r.kills < attempts || !slices.Contains([]string{get, put, keyed}, class) {
		return false
	}
	interrupted := 0
	for _, a := range history.Read(run.Log) {
		for _, try := range a.Tries {
			if a.ID == r.name(class) && try.Result != nil && try.Result.Code == schemas.Interrupted {
				interrupted++
			}
		}
	}
	return interrupted >= attempts
}

// certain: what a POST was at when the program died is known.
func (r *trial) certain() bool {
	for _, times := range r.times {
		if times > 1 { // another class's second fault comes when it will
			return false
		}
	}
	claim := r.cell.appends && r.cell.act == "kill" && r.nth[post] == 1
	return r.cell.once != "" && !claim
}

func (r *trial) unexpected(class, format string, args ...any) {
	r.violations = append(r.violations, history.Violation{Invariant: r.cell.row, Tenant: callers.Tenant, Subject: class, Detail: fmt.Sprintf(format, args...)})
}
