package stream

import "weir/schemas"

// Selection asks an index which actions there are.
type Selection struct {
	Tenant string // empty: all tenants
	Kind   schemas.Kind
	// Ended selects actions with one of these outcomes, and those that ended with POISON, whose
	// record need not state the outcome. Open selects those that have not ended. Without either,
	// all are selected.
	Ended  []schemas.Outcome
	Open   bool
	Limit  int
	Cursor string // the next of an earlier page
}

// Selected is one page of a selection, the newest first. Only the log knows whether an action
// of it is still open, or still there. Next is empty on the last page.
type Selected struct {
	Items     []SelectedRef
	Next      string
	Freshness schemas.Freshness
}

// SelectedRef names an action. Next is the cursor of a page that starts after it.
type SelectedRef struct {
	schemas.Ref

	Next string
}
