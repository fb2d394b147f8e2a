package wire

import (
	"context"
	"net"
)

// What an http.Server says of the connections that it got from a Listener:
// Context is its ConnContext, Begin and Dropped are for its handler, and End for
// its ConnState. Other connections pass through all of them.

type connKey struct{}

// Context has the requests of a connection know it.
func Context(ctx context.Context, c net.Conn) context.Context {
	if own, ok := c.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, own)
	}
	return ctx
}

// Begin says that a handler has the request of ctx. Up to End what is written
// to its connection is an answer, and passed on whatever it looks like.
func Begin(ctx context.Context) {
	if c := connOf(ctx); c != nil {
		c.dropped = false
		c.answering.Store(true)
	}
}

// Drop says that the request of ctx gets no answer, or not the rest of it, because its
// reader seems to be gone. The handler must then end the connection, see Dropped. If a
// handler writes nothing, net/http sends a 200 without a body, and a client that has only
// closed its sending side would take that for the answer. Only the handler's goroutine may
// call Drop and Dropped.
func Drop(ctx context.Context) {
	if c := connOf(ctx); c != nil {
		c.dropped = true
	}
}

// Dropped reports whether the answer was dropped: the handler must then panic with
// http.ErrAbortHandler.
func Dropped(ctx context.Context) bool {
	c := connOf(ctx)
	return c != nil && c.dropped
}

// End says that an answer is written, which takes until http.StateIdle: the end
// of it leaves the server after the handler has returned. A connection that
// does not become idle is closed.
func End(c net.Conn) {
	if own, ok := c.(*Conn); ok {
		own.answering.Store(false)
	}
}

func connOf(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}

// Bad describes a framing error in a connection's requests; empty: none. net/http has accepted such
// requests, and a proxy in front may have read them differently: nothing on the connection can be
// trusted. ctx is a request's.
func Bad(ctx context.Context) string {
	if c := connOf(ctx); c != nil {
		return c.heads.bad()
	}
	return ""
}
