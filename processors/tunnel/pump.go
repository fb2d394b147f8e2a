package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"weir/schemas"
)

// flow is what has passed through a tunnel.
type flow struct {
	up, down atomic.Int64
	active   atomic.Int64 // when something last passed, in nanoseconds since the tunnel was opened
}

func (x *Tunnel) passed(n *atomic.Int64, bytes int64) {
	if bytes > 0 {
		n.Add(bytes)
		x.active.Store(int64(time.Since(x.opened)))
	}
}

// idle reports whether nothing has passed for too long.
func (x *Tunnel) idle() bool {
	return time.Since(x.opened)-time.Duration(x.active.Load()) >= x.all.cfg.Idle
}

// tick is how often a side that is silent looks at the clock.
func (x *Tunnel) tick() time.Duration { return min(x.all.cfg.Idle/4, 15*time.Second) }

// Carry copies bytes between the client and the target until the tunnel ends, and closes both. Early is
// what the client has sent already. A client that is a *net.TCPConn has its bytes copied by the kernel.
func (x *Tunnel) Carry(client net.Conn, early []byte) {
	defer x.begin(client, x.target)()
	x.active.Store(int64(time.Since(x.opened)))
	var both sync.WaitGroup
	both.Go(func() { x.end(x.copy(client, x.target, &x.down)) })
	both.Go(func() { x.end(x.rise(client, early)) })
	both.Wait()
	x.cancel(&endError{end: schemas.TunnelClosed})
}

// begin bounds the time of a tunnel, at whose end the connections are closed.
func (x *Tunnel) begin(conns ...net.Conn) (end func()) {
	closed := context.AfterFunc(x.ctx, func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
	longest := time.AfterFunc(x.all.cfg.Longest, func() { x.cancel(&endError{end: schemas.TunnelTooLong}) })
	return func() {
		longest.Stop()
		closed()
		x.finish()
	}
}

// end cuts the tunnel for an error of one direction.
func (x *Tunnel) end(err error) {
	if err == nil {
		return
	}
	why, ok := errors.AsType[*endError](err)
	if !ok {
		why = &endError{end: schemas.TunnelFailed}
	}
	x.cancel(why)
}

// rise copies what the client sends, once its first bytes are checked.
func (x *Tunnel) rise(client net.Conn, early []byte) error {
	first, err := x.first(client, early)
	if len(first) > 0 {
		_ = x.target.SetWriteDeadline(time.Now().Add(x.all.cfg.Idle))
		n, writing := x.target.Write(first)
		x.passed(&x.up, int64(n))
		err = errors.Join(writing, err)
	}
	switch {
	case errors.Is(err, io.EOF):
		return closeWrite(x.target)
	case err != nil:
		return err
	}
	return x.copy(x.target, client, &x.up)
}

// copy copies to the end of src, and passes that end on. The deadlines only wake it: with two
// *net.TCPConn the kernel moves the bytes, and nothing is lost when a read ends.
func (x *Tunnel) copy(dst, src net.Conn, n *atomic.Int64) error {
	for {
		began, tick := time.Now(), x.tick()
		stall := tick + x.all.cfg.Idle
		_ = src.SetReadDeadline(began.Add(tick))
		_ = dst.SetWriteDeadline(began.Add(stall))
		bytes, err := io.Copy(dst, src)
		x.passed(n, bytes)
		switch {
		case err == nil:
			return closeWrite(dst)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case time.Since(began) >= stall || x.idle():
			return &endError{end: schemas.TunnelIdle}
		}
	}
}

// closeWrite passes an end on. The other direction may go on.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// Inspect has serve answer the requests of a client, and ends the tunnel as serve says. It closes the
// client's connection if the tunnel ends before.
func (x *Tunnel) Inspect(client net.Conn, serve func(client net.Conn) schemas.TunnelEnd) {
	defer x.begin(client)()
	why := &endError{end: serve(&counted{client, x})}
	if why.end == schemas.TunnelName {
		why.code = schemas.DenyHost
	}
	x.cancel(why)
}

// counted counts what passes a connection of a client.
type counted struct {
	net.Conn
	tunnel *Tunnel
}

// Read implements net.Conn.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.tunnel.passed(&c.tunnel.up, int64(n))
	return n, err
}

// Write implements net.Conn.
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.tunnel.passed(&c.tunnel.down, int64(n))
	return n, err
}
