package outbound

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

var errPhaseTime = errors.New("the phase took too long")

// Do makes the one request that this connection is for and closes it. It
// returns a whole answer of any status, or a *fault.Call whose Sent is false
// only where provably no byte of the request left, and whose Status is set
// once a status line came. A second call is refused.
//
// ctx bounds everything; the client's limits bound each phase. When ctx ends,
// the connection is closed and Do returns at once.
func (c *Conn) Do(ctx context.Context, r Request) (*Response, error) {
	if c.spent.Swap(true) {
		return nil, &fault.Call{Code: schemas.Internal, Cause: ErrSpent}
	}
	defer c.Close()
	if code, over := givenUp(ctx); over {
		return nil, &fault.Call{Code: code, Cause: &PhaseError{PhaseHeader, context.Cause(ctx)}}
	}
	if err := c.wire.probe(); err != nil {
		return nil, lostBefore(err)
	}
	x := &exchange{Conn: c, caller: ctx, phase: PhaseHeader}
	inner, cancel := context.WithCancelCause(context.WithValue(ctx, handOverKey{}, c.wire))
	defer cancel(nil)
	x.ctx = inner
	req, err := build(inner, c.permit, r)
	if err != nil {
		return nil, err
	}
	x.timer = time.AfterFunc(c.client.cfg.HeaderTimeout, func() { cancel(errPhaseTime) })
	defer x.timer.Stop()
	return x.run(req)
}

// lostBefore is a connection that ended, or spoke, before it was used.
func lostBefore(err error) *fault.Call {
	code := schemas.UpstreamReset
	if errors.Is(err, errUnsolicited) {
		code = schemas.UpstreamProtocol
	}
	return &fault.Call{Code: code, Cause: &PhaseError{PhaseHeader, err}}
}

// exchange is one request and its answer.
type exchange struct {
	*Conn
	caller context.Context //nolint:containedctx // lives as long as the call of Do that made it
	ctx    context.Context //nolint:containedctx // the same, and ends with the phase's time
	timer  *time.Timer
	phase  Phase
	status int
}

func (x *exchange) run(req *http.Request) (*Response, error) {
	port := strconv.Itoa(int(x.permit.Port()))
	one, err := x.client.transport.NewClientConn(x.ctx, req.URL.Scheme, net.JoinHostPort(x.permit.Host(), port))
	if err != nil {
		return nil, x.fail(schemas.UpstreamConnect, err)
	}
	defer one.Close() // the wire closes itself
	resp, err := one.RoundTrip(req)
	if err != nil {
		return nil, x.headerFailure(err)
	}
	defer resp.Body.Close() // read to its end below, or given up
	if err := x.headerOver(resp); err != nil {
		return nil, err
	}
	body, decoded, err := x.body(resp)
	if err != nil {
		return nil, err
	}
	x.wire.done()
	return answer(resp, body, decoded, time.Now()), nil
}

// headerOver checks the header as a whole and begins the body's time.
func (x *exchange) headerOver(resp *http.Response) error {
	x.wire.headerDone()
	x.status = resp.StatusCode
	if resp.ProtoMajor != 1 || x.status < 200 || x.status > 599 {
		return x.fail(schemas.UpstreamProtocol, errors.New("not a final answer of HTTP/1"))
	}
	if !x.timer.Reset(x.client.cfg.BodyTimeout) {
		return x.fail(schemas.UpstreamTimeout, errPhaseTime) // it fired between the answer and here
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
	x.phase = PhaseBody
	return nil
}

// headerFailure finds the word for an exchange without an answer.
func (x *exchange) headerFailure(err error) error {
	spoke, readErr := x.wire.seen()
	switch {
	case errors.Is(readErr, errHeaderBytes):
		return x.fail(schemas.UpstreamHeadersTooLarge, err)
	case broken(err, readErr) || readErr != nil && spoke == begun:
		return x.fail(schemas.UpstreamReset, err)
	default: // it was read, and is not HTTP
		return x.fail(schemas.UpstreamProtocol, err)
	}
}

// broken tells a connection that ended from bytes that make no sense. For the
// end before a trailer net/http has no value but a text.
func broken(err, readErr error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || readErr != nil && errors.Is(err, readErr) ||
		strings.Contains(err.Error(), "unexpected EOF")
}

// bodyFailure finds the word for an answer that broke off in its body.
func (x *exchange) bodyFailure(err error) error {
	_, readErr := x.wire.seen()
	switch {
	case broken(err, readErr):
		return x.fail(schemas.UpstreamTruncated, err)
	case strings.Contains(err.Error(), "suspiciously long trailer"): // net/http has no value for it
		return x.fail(schemas.UpstreamHeadersTooLarge, err)
	default:
		return x.fail(schemas.UpstreamProtocol, err)
	}
}

// fail seals the wire and makes the call's error. That the caller or the clock
// gave up explains whatever the connection then did.
func (x *exchange) fail(code schemas.Code, cause error) *fault.Call {
	sent := x.wire.seal()
	if own, over := givenUp(x.caller); over {
		code = own
	} else if errors.Is(context.Cause(x.ctx), errPhaseTime) {
		code = schemas.UpstreamTimeout
	}
	return &fault.Call{Code: code, Sent: sent, Status: x.status, Cause: &PhaseError{x.phase, cause}}
}
