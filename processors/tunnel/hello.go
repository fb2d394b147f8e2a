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
