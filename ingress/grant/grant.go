// Package grant holds what is asked for against the entries of the policy that
// a token may use. It refuses on ingress what names another entry; what names
// none is bounded where policy decides.
package grant

import (
	"encoding/json"
	"slices"

	"weir/internal/fault"
	"weir/internal/models"
	"weir/schemas"
)

// Caller is the sender of a request, with the properties that policy and traffic rules look
// at it.
type Caller struct {
	Tenant string
	// Kind is the kind of the action that would make the call.
	Kind schemas.Kind
	// TaskType is set for kind run.
	TaskType string
	// Principal is the id of the token; empty in open mode.
	Principal string
	// Entries are the only entries of the policy that may be used; empty: all.
	Entries []string
	// Models are patterns of the only models that may be used; empty: all.
	Models []string
}

// May reports whether the caller may use a model's name.
func (a Caller) May(name string) bool { return models.May(a.Models, name) }

// Enters reports whether the caller may use an entry of the policy.
func (a Caller) Enters(entry string) bool {
	return len(a.Entries) == 0 || slices.Contains(a.Entries, entry)
}

// Entry refuses the name of an entry which is not among entries; no name is none. No entries stand
// for all. It does not say whether there is such an entry.
func Entry(name string, entries []string) error {
	if name == "" || len(entries) == 0 || slices.Contains(entries, name) {
		return nil
	}
	return fault.New(schemas.Forbidden, "the token may not use the entry that allowlist_key names")
}

// Plan refuses a plan of which one decision names such an entry. A key that
// cannot be read is left to the decision's own turn, where nothing is sent for it.
func Plan(plan schemas.PlanRequest, entries []string) error {
	if len(entries) == 0 {
		return nil
	}
	for _, d := range plan.Plan.Decisions {
		var target map[string]json.RawMessage // read as the worker reads it
		name := ""
		if json.Unmarshal(d.TargetState, &target) != nil || json.Unmarshal(target["allowlist_key"], &name) != nil {
			continue
		}
		if err := Entry(name, entries); err != nil {
			return err
		}
	}
	return nil
}

// Task refuses a task type that a remote agent serves, if its entry is not among
// entries.
func Task(taskType string, entries []string) error {
	if len(entries) == 0 || slices.Contains(schemas.BuiltinTasks(), taskType) || slices.Contains(entries, schemas.AgentEntry(taskType)) {
		return nil
	}
	return fault.New(schemas.Forbidden, "the token may not run this task_type")
}

// Run is Task, and Entry or Plan of what a built-in task type performs.
func Run(run schemas.Run, entries []string) error {
	if err := Task(run.TaskType, entries); err != nil {
		return err
	}
	switch {
	case run.Call != nil:
		return Entry(run.Call.AllowlistKey, entries)
	case run.Plan != nil:
		return Plan(*run.Plan, entries)
	default:
		return nil
	}
}

// Both is what two limits leave together: no entries stand for all, and ok is
// false where nothing is left.
func Both(a, b []string) (entries []string, ok bool) {
	switch {
	case len(a) == 0:
		return b, true
	case len(b) == 0:
		return a, true
	}
	for _, e := range a {
		if slices.Contains(b, e) {
			entries = append(entries, e)
		}
	}
	return entries, len(entries) > 0
}

// BothModels is what two limits of models leave together: no patterns stand for all,
// and ok is false where nothing is left.
func BothModels(a, b []string) (patterns []string, ok bool) {
	switch {
	case len(a) == 0:
		return b, true
	case len(b) == 0:
		return a, true
	}
	for _, p := range a {
		if models.May(b, p) { // a pattern fits itself and those that are narrower
			patterns = append(patterns, p)
		}
	}
	for _, p := range b {
		if models.May(a, p) && !slices.Contains(patterns, p) {
			patterns = append(patterns, p)
		}
	}
	return patterns, len(patterns) > 0
}
