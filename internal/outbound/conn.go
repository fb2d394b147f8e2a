package outbound

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/fault"
	"weir/internal/policy"
	"weir/schemas"
)

// readAhead is the size of the read buffer: how much of a body may have been
// fetched with the last of the headers.
const readAhead = 4 << 10

var (
	// ErrNoPermit is behind the refusal of a permit that no decision made.
	ErrNoPermit = errors.New("no decision permits this")
	// errOtherTarget is behind the refusal of a permit for another target.
	errOtherTarget = errors.New("the permit is for another target")
	// ErrSpent is behind the refusal of a second request on a connection.
	ErrSpent = errors.New("the connection has carried its request")
	// ErrBody is the cause if a request's body could not be read to its end. The received part is no
	// complete request.
	ErrBody = errors.New("the request's body broke off")

	errHeaderBytes = errors.New("the response's headers are over the limit")
	errClosed      = errors.New("the call was abandoned before it was sent")
	errOver        = errors.New("the exchange is over")
)

// Conn is a connection, TLS included, for one request that was permitted. It
// holds a socket until Close, or until its request has it wait for another.
type Conn struct {
	client  *Client
	permit  *policy.Permit
	tenant  string
	link    *link
	keep    bool // the connection may carry another request of the tenant after this one
	spent   atomic.Bool
	quota   Quota
	release func() // the reserved part for the answer; nil: nothing was reserved

	begun     func()        // see Request.Begun
	body      io.Reader     // of the request, which is read while it is sent; nil: there is none
	closeBody func()        // it may be called more than once, and where there is no body
	silent    chan struct{} // closed when nothing more is written; see Close
	offered   chan struct{} // closed when the first write is over, or by a close; see offer
	offering  sync.Once

	// These belong to the goroutine that reads.
	inBody  bool      // the header has come
	until   time.Time // when the phase ends; zero: nothing bounds it
	came    int64     // of the header's bytes
	most    int64     // of them that may come
	start   []byte    // the first of them
	readErr error

	mu       sync.Mutex
	over     bool // it was closed, or given back: later writes are refused
	complete bool // the answer is whole, and the connection may be closed in an orderly way
	sent     bool // a byte of the request may have left
	writeErr error
	bodyErr  error // the request's body's own
}

// Used reports whether the connection has carried another request, so that one which may not
// be repeated is not made on it.
func (c *Conn) Used() bool { return c.link.used }

// Recheck has the connection go by p from now on: a permit for the same target
// that a newer policy gave. Every address of the answer that led to the
// connection must pass it, as they passed the first. The error is a *fault.Call
// with DENY_ADDRESS, not sent; the connection is then of no more use. Not to be
// called while Stream runs.
func (c *Conn) Recheck(p *policy.Permit) error {
	var err error
	switch {
	case !p.Valid():
		err = ErrNoPermit
	case p.Method() != c.permit.Method() || p.URL() != c.permit.URL():
		err = errOtherTarget
	default:
		err = p.CheckAddrs(c.link.addrs)
	}
	if err != nil {
		return &fault.Call{Code: schemas.DenyAddress, Cause: err}
	}
	c.permit = p
	return nil
}

// Release returns the memory that was reserved for the answer, once that is not needed any more. It
// belongs to the goroutine of the request, and may be called more than once.
func (c *Conn) Release() {
	if c.release != nil {
		c.release()
		c.release = nil
	}
}

// Close ends the connection with any running request and the reading of its body, unless the
// connection was given back. It may be called more than once and from any goroutine. TLS sends its
// closing alert only after a whole exchange, and for a short time: Close does not wait for an upstream
// that stopped reading.
func (c *Conn) Close() {
	c.mu.Lock()
	over, polite, sent := c.over, c.complete && c.writeErr == nil, c.sent
	c.over = true
	c.mu.Unlock()
	if over {
		return
	}
	close(c.silent)
	c.closeBody()
	if polite {
		c.link.shut()
	} else {
		_ = c.link.socket.Close() // ends reads and writes in progress
	}
	if !sent { // else the write does, as soon as it ends
		c.offer()
	}
}

// offer reports that the first write has ended, or that there will be none. While a write has not
// returned, its bytes may still leave, and late.
func (c *Conn) offer() {
	c.offering.Do(func() {
		close(c.offered)
		if c.begun != nil {
			c.begun()
		}
	})
}

// within bounds the phase that begins, in place of the one before; without a limit, nothing bounds
// it.
func (c *Conn) within(limit time.Duration) {
	if limit <= 0 && c.until.IsZero() {
		return
	}
	if c.until = (time.Time{}); limit > 0 {
		c.until = time.Now().Add(limit)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		_ = c.link.socket.SetDeadline(c.until)
	}
}

// tap is a Conn as net/http's writer and reader use it: plain bytes, over TLS or not. It
// notes what left and what came, which their errors do not tell.
type tap Conn

// Write counts a request as sent from the moment that its first byte is offered to the connection;
// only a write that provably moved nothing takes that back. Errors are kept and not returned: an
// answer that came before the request was whole, or before a reset, must still be read.
func (t *tap) Write(p []byte) (int, error) {
	t.mu.Lock()
	first, over, broken := !t.sent, t.over, t.writeErr != nil
	t.sent = t.sent || !over && !broken
	t.mu.Unlock()
	switch {
	case over:
		return 0, errClosed
	case broken: // no hole in what the upstream reads
		return len(p), nil
	}
	defer (*Conn)(t).offer()

	before := t.link.socket.written.Load()
	n, err := t.link.Write(p)
	if err != nil {
		t.mu.Lock()
		t.writeErr = err
		t.sent = !first || n > 0 || t.link.socket.written.Load() != before
		t.mu.Unlock()
	}
	return len(p), nil
}

// Read keeps how an answer begins and how the reading ended. An error never comes with bytes: then
// it is known that more of the answer was wanted.
func (t *tap) Read(p []byte) (int, error) {
	n, err := t.link.Read(p)
	if n > 0 {
		err = nil // the next Read has it again
	}
	if s := t.link.socket; errors.Is(err, io.EOF) && t.link.Conn != net.Conn(s) && s.ended.Load() {
		// crypto/tls accepts a connection that is cut between two records, but anyone on the
		// network path could then truncate a body without a length.
		err = io.ErrUnexpectedEOF
	}
	if !t.inBody {
		t.start = append(t.start, p[:min(n, len(version)-len(t.start))]...)
		if t.came += int64(n); t.came > t.most {
			n, err = 0, errHeaderBytes
		}
	}
	if err != nil {
		t.readErr = err
	}
	return n, err
}

// source is a Conn as net/http reads the request's body from it. The end of the exchange ends a
// running Read; the body's own failure is kept separately.
type source Conn

// Read reads on. From an upstream that has stopped to listen nothing is kept back by
// an error: it may have said why, and that is still to be read.
func (s *source) Read(p []byte) (int, error) {
	c := (*Conn)(s)
	c.mu.Lock()
	deaf := c.writeErr != nil || c.over
	c.mu.Unlock()
	if deaf {
		<-c.silent
		return 0, errOver
	}
	n, err := c.body.Read(p)
	select {
	case <-c.silent: // the connection has been released, whatever the body says
		return 0, errOver
	default:
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", ErrBody, err)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bodyErr = err
	}
	return n, err
}

// Close ends the body and a running Read. Request.Write calls it too, after it has sent the body.
func (s *source) Close() error {
	s.closeBody()
	return nil
}
