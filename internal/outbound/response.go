package outbound

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/retry"
	"weir/schemas"
)

// Response is an answer.
type Response struct {
	Status int
	// Headers are all fields, names in lower case, sorted by name; the order
	// of a name's values is kept. Trailers are not among them, nor are the
	// length and coding of a body that was decompressed.
	Headers []schemas.Header
	// Body is what its reader keeps of it, decoded; nil until then, and where there was none.
	Body []byte
	// Location is set where there is exactly one such field.
	Location string
	// RetryAfter is the upstream's own wish, unbounded.
	RetryAfter time.Duration
}

var (
	errLeft      = errors.New("the reader closed the stream")
	errBodyBytes = errors.New("the response's body is over the limit")
	errCoding    = errors.New("the response's coding was not offered")
	// errNoMemory ends an answer for which no memory was free in time.
	errNoMemory = errors.New("no memory for the response's body was free in time")
)

// head is a Response without its body. decoded: the body is not in the coding of the fields.
func head(resp *http.Response, decoded bool, now time.Time) Response {
	a := Response{Status: resp.StatusCode, Headers: make([]schemas.Header, 0, len(resp.Header))}
	if decoded {
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
	}
	for name, values := range resp.Header {
		name = strings.ToLower(name)
		for _, v := range values {
			a.Headers = append(a.Headers, schemas.Header{Name: name, Value: v})
		}
	}
	slices.SortStableFunc(a.Headers, func(x, y schemas.Header) int { return strings.Compare(x.Name, y.Name) })
	if l := resp.Header["Location"]; len(l) == 1 {
		a.Location = l[0]
	}
	a.RetryAfter = retry.Wish(a.Status, resp.Header.Values, now)
	return a
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
	if s.broke == nil && (s.ctx.Err() != nil || s.left.Load()) { // buffered bytes are not read any more
		s.broke = s.fail(schemas.Canceled, errLeft)
	}
	if s.broke != nil {
		return 0, s.broke
	}
	if !s.limits.Whole {
		s.conn.within(s.limits.Idle)
	}
	n, err = s.resp.Body.Read(p)
	if !s.limits.Whole && err == nil {
		s.conn.within(0)
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

// unzipped is a body that came as gzip. Flushed bytes can be read at once.
type unzipped struct {
	from io.Reader
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

// Declared is the length of the body that the target announced; less than zero without one, and for
// a body that is decoded.
func (s *Stream) Declared() int64 { return s.declared }

// Patience bounds the wait of each Read from now on, as StreamLimits.Idle does.
func (s *Stream) Patience(idle time.Duration) { s.limits.Idle = idle }

// freeBytes is how much of an answer is read before memory is reserved for it.
const freeBytes = 256 << 10

// ReadAllBy reads the rest of the body, if that is no more than limit, by the stream itself or by a
// reader that passes on what it reads from it. Its errors are those of Read, with UPSTREAM_TOO_LARGE
// also for more than limit; zero: the stream's own. It sizes its buffer, within reason, by the
// announced length.
func (s *Stream) ReadAllBy(r io.Reader, limit int64) ([]byte, error) {
	var buf bytes.Buffer
	limit = min(cmp.Or(limit, s.limit), s.limit)
	if s.declared > 0 {
		buf.Grow(int(min(s.declared, 64<<10)) + bytes.MinRead)
	}
	for most := min(limit, freeBytes); ; most = limit {
		_, err := buf.ReadFrom(io.LimitReader(r, most+1-int64(buf.Len())))
		switch n := int64(buf.Len()); {
		case err != nil:
			return nil, err
		case n == 0:
			return nil, nil
		case n <= most:
			return buf.Bytes(), nil
		case most == limit:
			return nil, s.stop(s.fail(schemas.UpstreamTooLarge, errBodyBytes))
		}
		if limit, err = s.reserve(limit); err != nil {
			return nil, s.stop(s.fail(schemas.UpstreamTimeout, err))
		}
		buf.Grow(int(min(limit, max(s.declared, 0))) + bytes.MinRead) // or as much as there is already
	}
}

// reserve waits for the memory of an answer that may have up to limit bytes, and returns how many
// it may have.
func (s *Stream) reserve(limit int64) (int64, error) {
	c, ctx := s.conn, s.ctx
	if c.quota.Reserve == nil {
		return limit, nil
	}
	if s.declared > 0 {
		limit = min(limit, s.declared)
	}
	if !c.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.until)
		defer cancel()
	}
	granted, release, err := c.quota.Reserve(ctx, limit)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoMemory, err)
	}
	c.release = release
	return granted, nil
}

// version is how every answer begins.
const version = "HTTP/1."

// failure finds the code for an exchange that broke off.
func (s *Stream) failure(err error) error {
	c := s.conn
	c.mu.Lock()
	own := c.bodyErr
	c.mu.Unlock()
	if errors.Is(err, errOver) && c.readErr != nil { // why the body was let go of
		err = c.readErr
	}
	text := err.Error() // where net/http has no value for it
	ended := errors.Is(err, io.ErrUnexpectedEOF) || c.readErr != nil && errors.Is(err, c.readErr) || strings.Contains(text, "unexpected EOF")
	switch {
	case own != nil:
		return s.fail(schemas.Canceled, own)
	case errors.Is(c.readErr, errHeaderBytes), c.inBody && !ended && strings.Contains(text, "suspiciously long trailer"):
		return s.fail(schemas.UpstreamHeadersTooLarge, err)
	case ended && c.inBody:
		return s.fail(schemas.UpstreamTruncated, err)
	// The parser takes the end of the connection for the end of a line, and so for malformed bytes.
	case ended, !c.inBody && c.readErr != nil && len(c.start) > 0 && strings.HasPrefix(version, string(c.start)):
		return s.fail(schemas.UpstreamReset, err)
	default: // it was read, and is not HTTP
		return s.fail(schemas.UpstreamProtocol, err)
	}
}

// fail closes the connection and returns the call's error. A cancellation or a timeout explains
// whatever the connection then did.
func (s *Stream) fail(code schemas.Code, cause error) *fault.Call {
	c := s.conn
	c.Close()
	c.mu.Lock()
	sent := c.sent
	c.mu.Unlock()
	if own, over := givenUp(s.ctx); over {
		code = own
	} else if errors.Is(c.readErr, os.ErrDeadlineExceeded) && !c.until.IsZero() && !time.Now().Before(c.until) {
		code = schemas.UpstreamTimeout
	} else if s.left.Load() {
		code = schemas.Canceled
	}
	return &fault.Call{Code: code, Sent: sent, Status: s.Status, NoMemory: errors.Is(cause, errNoMemory), Cause: networkError{cause}}
}
