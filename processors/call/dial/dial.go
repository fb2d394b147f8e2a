// Package dial is what an exchange has whatever it speaks: a guarded connection
// and the pass that it goes by, or the answer of a traffic rule and no connection.
package dial

import (
	"context"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/processors/call"
	"weir/processors/guard"
	"weir/schemas"
)

// Line is a connection to the target of a pass. It is every part of a
// call.Exchange but Do.
type Line struct {
	Conn *outbound.Conn // nil of a mocked pass
	Pass guard.Pass     // the one in force

	begun <-chan struct{}
}

// Open dials the target of a pass. For a mocked one nothing is resolved, dialled or
// sent, whatever becomes of the line.
func Open(ctx context.Context, c *outbound.Client, p guard.Pass) (*Line, error) {
	if !p.Valid() {
		return nil, call.ErrNoPass
	}
	if p.Mocked() {
		never := make(chan struct{})
		close(never)
		return &Line{Pass: p, begun: never}, nil
	}
	conn, err := c.Open(ctx, p.Permit())
	if err != nil {
		return nil, err
	}
	conn.Bound(p.Tenant())
	return &Line{conn, p, conn.Begun()}, nil
}

// Renew has the exchange go by a fresh pass for the same call: what it adds,
// where it may lead.
func (l *Line) Renew(p guard.Pass) error {
	switch {
	case !p.Valid(), p.Mocked() != (l.Conn == nil):
		return &fault.Call{Code: schemas.DenyAddress, Cause: call.ErrNoPass}
	case p.Mocked():
		l.Pass = p
		return nil
	}
	if err := l.Conn.Recheck(p.Permit()); err != nil {
		return err
	}
	l.Pass = p
	return nil
}

// Begun is closed when the request's first bytes were handed to the network, or
// when they never will be.
func (l *Line) Begun() <-chan struct{} { return l.begun }

// Close ends the connection and gives back the memory of its answer: it comes after the answer is stored.
func (l *Line) Close() {
	if l.Conn != nil {
		l.Conn.Close()
		l.Conn.Release()
	}
}
