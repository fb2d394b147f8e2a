package outbound

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"weir/internal/failpoint"
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
	// Keep has the connection wait for another request once the body was read to its end.
	Keep bool
	// Whole: the body is read at once, by ReadAllBy. The client's BodyTimeout bounds it in place of
	// Idle, and the target may compress it.
	Whole bool
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
	resp   *http.Response
	// writing is closed when a request that is written while its answer is read is over; nil: there
	// is none.
	writing chan struct{}

	body     io.Reader // of the decoded bytes
	unread   bool      // its coding is unknown
	limit    int64     // of its bytes, decoded
	got      int64     // of them so far
	declared int64     // the announced length; less than zero: none
	most     int64     // of its bytes on the wire
	arrived  int64     // of them so far
	broke    error     // the final error of coded.Read
	err      error     // what every Read returns from now on
}

// Stream makes the one request that this connection is for and returns when the
// answer's headers are there, whatever the status. It asks for a body without
// coding unless it is read as a whole, and decodes gzip anyway: Headers have then no length and no
// coding. Its errors are *fault.Call, whose Sent is false only where provably no byte of the request
// left, and whose Status is set once a status line came. A second call is refused.
//
// ctx bounds the body as well; the client's limits bound each phase. When ctx ends, the connection is
// closed, and what waits for it returns at once.
func (c *Conn) Stream(ctx context.Context, r Request, limits StreamLimits) (*Stream, error) {
	if c.spent.Swap(true) {
		if r.Stream != nil {
			_ = r.Stream.Close()
		}
		return nil, &fault.Call{Code: schemas.Internal, Cause: ErrSpent}
	}
	limits.Header = cmp.Or(limits.Header, c.client.cfg.HeaderTimeout)
	s := &Stream{conn: c, ctx: ctx, limits: limits, limit: cmp.Or(limits.Bytes, c.client.cfg.MaxBodyBytes)}
	if c.quota.Reserve != nil {
		s.limit = min(s.limit, c.quota.Bytes)
	}
	if c.begun = r.Begun; r.Stream != nil {
		c.body, c.closeBody = r.Stream, sync.OnceFunc(func() { _ = r.Stream.Close() })
	}
	s.heed = context.AfterFunc(ctx, c.Close)
	if err := s.begin(&r); err != nil {
		s.end()
		c.closeBody() // the connection may have been closed before
		if c.link.used {
			c.client.pool.drop(c.link.key)
		}
		return nil, err
	}
	s.most, s.body = s.limit, coded{s}
	if s.declared = s.resp.ContentLength; c.permit.Method() == http.MethodHead {
		s.declared = 0
	}
	// Compressed noise is a little longer than the noise, but compressed nothing could come for ever.
	length, zipped := s.declared, false
	switch strings.ToLower(strings.TrimSpace(strings.Join(s.resp.Header["Content-Encoding"], ","))) {
	case "", "identity":
	case "gzip", "x-gzip":
		zipped, s.most, s.declared = true, s.limit+s.limit>>10+4096, -1
		s.body = &unzipped{from: s.body}
	default:
		s.unread = true
	}
	s.Response = head(s.resp, zipped && length != 0, time.Now())
	if length > s.most {
		_ = s.stop(s.fail(schemas.UpstreamTooLarge, errBodyBytes))
	}
	return s, nil
}

// Close ends the connection, and a running Read on another goroutine; not a wait for memory in
// ReadAllBy, which ends with the context of the request.
func (s *Stream) Close() {
	s.left.Store(true)
	s.end()
}

