package outbound

import (
	"cmp"
	"context"
	"errors"
	"io"
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
}

// Stream is an answer whose body is read as it comes, of any status. It belongs
// to one goroutine; Close may be called from any, and more than once. It must be
// closed. At most a few KiB of the body are ever held ahead of Read.
type Stream struct {
	Status int
	// Headers are all fields, as Response has them.
	Headers []schemas.Header
	// Location is set where there is exactly one such field.
	Location string
	// RetryAfter is the upstream's own wish, unbounded.
	RetryAfter time.Duration

	x      *exchange
	raw    flow
	body   io.Reader // raw, or what it decodes to
	zipped bool      // raw is gzip
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
	t := terms{identity: true, header: limits.Header}
	if t.header == 0 {
		t.header = c.client.cfg.HeaderTimeout
	}
	limits.Bytes = cmp.Or(limits.Bytes, c.client.cfg.MaxBodyBytes)
	s, err := c.stream(ctx, r, t, limits)
	if err != nil {
		return nil, err
	}
	head := answer(s.x.resp, nil, s.zipped && s.raw.declared() != 0, time.Now())
	s.Status, s.Headers, s.Location, s.RetryAfter = head.Status, head.Headers, head.Location, head.RetryAfter
	return s, nil
}

// stream makes the request of Do or of Stream. It leaves the Stream's Status, Headers and RetryAfter unset.
func (c *Conn) stream(ctx context.Context, r Request, t terms, limits StreamLimits) (*Stream, error) {
	x, err := c.exchange(ctx, r, t)
	if err != nil {
		return nil, err
	}
	limit := limits.Bytes
	if c.quota.Reserve != nil {
		limit = min(limit, c.quota.Bytes)
	}
	s := &Stream{x: x, limit: limit, raw: flow{x: x, idle: limits.Idle, whole: t.body > 0, keep: limits.Keep || t.body > 0, limit: limit}}
	s.body = &s.raw
	switch codingOf(x.resp) {
	case "":
	case "gzip":
		s.zipped, s.raw.limit = true, wireLimit(limit)
		s.body = &unzipped{from: &s.raw}
	default:
		s.raw.unread = true
	}
	return s, nil
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
	case errors.Is(err, io.EOF) && s.raw.ended():
		s.x.wire.done()
		if s.raw.keep {
			s.x.giveBack()
		}
	case err != nil && s.raw.failed() != nil:
		err = s.raw.failed()
	case err != nil: // the message itself did not fail; its content is not valid
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
	return s.raw.declared()
}

// Patience bounds the wait of each Read from now on, as StreamLimits.Idle does.
func (s *Stream) Patience(idle time.Duration) { s.raw.idle = idle }

// ReadAll reads the rest of the body, if that is no more than limit. Its errors are those of Read;
// UPSTREAM_TOO_LARGE also for more than limit.
func (s *Stream) ReadAll(limit int64) ([]byte, error) { return s.ReadAllBy(s, limit) }

// ReadAllBy is ReadAll by a reader that passes on what it reads from the stream.
func (s *Stream) ReadAllBy(r io.Reader, limit int64) ([]byte, error) {
	body, err := s.x.readTo(r, limit, s.Declared())
	if errors.Is(err, errNoMemory) {
		return nil, s.stop(s.x.fail(schemas.UpstreamTimeout, err))
	}
	if err == errBodyBytes { //nolint:errorlint // that of readTo itself; Read's is a failed call
		return nil, s.stop(s.x.fail(schemas.UpstreamTooLarge, err))
	}
	return body, err
}

// Close ends the connection, and a running Read on another goroutine.
func (s *Stream) Close() { s.x.end(errLeft) }
