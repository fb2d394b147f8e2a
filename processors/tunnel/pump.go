package tunnel

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
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

const (
	handshake   = 0x16             // the first byte of TLS
	lastRecord  = 0x17             // the types of its records begin at 0x14
	helloWithin = 10 * time.Second // for the whole of a ClientHello
)

// first returns the client's first bytes, which may be sent on. If they begin TLS, they hold a whole
// ClientHello in the first record, and a server name in it is the host of the tunnel: only that name
// distinguishes hosts that share an address. Other protocols may begin as they like, or wait for the
// target.
func (x *Tunnel) first(client net.Conn, early []byte) ([]byte, error) {
	var err error
	if len(early) == 0 {
		early, err = x.await(client)
	}
	switch {
	case len(early) == 0:
		return early, err
	case early[0] == handshake:
	case early[0] >= handshake-2 && early[0] <= lastRecord, // servers read on to a ClientHello
		early[0]&0x80 != 0 && (len(early) < 3 || early[2] == 1): // of SSL 2.0, with the type at 2
		return nil, &endError{schemas.TunnelName, schemas.DenyHost}
	default:
		return early, err
	}
	_ = client.SetReadDeadline(time.Now().Add(helloWithin))
	var seen bytes.Buffer
	from := io.TeeReader(io.MultiReader(bytes.NewReader(early), client), &seen)
	name, ok := serverName(x.ctx, &listening{client, from})
	if host := x.Host(); !ok || name != "" && !strings.EqualFold(name, host) {
		return nil, &endError{schemas.TunnelName, schemas.DenyHost}
	}
	return seen.Bytes(), nil
}

// await returns what the client sends first.
func (x *Tunnel) await(client net.Conn) ([]byte, error) {
	buf := make([]byte, 4<<10)
	for {
		_ = client.SetReadDeadline(time.Now().Add(x.tick()))
		n, err := client.Read(buf)
		switch {
		case n > 0 || !errors.Is(err, os.ErrDeadlineExceeded):
			return buf[:n], err
		case x.idle():
			return nil, &endError{end: schemas.TunnelIdle}
		}
	}
}

var errSeen = errors.New("the ClientHello was seen")

// serverName reads a ClientHello as the server would. ok is false if there is none.
func serverName(ctx context.Context, c net.Conn) (name string, ok bool) {
	server := tls.Server(c, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, ok = hello.ServerName, true
			return nil, errSeen
		},
	})
	_ = server.HandshakeContext(ctx) // it ends with errSeen, or without a ClientHello
	return name, ok
}

// listening is a connection that is read from elsewhere, and drops what is written: an alert is not for
// the client.
type listening struct {
	net.Conn

	from io.Reader
}

// Read implements net.Conn.
func (l *listening) Read(p []byte) (int, error) { return l.from.Read(p) }

// Write implements net.Conn.
func (l *listening) Write(p []byte) (int, error) { return len(p), nil }
