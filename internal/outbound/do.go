package outbound

import (
	"context"
	"time"
)

// Do makes the one request that this connection is for and closes it. It
// returns a whole answer of any status, or a *fault.Call whose Sent is false
// only where provably no byte of the request left, and whose Status is set
// once a status line came. A second call is refused.
//
// ctx bounds everything; the client's limits bound each phase. When ctx ends,
// the connection is closed and Do returns at once.
func (c *Conn) Do(ctx context.Context, r Request) (*Response, error) {
	cfg := c.client.cfg
	x, err := c.exchange(ctx, r, terms{header: cfg.HeaderTimeout, body: cfg.BodyTimeout})
	if err != nil {
		return nil, err
	}
	defer x.end(nil)
	defer x.within(0)
	body, decoded, err := x.body(x.resp)
	if err != nil {
		return nil, err
	}
	x.wire.done()
	x.giveBack()
	return answer(x.resp, body, decoded, time.Now()), nil
}
