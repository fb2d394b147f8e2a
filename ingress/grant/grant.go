// Package grant holds what is asked for against the entries of the policy that
// a token may use. It refuses at the door what names another entry; what names
// none is bounded where policy decides.
package grant

import (
	"encoding/json"
	"slices"

	"weir/internal/fault"
	"weir/schemas"
)

// Asker is who asks for something, as far as the policy and the traffic rules look
// at it.
type Asker struct {
	Tenant string
	// Kind is that of the action which would make a call.
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

// Call refuses a call that names an entry which is not among entries. No
// entries stand for all.
func Call(call schemas.HTTPCall, entries []string) error {
	return key(call.AllowlistKey, entries)
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
		if err := key(name, entries); err != nil {
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

// Run is Task, and Call or Plan of what a built-in task type performs.
func Run(run schemas.Run, entries []string) error {
	if err := Task(run.TaskType, entries); err != nil {
		return err
	}
	switch {
	case run.Call != nil:
		return Call(*run.Call, entries)
	case run.Plan != nil:
		return Plan(*run.Plan, entries)
	default:
		return nil
	}
}

// Repo refuses the making of a repository whose upstream goes by such an entry.
func Repo(order schemas.RepoOrder, entries []string) error {
	return key(order.AllowlistKey, entries)
}

// Payload is Call, Plan, Run or Repo, by the kind of what lies on the log. One that cannot
// be read is a *fault.Parked.
func Payload(kind schemas.Kind, payload json.RawMessage, entries []string) error {
	switch {
	case len(entries) == 0:
		return nil
	case kind == schemas.KindHTTP:
		var call schemas.HTTPCall
		if err := json.Unmarshal(payload, &call); err != nil {
			return errPayload(err)
		}
		return Call(call, entries)
	case kind == schemas.KindPlan:
		var plan schemas.PlanRequest
		if err := json.Unmarshal(payload, &plan); err != nil {
			return errPayload(err)
		}
		return Plan(plan, entries)
	case kind == schemas.KindRun:
		var run schemas.Run
		if err := json.Unmarshal(payload, &run); err != nil {
			return errPayload(err)
		}
		return Run(run, entries)
	case kind == schemas.KindRepo:
		var repo schemas.RepoOrder
		if err := json.Unmarshal(payload, &repo); err != nil {
			return errPayload(err)
		}
		return Repo(repo, entries)
	case kind == schemas.KindTask, kind == schemas.KindPush: // what they may call is their repository's
		return nil
	case kind == schemas.KindChat: // it names none: models that go by others are left out
		return nil
	case kind == schemas.KindRule: // they steer the calls of every entry
		return fault.New(schemas.Forbidden, "a token that is limited to entries of the policy may not write rules")
	default:
		return errEntry()
	}
}

func key(name string, entries []string) error {
	if name == "" || len(entries) == 0 || slices.Contains(entries, name) {
		return nil
	}
	return errEntry()
}

// errEntry does not say whether there is such an entry.
func errEntry() error {
	return fault.New(schemas.Forbidden, "the token may not use the entry that allowlist_key names")
}

func errPayload(err error) error {
	return &fault.Parked{Code: schemas.Poison, Reason: "the payload cannot be read", Cause: err}
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

// Covers reports whether whoever may use entries may use all of those that something
// was made with. No entries stand for all.
func Covers(entries, of []string) bool {
	if len(entries) == 0 {
		return true
	}
	for _, e := range of {
		if !slices.Contains(entries, e) {
			return false
		}
	}
	return len(of) > 0
}
