package wire

import (
	"context"
	"net"
)

// What an http.Server says of the connections that it got from a Listener:
// Context is its ConnContext, Begin and Finish are for its handler, and End for
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

// Later leaves the rest of the answer to the request of ctx for Finish, and
// reports whether there will be one. What waits for hours then holds neither the
// stack nor the objects of all that stands between the server and a route. It is
// for the goroutine of the handler alone, as Left and Finish are.
func Later(ctx context.Context, rest func()) bool {
	c := connOf(ctx)
	if c == nil || !c.answering.Load() {
		return false
	}
	c.rest = rest
	return true
}

// Left takes back what was left for Finish, so that it can be left again with more
// around it; nil: nothing was.
func Left(ctx context.Context) (rest func()) {
	if c := connOf(ctx); c != nil {
		rest, c.rest = c.rest, nil
	}
	return rest
}

// Drop says that the request of ctx gets no answer, or not the rest of it, as nobody seems
// to be left to read that. The connection is to be ended then, see Finish: a client that has only closed
// its sending side would take what net/http makes of a handler that wrote nothing, a 200
// without a body, for the answer. It is for the goroutine of the handler, and for what was
// left to Finish.
func Drop(ctx context.Context) {
	if c := connOf(ctx); c != nil {
		c.dropped = true
	}
}

// Finish runs what was left, after everything else of the handler has returned. Where the
// answer was dropped the handler is to panic with http.ErrAbortHandler.
func Finish(ctx context.Context) (dropped bool) {
	c := connOf(ctx)
	if c == nil {
		return false
	}
	if rest := Left(ctx); rest != nil {
		rest()
	}
	return c.dropped
}

// Aside runs f on a goroutine of its own, and returns when f does. What f panics with
// is the caller's. A stack that has grown does not get small again below a certain
// depth: of many goroutines that wait for long, none should do more than wait.
func Aside(f func()) {
	var failed any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { failed = recover() }()
		f()
	}()
	if <-done; failed != nil {
		panic(failed)
	}
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

// Bad says what is wrong with how the requests of a connection are framed, or
// nothing. net/http has taken such requests for good ones, and another server
// before this one may have read them as other requests: nothing that the
// connection carries can be trusted. ctx is a request's.
func Bad(ctx context.Context) string {
	if c := connOf(ctx); c != nil {
		return c.heads.bad()
	}
	return ""
}
