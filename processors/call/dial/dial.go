// Package dial is the common part of all exchanges: a guarded connection and its pass, or the
// answer of a traffic rule without a connection; the request with what its entry adds; and what may
// be kept of a body: without the secrets that were sent, as JSON, text or base64.
package dial

import (
	"context"
	"errors"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/retry"
	"weir/processors/call"
	"weir/processors/guard"
	"weir/schemas"
)

// errUsed is the cause if a change of policy makes a started call unrepeatable.
var errUsed = errors.New("the connection has carried another request")

// Base is a connection to the target of a pass. It implements call.Exchange except Do.
type Base struct {
	Conn *outbound.Conn // nil for a mocked pass
	Pass guard.Pass     // the one in force

	begun <-chan struct{}
}

// Open connects to the target of a pass. For a mocked target nothing is ever resolved, dialled or
// sent. idle: the call's attempts follow its class, so it may use an idle connection. A redirect
// dials anyway, because its name must be resolved again.
func Open(ctx context.Context, c *outbound.Client, p guard.Pass, idle bool) (*Base, error) {
	switch {
	case !p.Valid():
		return nil, call.ErrNoPass
	case p.Mocked():
		never := make(chan struct{})
		close(never)
		return &Base{Pass: p, begun: never}, nil
	}
	var conn *outbound.Conn
	var err error
	if idle && !p.IsRedirect() {
		conn, err = c.Acquire(ctx, p.Permit(), p.Tenant(), p.Class().Repeatable())
	} else {
		conn, err = c.Open(ctx, p.Permit())
	}
	if err != nil {
		return nil, err
	}
	conn.Bound(p.Tenant())
	return &Base{conn, p, conn.Begun()}, nil
}

// Renew switches the exchange to a fresh pass for the same call: its additions and allowed targets.
func (l *Base) Renew(p guard.Pass) error {
	switch {
	case !p.Valid(), p.Mocked() != (l.Conn == nil):
		return &fault.Call{Code: schemas.DenyAddress, Cause: call.ErrNoPass}
	case p.Mocked(): // there is no connection
	case l.Conn.Used() && !p.Class().Repeatable():
		return &fault.Call{Code: schemas.UpstreamReset, Cause: errUsed}
	default:
		if err := l.Conn.Recheck(p.Permit()); err != nil {
			return err
		}
	}
	l.Pass = p
	return nil
}

// Begun is closed when the request's first bytes were handed to the network, or
// when they never will be.
func (l *Base) Begun() <-chan struct{} { return l.begun }

// Close ends the connection and gives back the memory of its answer: it comes after the answer is stored.
func (l *Base) Close() {
	if l.Conn != nil {
		l.Conn.Close()
		l.Conn.Release()
	}
}

// head is the method whose answers have no body.
const head = "HEAD"

// Mock is the answer of the traffic rule that answers in the target's place, in the
// form in which an upstream's would have come.
func (l *Base) Mock() *outbound.Response {
	a := l.Pass.Answer()
	r := &outbound.Response{Status: a.Status, Headers: a.Headers}
	if l.Pass.Call().Method != head && len(a.Body) > 0 {
		r.Body = a.Body
	}
	values := func(name string) (all []string) {
		for _, h := range a.Headers {
			if strings.EqualFold(h.Name, name) {
				all = append(all, h.Value)
			}
		}
		return all
	}
	r.RetryAfter = retry.Wish(r.Status, values, time.Now())
	if locations := values("location"); len(locations) == 1 {
		r.Location = locations[0]
	}
	return r
}
