package wire

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"weir/schemas"
)

// Conn is one connection of a Listener.
type Conn struct {
	net.Conn
	of    *Listener
	who   netip.Prefix // whom it counts for
	once  sync.Once    // it stops counting
	heads heads

	// answering is set from Begin to End.
	answering atomic.Bool
	// late is that the time for a head ended before the head did.
	late bool
	// dropped is that the answer ends with the connection; see Drop.
	dropped bool

	mu       sync.Mutex
	deadline time.Time // the deadline set by the server; the zero time: none
}

// Read passes on what came, after a look at it. If the time for a head ends in the middle
// of one, the answer is REQUEST_TIMEOUT; net/http would close the connection without one.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.heads.see(p[:n])
	if errors.Is(err, os.ErrDeadlineExceeded) && c.of.cfg.Answer != nil && !c.answering.Load() && c.heads.begun() > 0 {
		c.late = true
		_, _ = c.send(c.of.cfg.Answer(schemas.RequestTimeout)) // the connection is closed next
	}
	return n, err
}

// piece is how much of an answer a client must take within Config.Stall.
const piece = 64 << 10

// Write sends p piece by piece, each with a deadline. A client that takes
// nothing is reset, so that the kernel forgets what it holds for it, too.
func (c *Conn) Write(p []byte) (int, error) {
	if c.of.cfg.Answer != nil && !c.answering.Load() {
		if c.late { // what net/http makes of half a head
			return len(p), nil
		}
		if code, ok := refusal(p); ok {
			if code == schemas.HeadersTooLarge && c.heads.begun() > MaxTarget {
				code = schemas.URITooLong
			}
			if _, err := c.send(c.of.cfg.Answer(code)); err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	return c.send(p)
}

// What net/http writes to a connection whose request it cannot read: a status
// line, exactly these headers, and a text.
const (
	statusStart = "HTTP/1.1 "
	plainHeader = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	// refusalMax is longer than all of them.
	refusalMax = 512
)

// refusal recognizes such an answer in a write while no handler answers: within
// an answer, the same bytes are content. If net/http changes its wording, its own
// text goes out.
func refusal(p []byte) (schemas.Code, bool) {
	if len(p) > refusalMax || !bytes.HasPrefix(p, []byte(statusStart)) {
		return "", false
	}
	if bytes.HasPrefix(p, []byte(statusStart+"417 ")) && bytes.HasSuffix(p, []byte("\r\n\r\n")) {
		return schemas.InvalidRequest, true // an expectation that is not 100-continue; no handler says it
	}
	line, _, ok := bytes.Cut(p, []byte(plainHeader))
	if !ok || bytes.ContainsAny(line, "\r\n") {
		return "", false
	}
	if bytes.HasPrefix(line, []byte(statusStart+"431 ")) {
		return schemas.HeadersTooLarge, true
	}
	return schemas.InvalidRequest, true
}

func (c *Conn) send(p []byte) (int, error) {
	sent := 0
	for {
		if err := c.Conn.SetWriteDeadline(c.until()); err != nil {
			return sent, err
		}
		n, err := c.Conn.Write(p[sent:min(len(p), sent+piece)])
		sent += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if tcp, ok := c.Conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
		}
		if err != nil || sent == len(p) {
			return sent, err
		}
	}
}

// until is when the next piece must have been taken.
func (c *Conn) until() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := time.Now().Add(c.of.cfg.Stall)
	if !c.deadline.IsZero() && c.deadline.Before(own) {
		return c.deadline
	}
	return own
}

// SetWriteDeadline takes a deadline that holds beside that of each piece.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite sends the end, so that the client can read an answer before the
// reset that follows unread bytes. net/http looks for it.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close also gives the connection's place to others.
func (c *Conn) Close() error {
	defer c.once.Do(func() { c.of.release(c.who) })
	return c.Conn.Close()
}