// begin sends the request and returns when the answer's headers are there and checked.
func (s *Stream) begin(r *Request) error {
	c := s.conn
	if s.ctx.Err() != nil {
		return s.fail(schemas.Canceled, context.Cause(s.ctx))
	}
	switch err := c.link.quiet(); {
	case errors.Is(err, errUnsolicited): // it spoke before it was used
		return s.fail(schemas.UpstreamProtocol, err)
	case err != nil: // or ended
		return s.fail(schemas.UpstreamReset, err)
	}
	req, err := c.request(r, !s.limits.Whole)
	if err != nil {
		return err
	}
	c.within(s.limits.Header)
	if s.resp, err = s.roundTrip(req); err != nil { //nolint:bodyclose // its body holds nothing but the connection
		return s.failure(err)
	}
	failpoint.At(failpoint.Begun, c.permit.RequestTarget())
	s.Status = s.resp.StatusCode
	if s.resp.ProtoMajor != 1 || s.Status < 200 || s.Status > 599 {
		return s.fail(schemas.UpstreamProtocol, errors.New("not a final answer of HTTP/1"))
	}
	fields, size := 0, int64(0)
	for name, values := range s.resp.Header {
		if !httpguts.ValidHeaderFieldName(name) { // net/http lets a space before the colon pass, as part of the name
			return s.fail(schemas.UpstreamProtocol, errors.New("a field's name is not a token"))
		}
		for _, v := range values {
			fields++
			size += int64(len(name) + len(v) + 4)
		}
	}
	if cfg := &c.client.cfg; fields > maxHeaderFields || size > cfg.MaxHeaderBytes {
		return s.fail(schemas.UpstreamHeadersTooLarge, errHeaderBytes)
	}
	wait := time.Duration(0)
	if s.limits.Whole {
		wait = c.client.cfg.BodyTimeout
	}
	c.within(wait)
	c.inBody = true
	return nil
}

// inline is the largest body that is written before the answer is read: sockets take it,
// whether or not the other side reads.
const inline = 16 << 10

// roundTrip writes the request and reads the answer's head, without interim answers. A large request,
// or one whose body is read as it is sent, is written while the answer is read: it may come before
// the request is whole.
func (s *Stream) roundTrip(req *http.Request) (*http.Response, error) {
	c := s.conn
	c.link.reader.Reset((*tap)(c))
	if c.body == nil && req.ContentLength <= inline {
		if err := c.write(req); err != nil {
			return nil, err
		}
	} else {
		s.writing = make(chan struct{})
		go func() {
			defer close(s.writing)
			if c.write(req) != nil {
				c.Close() // the request is not whole, and no answer to it is waited for
			}
		}()
		<-c.offered // bytes that arrive before the request are no answer to it
	}
	for {
		resp, err := http.ReadResponse(c.link.reader, req)
		if err != nil || resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// write writes the request through a buffer of the client's: a call needs one for a moment.
func (c *Conn) write(req *http.Request) error {
	w, ok := c.client.writers.Get().(*bufio.Writer)
	if !ok {
		w = bufio.NewWriterSize(nil, readAhead)
	}
	defer c.client.writers.Put(w)
	w.Reset((*tap)(c))
	err := req.Write(w)
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	return err
}

// end lets go of everything, and ends every read in progress. It may be called more than once and
// from any goroutine.
func (s *Stream) end() {
	s.heed()
	s.conn.Close()
	if s.writing != nil {
		<-s.writing
	}
}

// handOver is how long a whole answer waits for the last write of its request to return, which is at
// once if the target has read it all.
const handOver = 20 * time.Millisecond

// whole has the connection of an answer that was read to its end wait for another request, where it
// can carry one: this one has left, and nothing came after its answer.
func (s *Stream) whole() {
	c := s.conn
	keep := s.limits.Keep && c.keep && !s.resp.Close && c.link.reader.Buffered() == 0
	if keep && s.writing != nil {
		select {
		case <-s.writing:
		case <-time.After(handOver): // the answer may have come before the request was whole
			keep = false
		}
	}
	c.mu.Lock()
	c.complete = true
	keep = keep && !c.over && c.writeErr == nil && s.heed()
	c.over = c.over || keep
	c.mu.Unlock()
	if keep {
		_ = c.link.socket.SetDeadline(time.Time{})
		c.client.pool.put(c.link, keyOf(c.permit, c.tenant, true))
	}
}
