package outbound

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"
)

// link is a connection, TLS included. It has one owner at a time: a Conn, or the pool.
type link struct {
	net.Conn
	socket *socket
	reader *bufio.Reader // empty between two exchanges
	addrs  []netip.Addr  // all of the answer that led here; see Recheck
	born   time.Time
	epoch  int64 // the pool's, when its dial began
	used   bool  // it has carried an exchange

	key    poolKey
	expiry *time.Timer
}

// shut ends an idle link. TLS sends its closing alert, for a short time only.
func (l *link) shut() {
	l.socket.leaving.Store(true)
	_ = l.Close()
}

var errUnsolicited = errors.New("the upstream sent data before the request")

// quiet checks, without waiting, that the connection is still open and silent. It runs before a
// request is written, so that a connection that was lost while the attempt was stored is known as
// not sent.
func (l *link) quiet() error {
	if !canPeek {
		return nil
	}
	l.socket.probing = true
	defer func() { l.socket.probing = false }()
	var b [1]byte
	n, err := l.Read(b[:])
	switch {
	case n > 0:
		return errUnsolicited
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case err == nil:
		return io.ErrNoProgress
	default:
		return err
	}
}

// socket is the bare connection beneath TLS.
type socket struct {
	net.Conn
	written atomic.Int64
	ended   atomic.Bool // reading has ended
	leaving atomic.Bool // all that is left to write is TLS's goodbye
	probing bool        // reads do not wait; set only while there is no other reader
}

// goodbye is how long TLS may take to take its leave; its own limit is 5 s.
const goodbye = 100 * time.Millisecond

func (s *socket) SetWriteDeadline(t time.Time) error {
	if latest := time.Now().Add(goodbye); s.leaving.Load() && t.After(latest) {
		t = latest
	}
	return s.Conn.SetWriteDeadline(t)
}

func (s *socket) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	s.written.Add(int64(n))
	return n, err
}

func (s *socket) Read(p []byte) (int, error) {
	if s.probing && !s.readable() {
		return 0, os.ErrDeadlineExceeded // temporary, so that TLS remains usable
	}
	n, err := s.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		s.ended.Store(true)
	}
	return n, err
}
