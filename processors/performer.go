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
