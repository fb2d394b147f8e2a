package outbound

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"weir/schemas"
)

// StreamLimits bound an answer that is read as it comes, beside ctx.
type StreamLimits struct {
	// Header is the time from the start of sending to the end of the answer's
	// headers. Zero: the client's HeaderTimeout; negative: as long as ctx lets it.
	Header time.Duration
	// Idle is how long one Read may wait for something; zero: as long as ctx lets
	// it. The time between two calls of Read does not count.
	Idle time.Duration
	// Bytes is the most that the whole body may have. Zero: the client's MaxBodyBytes.
	Bytes int64
	// Keep has the connection wait for another request once the body was read to its end, as Do does.
	Keep bool

	// body is Do's limit for the whole body, in place of Idle; zero: it is a stream.
	body time.Duration
}

// Stream is an answer whose body is read as it comes, of any status. It belongs
// to one goroutine; Close may be called from any, and more than once. It must be
// closed. At most a few KiB of the body are ever held ahead of Read.
type Stream struct {
	Response // without a body

	conn   *Conn
	ctx    context.Context //nolint:containedctx // the caller's, which ends the exchange
	heed   func() bool     // has the end of ctx not matter any more; false: it has come
	left   atomic.Bool     // Close was called
	limits StreamLimits
	phase  Phase
	resp   *http.Response
	// writing is closed when a request that is written while its answer is read is over; nil: there
	// is none.
	writing chan struct{}

	body   io.Reader // of the decoded bytes
	zipped bool      // it came as gzip
	unread bool      // its coding is unknown
	limit  int64     // of its bytes, decoded
	got    int64     // of them so far
	err    error     // what every Read returns from now on

	declared int64 // the announced length of the body on the wire; less than zero: none
	most     int64 // of its bytes there
	arrived  int64 // of them so far
	broke    error // the final error of coded.Read
}

// Read continues reading. After the body's end it returns io.EOF; its other errors are *fault.Call
// with Sent true and the status: UPSTREAM_TRUNCATED, UPSTREAM_PROTOCOL, UPSTREAM_TIMEOUT,
// UPSTREAM_TOO_LARGE, UPSTREAM_ENCODING for a coding other than gzip or a broken one, CANCELED when
// ctx was canceled or the stream closed. Bytes never come with an error; those received before a
// failure are returned first.
func (s *Stream) Read(p []byte) (int, error) {
	if s.err != nil || len(p) == 0 {
		return 0, s.err
	}
	n, err := s.body.Read(p)
	s.got += int64(n)
	switch {
	case s.got > s.limit:
		n -= int(s.got - s.limit)
		err = s.fail(schemas.UpstreamTooLarge, errBodyBytes)
	case err == nil:
	case errors.Is(err, io.EOF) && errors.Is(s.broke, io.EOF): // the message was read to its end
		s.whole()
	case s.broke != nil && !errors.Is(s.broke, io.EOF):
		err = s.broke
	default: // the message itself did not fail; its content is not valid
		err = s.fail(schemas.UpstreamEncoding, err)
	}
	if err != nil {
		err = s.stop(err)
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// stop lets go of the connection and has every later Read return err.
func (s *Stream) stop(err error) error {
	s.err = err
	s.end()
	return err
}

// coded reads what there is of a stream's body as it comes over the wire, and waits for no more
// than limits.Idle. Its errors are io.EOF and *fault.Call, and may come with bytes.
type coded struct{ *Stream }

func (s coded) Read(p []byte) (n int, err error) {
	switch {
	case s.broke != nil:
	case s.declared > s.most:
		s.broke = s.fail(schemas.UpstreamTooLarge, errBodyBytes)
	case s.ctx.Err() != nil, s.left.Load(): // buffered bytes are not read any more
		s.broke = s.fail(schemas.Canceled, errLeft)
	}
	if s.broke != nil {
		return 0, s.broke
	}
	if s.limits.body == 0 {
		s.conn.wire.within(s.limits.Idle)
	}
	n, err = s.resp.Body.Read(p)
	if s.limits.body == 0 && err == nil {
		s.conn.wire.within(0)
	}
	s.arrived += int64(n)
	switch {
	case s.unread && n > 0: // without a body there is nothing to decode
		n, err = 0, s.fail(schemas.UpstreamEncoding, errCoding)
	case s.arrived > s.most:
		n -= int(s.arrived - s.most)
		err = s.fail(schemas.UpstreamTooLarge, errBodyBytes)
	case err != nil && !errors.Is(err, io.EOF):
		err = s.failure(err)
	}
	s.broke = err
	return n, err
}

// Declared is the length of the body that the target announced; less than zero without one, and for
// a body that is decoded.
func (s *Stream) Declared() int64 {
	if s.zipped {
		return -1
	}
	return s.declared
}

// Patience bounds the wait of each Read from now on, as StreamLimits.Idle does.
func (s *Stream) Patience(idle time.Duration) { s.limits.Idle = idle }

// ReadAll reads the rest of the body, if that is no more than limit. Its errors are those of Read;
// UPSTREAM_TOO_LARGE also for more than limit.
func (s *Stream) ReadAll(limit int64) ([]byte, error) { return s.ReadAllBy(s, limit) }

// Close ends the connection, and a running Read on another goroutine; not a wait for memory in
// ReadAll, which ends with the context of the request.
func (s *Stream) Close() {
	s.left.Store(true)
	s.end()
}
