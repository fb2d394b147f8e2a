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

// Adapter makes calls by one function. It is a call.Adapter.
type Adapter struct {
	Client *outbound.Client
	// Connect bounds the time until the connection stands; zero: the attempt's own time.
	Connect time.Duration
	// Fresh: every call has a connection of its own. Otherwise a call may use an idle one by its class,
	// because its attempts follow that.
	Fresh bool
	// Do makes the request of an exchange and reads its answer; see call.Exchange.
	Do func(ctx context.Context, l *Base) (*call.Reply, error)
}

// Base is a connection to the target of a pass. It is a call.Exchange.
type Base struct {
	Conn *outbound.Conn // nil for a mocked pass
	Pass guard.Pass     // the one in force

	do    func(ctx context.Context, l *Base) (*call.Reply, error)
	begun func()
}

// Open connects to the target of a pass. For a mocked target nothing is ever resolved, dialled or
// sent. A redirect always dials, because its name must be resolved again.
func (a Adapter) Open(ctx context.Context, p guard.Pass) (call.Exchange, error) {
	l := &Base{Pass: p, do: a.Do}
	switch {
	case !p.Valid():
		return nil, call.ErrNoPass
	case p.Mocked():
		return l, nil
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
	if l.Conn, err = a.Client.Open(ctx, p.Permit(), p.Tenant(), reuse); err != nil {
		return nil, err
	}
	return l, nil
}

// Do is Adapter.Do.
func (l *Base) Do(ctx context.Context, begun func()) (*call.Reply, error) {
	l.begun = begun
	return l.do(ctx, l)
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
