package outbound

import (
	"errors"
	"io"
	"sync/atomic"
)

// ErrBody is the cause if a request's body could not be read to its end. The received part is no
// complete request.
var ErrBody = errors.New("the request's body broke off")

// bodyError is the cause of a broken body. Its text does not contain it.
type bodyError struct{ cause error }

func (e *bodyError) Error() string   { return ErrBody.Error() }
func (e *bodyError) Unwrap() []error { return []error{ErrBody, e.cause} }

var errOver = errors.New("the exchange is over")

// source is a request's body as it is written. The end of the exchange ends a running Read; the
// stream's own failure is kept separately.
type source struct {
	from  io.ReadCloser
	wire  *wire
	close func()                    // closes from, once
	err   atomic.Pointer[bodyError] // the stream's own
}

// Read reads on. From an upstream that has stopped to listen nothing is kept back by
// an error: it may have said why, and that is still to be read.
func (s *source) Read(p []byte) (n int, err error) {
	if s.wire.deaf() {
		<-s.wire.over
	}
	if !s.over() {
		n, err = s.from.Read(p)
	}
	switch {
	case s.over(): // the connection has been released, whatever the stream says
		return 0, errOver
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	}
	own := &bodyError{err}
	s.err.Store(own)
	return n, own
}

func (s *source) over() bool {
	select {
	case <-s.wire.over:
		return true
	default:
		return false
	}
}

// Close ends the stream and a running Read. Request.Write calls it too, after it has sent the body.
func (s *source) Close() error {
	s.close()
	return nil
}

// failure is the stream's own; nil where it has none, or where there is no stream.
func (s *source) failure() error {
	if s == nil {
		return nil
	}
	if own := s.err.Load(); own != nil {
		return own
	}
	return nil
}
