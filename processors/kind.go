package processors

import (
	"context"

	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// Executor does the work of one kind. It may be called on the state of an
// action that another worker began, and does nothing again that the log holds.
type Executor interface {
	// Execute works until there is a verdict. The payload is loaded, wherever it is stored. An error
	// is the log's, or says when to come back (*fault.Later, *Rest).
	Execute(ctx context.Context, st *ledger.State, stop call.Stop) (settle.Outcome, error)
	// Evidence is every record that the finished attempts of an action have stored or should have;
	// nil for a kind without calls.
	Evidence(st *ledger.State) ([]schemas.Evidence, error)
}

// Kind is what the pipeline knows of one kind: its executor, and hooks that most kinds do not
// have.
type Kind struct {
	Executor

	// Here returns nil if this worker can do an action's work, and otherwise when to look again
	// (*fault.Later). The pipeline calls it before it writes anything for the action. nil: every
	// worker can.
	Here func(ctx context.Context, st *ledger.State) error
	// WritesStarted reports whether an action does something that can be seen before it writes
	// anything down: that it has begun is then an event of its own. nil: none does.
	WritesStarted func(st *ledger.State) bool
	// Ended is called once an action's end is durable, and again if a worker may have
	// died before it returned.
	Ended func(ctx context.Context, st *ledger.State) error
}

// Always is a WritesStarted of kinds all of whose actions do.
func Always(*ledger.State) bool { return true }
