package runs

import (
	"context"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

// progress writes one event of the agent to the log. One that the log does not take ends
// the call: the run is over for Weir, and what the agent did is not known.
func (m *Remote) progress(ctx context.Context, st *ledger.State, p schemas.RunProgress) error {
	doc, err := ledger.Encode(p)
	if err != nil {
		return &fault.Call{Code: schemas.UpstreamProtocol, Sent: true, Cause: err}
	}
	return call.Relay(ctx, m.ledger, st, schemas.Event{Type: schemas.EventProgress, Data: doc})
}
