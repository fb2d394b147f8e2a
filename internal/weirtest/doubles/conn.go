// Package doubles has the parts that the doubles of upstreams share: a server with a transcript of its
// requests, and the connection of a request, as a double waits on it.
package doubles

import (
	"context"
	"time"
)

// Conn ends when its caller has left or the double stops.
type Conn struct{ gone <-chan struct{} }

// Of is the line of a request with this context.
func Of(ctx context.Context) Conn { return Conn{ctx.Done()} }

// Ended reports whether it is.
func (l Conn) Ended() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// Await blocks until then.
func (l Conn) Await() { <-l.gone }

// Wait blocks until the channel gives or is closed; false: the caller has left before. A
// nil channel is not waited for.
func (l Conn) Wait(c <-chan struct{}) bool {
	if c == nil {
		return true
	}
	select {
	case <-c:
		return true
	case <-l.gone:
		return false
	}
}

// Pause lets time go by; false: the caller has left before.
func (l Conn) Pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.gone:
		return false
	}
}
