package direct

import (
	"weir/internal/fault"
	"weir/processors/call"
	"weir/processors/guard"
	"weir/schemas"
)

// Renew has the exchange go by a fresh pass for the same call: what it adds,
// where it may lead.
func (e *exchange) Renew(p guard.Pass) error {
	if !p.Valid() {
		return &fault.Call{Code: schemas.DenyAddress, Cause: call.ErrNoPass}
	}
	if err := e.conn.Recheck(p.Permit()); err != nil {
		return err
	}
	e.pass = p
	return nil
}

// Begun is closed when the request's first bytes were handed to the network, or
// when they never will be.
func (e *exchange) Begun() <-chan struct{} { return e.conn.Begun() }
