package outbound

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/schemas"
)

// exchange is one request and its answer. It belongs to one goroutine, but for end.
type exchange struct {
	*Conn
	caller context.Context //nolint:containedctx // lives as long as the exchange
	ctx    context.Context //nolint:containedctx // the same, and ends with the phase's time
	cancel context.CancelCauseFunc
	timer  *time.Timer // ends ctx; nil until a phase is bounded
	timed  bool        // the phase is
	phase  Phase
	status int
	source *source // what is sent as it is read; nil: nothing is
	one    *http.ClientConn
	resp   *http.Response
}

// terms are what Do and Stream differ in before the body.
type terms struct {
	identity bool          // a body without coding is asked for
	header   time.Duration // the phase's limit; none if not positive
	body     time.Duration
}

// exchange sends the connection's request and returns when the answer's headers
// are there and checked. The caller ends the exchange; after an error there is
// none to end, and the connection is closed.
func (c *Conn) exchange(ctx context.Context, r Request, t terms) (*exchange, error) {
	if c.spent.Swap(true) {
		if r.Stream != nil {
			_ = r.Stream.Close()
		}
		return nil, &fault.Call{Code: schemas.Internal, Cause: ErrSpent}
	}
	x := &exchange{Conn: c, caller: ctx, phase: PhaseHeader}
	x.ctx, x.cancel = context.WithCancelCause(context.WithValue(ctx, handOverKey{}, c.wire))
	if r.Stream != nil {
		x.source = &source{from: r.Stream, wire: c.wire}
		c.wire.feed(x.source)
	}
	if err := x.begin(r, t); err != nil {
		x.within(0)
		x.end(nil)
		return nil, err
	}
	return x, nil
}

func (x *exchange) begin(r Request, t terms) error {
	if code, over := givenUp(x.caller); over {
		return &fault.Call{Code: code, Cause: &PhaseError{PhaseHeader, context.Cause(x.caller)}}
	}
	if err := x.wire.probe(); err != nil {
		return lostBefore(err)
	}
	req, err := build(x.ctx, x.permit, r, x.source, t.identity)
	if err != nil {
		return err
	}
	x.within(t.header)
	port := strconv.Itoa(int(x.permit.Port()))
	x.one, err = x.client.transport.NewClientConn(x.ctx, req.URL.Scheme, net.JoinHostPort(x.permit.Host(), port))
	if err != nil {
		return x.fail(schemas.UpstreamConnect, err)
	}
	if x.resp, err = x.one.RoundTrip(req); err != nil { //nolint:bodyclose // end does
		return x.headerFailure(err)
	}
	failpoint.At(failpoint.Begun, x.permit.RequestTarget())
	if err := x.headerOver(x.resp); err != nil {
		return err
	}
	if !x.within(t.body) {
		return x.fail(schemas.UpstreamTimeout, errPhaseTime) // it fired between the answer and here
	}
	x.phase = PhaseBody
	return nil
}

// within bounds the phase that begins, in place of the one before; without a
// limit, ctx alone bounds it. It reports whether the one before was in time.
func (x *exchange) within(limit time.Duration) (inTime bool) {
	if x.timed && !x.timer.Stop() {
		return false
	}
	switch x.timed = limit > 0; {
	case !x.timed:
	case x.timer == nil:
		x.timer = time.AfterFunc(limit, func() { x.cancel(errPhaseTime) })
	default:
		x.timer.Reset(limit)
	}
	return true
}

// end lets go of everything, and of whoever still reads. The first cause is the
// one that counts. It may be called more than once and from any goroutine.
func (x *exchange) end(cause error) {
	x.cancel(cause)
	if x.resp != nil {
		_ = x.resp.Body.Close() // read to its end, or given up
	}
	if x.one != nil {
		_ = x.one.Close() // the wire closes itself
	}
	x.Close()
}

// headerOver checks the header as a whole.
func (x *exchange) headerOver(resp *http.Response) error {
	x.wire.headerDone()
	x.status = resp.StatusCode
	if resp.ProtoMajor != 1 || x.status < 200 || x.status > 599 {
		return x.fail(schemas.UpstreamProtocol, errors.New("not a final answer of HTTP/1"))
	}
	fields, size := 0, int64(0)
	for name, values := range resp.Header {
		if !token(name) { // net/http lets a space before the colon pass, as part of the name
			return x.fail(schemas.UpstreamProtocol, errors.New("a field's name is not a token"))
		}
		for _, v := range values {
			fields++
			size += int64(len(name) + len(": ") + len(v) + len("\r\n"))
		}
	}
	if fields > x.client.cfg.MaxHeaderFields || size > x.client.cfg.MaxHeaderBytes {
		return x.fail(schemas.UpstreamHeadersTooLarge, errHeaderBytes)
	}
	return nil
}
