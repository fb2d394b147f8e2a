// Package dial is the one exchange behind all surfaces: a guarded connection and its pass, or the
// answer of a traffic rule without a connection; the request with what its entry adds; and what may
// be kept of a body: without the secrets that were sent, as JSON, text or base64.
package dial

import (
	"context"
	"errors"
	"time"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/processors/call"
	"weir/processors/guard"
	"weir/schemas"
)

// Adapter makes the calls of one surface. It is a call.Adapter, and safe for concurrent use where its
// functions are.
type Adapter struct {
	Client  *outbound.Client
	Secrets Secrets
	// Connect bounds the time until the connection stands; zero: the attempt's own time.
	Connect time.Duration
	// Fresh: every call has a connection of its own. Otherwise a call may use an idle one by its class,
	// because its attempts follow that.
	Fresh  bool
	Limits outbound.StreamLimits
	// Prepare changes the request before it is sent; nil: the body is the call's. An error means that
	// nothing is sent.
	Prepare func(ctx context.Context, p guard.Pass, r *outbound.Request) error
	// Read reads an answer of any status, a traffic rule's too. Its errors are those of
	// call.Exchange.Do.
	Read func(ctx context.Context, a *Answer) (*call.Reply, error)
}

// exchange is a connection to the target of a pass.
type exchange struct {
	adapter *Adapter
	conn    *outbound.Conn // nil for a mocked pass
	pass    guard.Pass     // the one in force
}

// Open connects to the target of a pass. For a mocked target nothing is ever resolved, dialled or
// sent. A redirect always dials, because its name must be resolved again.
func (a *Adapter) Open(ctx context.Context, p guard.Pass) (call.Exchange, error) {
	e := &exchange{adapter: a, pass: p}
	switch {
	case !p.Valid():
		return nil, call.ErrNoPass
	case p.Mocked():
		return e, nil
	}
	reuse := outbound.Fresh
	switch {
	case a.Fresh || p.IsRedirect():
	case p.Class().Repeatable():
		reuse = outbound.Kept
	default:
		reuse = outbound.Spare
	}
	if a.Connect > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.Connect)
		defer cancel()
	}
	var err error
	if e.conn, err = a.Client.Open(ctx, p.Permit(), p.Tenant(), reuse); err != nil {
		return nil, err
	}
	return e, nil
}

// Do reads the entry's secrets, which is as late as it can be, sends the request and has the answer
// read. If a traffic rule answers, nothing is sent, and its answer is read like the target's.
func (e *exchange) Do(ctx context.Context, p guard.Pass, begun func()) (reply *call.Reply, err error) {
	if p != e.pass {
		if err := e.renew(p); err != nil {
			return nil, err
		}
	}
	a := &Answer{Pass: p}
	if p.Mocked() {
		a.mock()
		return e.adapter.Read(ctx, a)
	}
	var req outbound.Request
	if req, a.Scrub, err = e.request(ctx); err == nil && e.adapter.Prepare != nil {
		err = e.adapter.Prepare(ctx, p, &req)
	}
	if err != nil {
		return nil, err
	}
	if p.Call().BodyBlob != "" {
		defer func() { unread(ctx, err) }()
	}
	req.Begun, a.Asked = begun, time.Now()
	s, err := e.conn.Stream(ctx, req, e.adapter.Limits)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	a.Stream, a.Response = s, s.Response
	return e.adapter.Read(ctx, a)
}

// unread changes the error of a call whose stored body could not be read to its end. The target has
// got less than it was announced.
func unread(ctx context.Context, err error) {
	if failed, ok := errors.AsType[*fault.Call](err); ok && ctx.Err() == nil && errors.Is(err, outbound.ErrBody) {
		failed.Code = schemas.Interrupted
	}
}

// renew switches the exchange to a fresh pass for the same call: its additions and allowed targets.
func (e *exchange) renew(p guard.Pass) error {
	switch {
	case !p.Valid(), p.Mocked() != (e.conn == nil):
		return &fault.Call{Code: schemas.DenyAddress, Cause: call.ErrNoPass}
	case p.Mocked(): // there is no connection
	case e.conn.Used() && !p.Class().Repeatable(): // a change of policy has made the call unrepeatable
		return &fault.Call{Code: schemas.UpstreamReset, Cause: errors.New("the connection has carried another request")}
	default:
		if err := e.conn.Recheck(p.Permit()); err != nil {
			return err
		}
	}
	e.pass = p
	return nil
}

// Close ends the connection and gives back the memory of its answer: it comes after the answer is stored.
func (e *exchange) Close() {
	if e.conn != nil {
		e.conn.Close()
		e.conn.Release()
	}
}
