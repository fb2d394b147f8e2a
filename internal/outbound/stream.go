package outbound

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"time"

	"weir/internal/fault"
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

	x      *exchange
	body   io.Reader // x, or what it decodes to
	zipped bool      // x is gzip
	limit  int64     // of the body's bytes, decoded
	got    int64
	err    error // what every Read returns from now on
}

// Stream makes the one request that this connection is for and returns when the
// answer's headers are there, whatever the status. It asks for a body without
// coding, and decodes gzip anyway: Headers have then no length and no coding.
// Its errors are those of Do. ctx bounds the body as well: when it ends, the
// connection is closed.
func (c *Conn) Stream(ctx context.Context, r Request, limits StreamLimits) (*Stream, error) {
	if c.spent.Swap(true) {
		if r.Stream != nil {
			_ = r.Stream.Close()
		}
		return nil, &fault.Call{Code: schemas.Internal, Cause: ErrSpent}
	}
	limits.Header = cmp.Or(limits.Header, c.client.cfg.HeaderTimeout)
	limit := cmp.Or(limits.Bytes, c.client.cfg.MaxBodyBytes)
	if c.quota.Reserve != nil {
		limit = min(limit, c.quota.Bytes)
	}
	x := &exchange{Conn: c, limits: limits, caller: ctx, phase: PhaseHeader, most: limit}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	x.heed = context.AfterFunc(x.ctx, c.wire.letGo) //nolint:contextcheck // it is the end of one
	if r.Stream != nil {
		x.source = &source{from: r.Stream, wire: c.wire}
		c.wire.source = x.source // before it is written
	}
	if err := x.begin(r); err != nil {
		x.within(0)
		x.end(nil)
		if c.wire.used {
			c.client.pool.drop(c.wire.key)
		}
		return nil, err
	}
	s := &Stream{x: x, body: x, limit: limit}
	switch codingOf(x.resp) {
	case "":
	case "gzip":
		s.zipped, x.most = true, wireLimit(limit)
		s.body = &unzipped{from: x}
	default:
		x.unread = true
	}
	s.Response = head(x.resp, s.zipped && x.declared() != 0, time.Now())
	return s, nil
}

// Do makes the one request that this connection is for and closes it. It
// returns a whole answer of any status, or a *fault.Call whose Sent is false
// only where provably no byte of the request left, and whose Status is set
// once a status line came. A second call is refused.
//
// ctx bounds everything; the client's limits bound each phase. When ctx ends,
// the connection is closed and Do returns at once.
func (c *Conn) Do(ctx context.Context, r Request) (*Response, error) {
	s, err := c.Stream(ctx, r, StreamLimits{Keep: true, body: c.client.cfg.BodyTimeout})
	if err != nil {
		return nil, err
	}
	defer s.x.end(nil)
	defer s.x.within(0)
	answer := s.Response
	answer.Body, err = s.ReadAll(s.limit)
	if err != nil {
		return nil, err
	}
	return &answer, nil
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
		err = s.x.fail(schemas.UpstreamTooLarge, errBodyBytes)
	case err == nil:
	case errors.Is(err, io.EOF) && errors.Is(s.x.err, io.EOF): // the message was read to its end
		s.x.wire.done()
		if s.x.limits.Keep {
			s.x.giveBack()
		}
	case s.x.err != nil && !errors.Is(s.x.err, io.EOF):
		err = s.x.err
	default: // the message itself did not fail; its content is not valid
		err = s.x.fail(schemas.UpstreamEncoding, err)
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
	s.x.end(nil)
	return err
}

// Declared is the length of the body that the target announced; less than zero without one, and for
// a body that is decoded.
func (s *Stream) Declared() int64 {
	if s.zipped {
		return -1
	}
	return s.x.declared()
}

// Patience bounds the wait of each Read from now on, as StreamLimits.Idle does.
func (s *Stream) Patience(idle time.Duration) { s.x.limits.Idle = idle }

// ReadAll reads the rest of the body, if that is no more than limit. Its errors are those of Read;
// UPSTREAM_TOO_LARGE also for more than limit.
func (s *Stream) ReadAll(limit int64) ([]byte, error) { return s.ReadAllBy(s, limit) }

// ReadAllBy is ReadAll by a reader that passes on what it reads from the stream. It sizes its buffer,
// within reason, by the announced length.
func (s *Stream) ReadAllBy(r io.Reader, limit int64) ([]byte, error) {
	var buf bytes.Buffer
	expected := s.Declared()
	if expected > 0 {
		buf.Grow(int(min(expected, 64<<10)) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(r, min(limit, freeBytes)+1))
	if err == nil && n > freeBytes && n <= limit {
		if limit, err = s.x.reserve(limit, expected); err != nil {
			return nil, s.stop(s.x.fail(schemas.UpstreamTimeout, err))
		}
		buf.Grow(int(min(limit, max(expected, 0))) + bytes.MinRead) // or as much as there is already
		var more int64
		more, err = buf.ReadFrom(io.LimitReader(r, limit+1-n))
		n += more
	}
	switch {
	case err != nil:
		return nil, err
	case n > limit:
		return nil, s.stop(s.x.fail(schemas.UpstreamTooLarge, errBodyBytes))
	case n == 0:
		return nil, nil
	}
	return buf.Bytes(), nil
}

// Close ends the connection, and a running Read on another goroutine.
func (s *Stream) Close() { s.x.end(errLeft) }

// unzipped is a body that came as gzip. Flushed bytes can be read at once.
type unzipped struct {
	from *exchange
	zip  *gzip.Reader
}

func (u *unzipped) Read(p []byte) (int, error) {
	if u.zip == nil {
		zip, err := gzip.NewReader(u.from) // EOF of nothing at all
		if err != nil {
			return 0, err
		}
		u.zip = zip
	}
	return u.zip.Read(p)
}
