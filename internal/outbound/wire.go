package outbound

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// readAhead is the size of the read buffer: how much of a body may have been
// fetched with the last of the headers.
const readAhead = 4 << 10

var (
	errHeaderBytes = errors.New("the response's headers are over the limit")
	errSealed      = errors.New("the call was abandoned before it was sent")
)

// wire is the connection under one exchange: plain bytes, over TLS or not. It
// knows what left and what came, which the errors of net/http's reader and writer do not tell.
type wire struct {
	*link

	offered chan struct{} // closed when the first write is over, or by a close; see release
	offer   sync.Once
	begun   func()        // see Request.Begun
	over    chan struct{} // closed when nothing more is written; see seal
	source  *source       // the source of the request's body; nil: no body to wait for

	// These are the reader's.
	until    time.Time // when the phase ends; zero: nothing bounds it
	inHeader bool
	most     int64  // of the header's bytes
	head     []byte // those that came
	readErr  error
	complete atomic.Bool // the answer is whole, and the connection may be closed in an orderly way

	mu       sync.Mutex
	sealed   bool
	sent     bool
	leaving  bool // the owner is closing
	writeErr error
}

func newWire(l *link, maxHeader int64) *wire {
	return &wire{
		link: l, offered: make(chan struct{}), over: make(chan struct{}),
		inHeader: true, most: maxHeader + readAhead,
	}
}

// Write counts a request as sent from the moment that its first byte is offered to the connection;
// only a write that provably moved nothing takes that back. Errors are kept and not returned: an
// answer that came before the request was whole, or before a reset, must still be read.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.sealed {
		w.mu.Unlock()
		return 0, errSealed
	}
	if w.writeErr != nil { // no hole in what the upstream reads
		w.mu.Unlock()
		return len(p), nil // kept, and not returned: see above
	}
	first := !w.sent
	w.sent = true
	w.mu.Unlock()
	defer w.release()

	before := w.socket.written.Load()
	n, err := w.Conn.Write(p)
	if err != nil {
		w.mu.Lock()
		w.writeErr = err
		if first && n == 0 && w.socket.written.Load() == before {
			w.sent = false
		}
		w.mu.Unlock()
	}
	return len(p), nil
}

// deaf reports whether the upstream gets no more of the request.
func (w *wire) deaf() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writeErr != nil || w.sealed
}

// release reports that the first write has ended, or that there will be none. While a write has not
// returned, its bytes may still leave, and late.
func (w *wire) release() {
	w.offer.Do(func() {
		close(w.offered)
		if w.begun != nil {
			w.begun()
		}
	})
}

// within bounds the phase that begins, in place of the one before; without a limit, nothing bounds
// it.
func (w *wire) within(limit time.Duration) {
	if limit <= 0 && w.until.IsZero() {
		return
	}
	if w.until = (time.Time{}); limit > 0 {
		w.until = time.Now().Add(limit)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.sealed {
		_ = w.socket.SetDeadline(w.until)
	}
}

// late reports whether the phase's time has ended the reading.
func (w *wire) late() bool {
	return errors.Is(w.readErr, os.ErrDeadlineExceeded) && !w.until.IsZero() && !time.Now().Before(w.until)
}

// Read keeps what came, and how it ended.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if errors.Is(err, io.EOF) && w.Conn != net.Conn(w.socket) && w.socket.ended.Load() {
		// crypto/tls accepts a connection that is cut between two records, but anyone on the
		// network path could then truncate a body without a length.
		err = io.ErrUnexpectedEOF
	}
	if w.inHeader {
		if w.head = append(w.head, p[:n]...); int64(len(w.head)) > w.most {
			n, err = 0, errHeaderBytes
		}
	}
	if err != nil {
		w.readErr = err
	}
	return n, err
}

// seal stops further writes, ends the reading of the request's body, and reports whether any byte
// may have been sent. The result stays true: a later write is refused.
func (w *wire) seal() (sent bool) {
	w.mu.Lock()
	first := !w.sealed
	w.sealed, sent = true, w.sent
	w.mu.Unlock()
	if first {
		close(w.over)
		if w.source != nil {
			w.source.close()
		}
	}
	return sent
}

// Close ends the connection. TLS sends its closing alert only after a whole exchange, and for a
// short time: Close does not wait for an upstream that stopped reading.
func (w *wire) Close() {
	w.seal()
	w.mu.Lock()
	w.leaving = true
	polite := w.complete.Load() && w.writeErr == nil
	w.mu.Unlock()
	if polite {
		w.shut()
	} else {
		_ = w.socket.Close()
	}
	w.release() // the socket is closed, and so is every write to it
}

// letGo ends reading and writing. The owner, which knows the result of the exchange, closes the
// connection.
func (w *wire) letGo() {
	if sent := w.seal(); !sent {
		w.release() // else the write does, as soon as the deadline below ends it
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.leaving {
		_ = w.socket.SetDeadline(time.Unix(1, 0)) // ends reads and writes in progress
	}
}

var errUnsolicited = errors.New("the upstream sent data before the request")

// quiet checks, without waiting, that the connection is still open and silent. It runs before a
// request is written, so that a connection that was lost while the attempt was stored is known as
// not sent.
func (l *link) quiet() error {
	if !l.socket.canPeek() {
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
