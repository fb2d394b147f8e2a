package outbound

import (
	"errors"

	"weir/internal/fault"
	"weir/internal/policy"
	"weir/schemas"
)

// errElsewhere is behind the refusal of a permit for another target.
var errElsewhere = errors.New("the permit is for another target")

// Recheck has the connection go by p from now on: a permit for the same target
// that a newer policy gave. Every address of the answer that led to the
// connection must pass it, as they passed the first. The error is a *fault.Call
// with DENY_ADDRESS, not sent; the connection is then of no more use. Not to be
// called while Do or Stream runs.
func (c *Conn) Recheck(p policy.Permit) error {
	err := ErrNoPermit
	if p.Valid() {
		err = c.recheck(p)
	}
	if err != nil {
		return &fault.Call{Code: schemas.DenyAddress, Cause: err}
	}
	c.permit = p
	return nil
}

func (c *Conn) recheck(p policy.Permit) error {
	if p.Method() != c.permit.Method() || p.URL() != c.permit.URL() {
		return errElsewhere
	}
	return p.CheckAddrs(c.wire.addrs)
}

// Begun is closed when the request's first bytes are out of our hands, that is
// when the connection took them or failed to, or when it was closed without. A
// request of which nothing was offered by then never leaves.
func (c *Conn) Begun() <-chan struct{} { return c.wire.offered }
