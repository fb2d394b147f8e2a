package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/schemas"
)

// evidence is I6. It reads the evidence stream against the log: each id is there once, and
// belongs to an action that was accepted; of an action of kind http or plan, to one of its
// attempts, a denial, or a plan's end; and such an action that has ended left a record of
// every attempt that has a result, of what was refused on its way, of the denial that it
// ended with, and of the end of its plan. A message that was parked has only the evidence that it came to.
func (c *checker) evidence() {
	stored := map[place]map[string]bool{} // by action: its records
	for _, r := range c.run.Evidence {
		var e schemas.Evidence
		if err := json.Unmarshal(r.Data, &e); err != nil {
			c.breach("I6", "", strconv.FormatUint(r.Seq, 10), "the evidence cannot be read")
			continue
		}
		at := place{e.Tenant, e.ActionID}
		if stored[at] == nil {
			stored[at] = map[string]bool{}
		}
		if stored[at][e.ID] {
			c.breach("I6", e.Tenant, e.ActionID, "the record %s is stored twice", e.ID)
			continue
		}
		stored[at][e.ID] = true
		c.grounds(at, e)
	}
	for _, a := range c.actions {
		if s := a.Settled(); s != nil && a.Accepted() != nil && calls(a.Kind) && s.Code != schemas.Poison {
			c.complete(a, *s, stored[place{a.Tenant, a.ID}])
		}
	}
}

// grounds says what is wrong with a record that nothing calls for.
func (c *checker) grounds(at place, e schemas.Evidence) {
	if !c.stored(at) {
		c.breach("I6", at.tenant, at.text, "the record %s is of an action that was never accepted", e.ID)
		return
	}
	for _, a := range c.byID[at] {
		if !calls(a.Kind) || a.Accepted() == nil {
			continue
		}
		what, ours := strings.CutPrefix(e.ID, a.ID+".")
		refused := strings.TrimSuffix(what, ".denial")
		switch {
		case !ours:
			c.breach("I6", at.tenant, at.text, "the record %s has not its action's id", e.ID)
		case what == "closing" && a.Kind == schemas.KindPlan, strings.HasPrefix(what, "denial."):
		case !a.tried(refused):
			c.breach("I6", at.tenant, at.text, "the record %s is of an attempt that the log does not have", e.ID)
		}
	}
}

// tried reports whether a record's name is that of an attempt with a result.
func (a *Action) tried(what string) bool {
	return slices.ContainsFunc(a.Tries, func(t *Try) bool { return t.Result != nil && t.record() == what })
}

// record is the name of the evidence of an attempt or a probe in its action.
func (t *Try) record() string {
	if t.Probe > 0 {
		return fmt.Sprintf("probe.%d.%d.%d.%d", t.Step, t.Probe, t.Number, t.Hop)
	}
	return fmt.Sprintf("attempt.%d.%d.%d", t.Step, t.Number, t.Hop)
}

// complete finds what an action should have left and has not.
func (c *checker) complete(a *Action, s schemas.Settled, stored map[string]bool) {
	want := func(what string) {
		if !stored[a.ID+"."+what] {
			c.breach("I6", a.Tenant, a.ID, "it ended %s without the record %s", s.Outcome, what)
		}
	}
	for _, t := range a.Tries {
		if t.Result == nil {
			continue
		}
		want(t.record())
		if t.Result.Code.Denied() {
			want(t.record() + ".denial")
		}
	}
	if a.Kind == schemas.KindPlan && (len(a.Tries) > 0 || s.Outcome != schemas.OutcomeCanceled) { // else it may have been canceled before anybody took it up
		want("closing")
	}
	if a.Kind == schemas.KindHTTP && s.Outcome == schemas.OutcomeDenied && !denial(stored, a.ID) {
		c.breach("I6", a.Tenant, a.ID, "it was denied, and no record says so")
	}
}

func denial(stored map[string]bool, id string) bool {
	for what := range stored {
		if strings.HasPrefix(what, id+".denial.") || strings.HasSuffix(what, ".denial") {
			return true
		}
	}
	return false
}
