package outbound

import (
	"context"
	"net"
	"net/netip"

	"weir/internal/fault"
	"weir/internal/policy"
	"weir/schemas"
)

// Connect resolves and dials the target of a tunnel, by the checks and with the errors of Open. It
// puts nothing on the wire. The addresses are all of the answer: a later policy must permit each of
// them.
func (c *Client) Connect(ctx context.Context, p policy.Permit) (net.Conn, []netip.Addr, error) {
	if !p.Valid() || p.Connect() == "" || p.Method() != policy.MethodConnect {
		return nil, nil, &fault.Call{Code: schemas.DenyAddress, Cause: ErrNoPermit}
	}
	addrs, err := c.resolve(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	conn, err := c.connect(ctx, p, addrs)
	return conn, addrs, err
}
