package tunnel

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"weir/schemas"
)

const (
	handshake   = 0x16             // the first byte of TLS
	helloWithin = 10 * time.Second // for the whole of a ClientHello
)

// first returns the client's first bytes, which may be sent on. If they begin TLS, they hold a whole
// ClientHello, and a server name in it is the host of the tunnel: only that name distinguishes hosts
// that share an address. Other protocols may begin as they like, or wait for the target.
func (x *Tunnel) first(client net.Conn, early []byte) ([]byte, error) {
	var err error
	if len(early) == 0 {
		early, err = x.await(client)
	}
	if len(early) == 0 || early[0] != handshake {
		return early, err
	}
	_ = client.SetReadDeadline(time.Now().Add(helloWithin))
	seen := &recording{Conn: client, rest: early}
	name, ok := serverName(x.ctx, seen)
	if host := x.Host(); !ok || name != "" && !strings.EqualFold(name, host) {
		return nil, &endError{schemas.TunnelName, schemas.DenyHost}
	}
	return seen.read.Bytes(), nil
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

// recording keeps what is read of a connection, and drops what is written.
type recording struct {
	net.Conn

	rest []byte // was read before
	read bytes.Buffer
}

// Read implements net.Conn.
func (r *recording) Read(p []byte) (n int, err error) {
	if len(r.rest) > 0 {
		n = copy(p, r.rest)
		r.rest = r.rest[n:]
	} else {
		n, err = r.Conn.Read(p)
	}
	r.read.Write(p[:n])
	return n, err
}

// Write implements net.Conn. An alert is not for the client.
func (r *recording) Write(p []byte) (int, error) { return len(p), nil }

// Close implements net.Conn. The connection is the tunnel's to close.
func (r *recording) Close() error { return nil }
