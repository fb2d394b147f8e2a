// Package dial is what an exchange has whatever it speaks: a guarded connection
// and the pass that it goes by, or the answer of a traffic rule and no connection.
package dial

import (
	"context"
	"errors"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/processors/call"
	"weir/processors/guard"
	"weir/schemas"
)

// errUsed is the cause if a change of policy makes a started call unrepeatable.
var errUsed = errors.New("the connection has carried another request")

// Base is a connection to the target of a pass. It is every part of a
// call.Exchange but Do.
type Base struct {
	Conn *outbound.Conn // nil of a mocked pass
	Pass guard.Pass     // the one in force

	begun <-chan struct{}
}

// Open dials the target of a pass. For a mocked target nothing is ever resolved, dialled or sent.
func Open(ctx context.Context, c *outbound.Client, p guard.Pass) (*Base, error) {
	return open(p, func() (*outbound.Conn, error) { return c.Open(ctx, p.Permit()) })
}

// Take is Open for a call whose attempts follow its class: it may be given a connection that
// waits. That of a redirect is dialled, since its name is looked up anew.
func Take(ctx context.Context, c *outbound.Client, p guard.Pass) (*Base, error) {
	if !p.Valid() || p.Hop() {
		return Open(ctx, c, p)
	}
	return open(p, func() (*outbound.Conn, error) { return c.Take(ctx, p.Permit(), p.Tenant(), p.Class().Repeatable()) })
}

func open(p guard.Pass, connect func() (*outbound.Conn, error)) (*Base, error) {
	if !p.Valid() {
		return nil, call.ErrNoPass
	}
	if p.Mocked() {
		never := make(chan struct{})
		close(never)
		return &Base{Pass: p, begun: never}, nil
	}
	conn, err := connect()
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
	case p.Mocked():
		l.Pass = p
		return nil
	}
	if l.Conn.Used() && !p.Class().Repeatable() {
		return &fault.Call{Code: schemas.UpstreamReset, Cause: errUsed}
	}
	if err := l.Conn.Recheck(p.Permit()); err != nil {
		return err
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
