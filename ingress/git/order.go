package git

import (
	"weir/internal/gitwire"
	"weir/internal/task"
	"weir/schemas"
)

// Order is the push that commands ask for, at least one. Where it may not be, it says
// why: Denied.
func Order(g task.Grant, c gitwire.Commands) schemas.PushOrder {
	first := c.List[0]
	o := schemas.PushOrder{
		Repo: g.Repo, Ref: first.Ref, Old: first.Old, New: first.New,
		TaskID: g.TaskID, Lease: g.Lease, Key: g.Key, Branch: g.Branch, Force: g.Force, Holder: g.Holder,
		Denied:   denied(g, c.List),
		Report:   c.Reports(),
		SideBand: c.Has(gitwire.CapSideBand),
	}
	// Those that change what git does; the others only tell who the client is.
	for _, name := range []string{gitwire.CapAtomic, gitwire.CapOfsDelta, gitwire.CapQuiet, gitwire.CapReport, gitwire.CapSideBand} {
		if c.Has(name) {
			o.Capabilities = append(o.Capabilities, name)
		}
	}
	return o
}

// denied is why a task's token may not have an update, or nothing: it updates the
// task's own branch, and does that alone.
func denied(g task.Grant, list []gitwire.Command) string {
	ref := schemas.RefOf(g.Branch)
	first := list[0]
	switch {
	case len(list) > 1:
		return "a push may update one branch alone: push to " + ref + " and to nothing else"
	case first.Ref != ref:
		return "this token may push to its task's branch alone: push to " + ref
	case first.New == gitwire.Zero:
		return "a task's branch may not be deleted: push commits to " + ref + " instead"
	case first.Old == gitwire.Zero:
		return "a task's branch may not be created, only updated: fetch " + ref + ", and push what is built on it"
	default:
		return ""
	}
}
