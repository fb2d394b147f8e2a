package processors

import (
	"context"

	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// Performer does the work of one kind. It may be called on the state of an
// action that another worker began, and does nothing again that the log holds.
type Performer interface {
	// Perform works until there is a verdict. An error is the log's, or says
	// when to come back (*fault.Later, *Rest).
	Perform(ctx context.Context, st *ledger.State, stop call.Stop) (settle.Verdict, error)
	// Evidence is every record that the finished tries of an action have left, or
	// should have.
	Evidence(st *ledger.State) ([]schemas.Evidence, error)
}

// Local is a Performer whose work not every worker can do.
type Local interface {
	// Here returns nil if this worker can do an action's work, and otherwise when to look again
	// (*fault.Later). The pipeline calls it before it writes anything for the action.
	Here(ctx context.Context, st *ledger.State) error
}

// Starter is a Performer of which some actions do something that can be seen before they
// write anything down. That these have begun is an event of its own.
type Starter interface {
	Performer
	WritesStarted(st *ledger.State) bool
}

// Teller is a Performer that tells others how its actions ended.
type Teller interface {
	// Ended is called once an action's end is durable, and again if a worker may have
	// died before it returned.
	Ended(ctx context.Context, st *ledger.State) error
}
