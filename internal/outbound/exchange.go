package outbound

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/schemas"
)

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
	s := &Stream{conn: c, ctx: ctx, limits: limits, phase: PhaseHeader, limit: cmp.Or(limits.Bytes, c.client.cfg.MaxBodyBytes)}
	if c.quota.Reserve != nil {
		s.limit = min(s.limit, c.quota.Bytes)
	}
	w := c.wire
	if w.begun = r.Begun; r.Stream != nil {
		w.source = &source{from: r.Stream, wire: w, close: sync.OnceFunc(func() { _ = r.Stream.Close() })}
	}
	s.heed = context.AfterFunc(ctx, w.letGo)
	if err := s.begin(&r); err != nil {
		s.end()
		if w.used {
			c.client.pool.drop(w.key)
		}
		return nil, err
	}
	s.most, s.body = s.limit, coded{s}
	if s.declared = s.resp.ContentLength; c.permit.Method() == http.MethodHead {
		s.declared = 0
	}
	if coding := s.resp.Header["Content-Encoding"]; len(coding) > 0 {
		switch codingOf(coding) {
		case "":
		case "gzip":
			s.zipped, s.most = true, wireLimit(s.limit)
			s.body = &unzipped{from: s.body}
		default:
			s.unread = true
		}
	}
	s.Response = head(s.resp, s.zipped && s.declared != 0, time.Now())
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
	defer s.end()
	answer := s.Response
	if answer.Body, err = s.ReadAllBy(s, s.limit); err != nil { //nolint:contextcheck // the stream has it
		return nil, err
	}
	return &answer, nil
}

// begin sends the request and returns when the answer's headers are there and checked.
func (s *Stream) begin(r *Request) error {
	c := s.conn
	if s.ctx.Err() != nil {
		return s.fail(schemas.Canceled, context.Cause(s.ctx))
	}
	switch err := c.wire.quiet(); {
	case errors.Is(err, errUnsolicited): // it spoke before it was used
		return s.fail(schemas.UpstreamProtocol, err)
	case err != nil: // or ended
		return s.fail(schemas.UpstreamReset, err)
	}
	req, err := build(c.permit, r, c.wire.source, s.limits.body == 0)
	if err != nil {
		return err
	}
	req.Close = !c.keep
	c.wire.within(s.limits.Header)
	if s.resp, err = s.roundTrip(req); err != nil { //nolint:bodyclose // its body holds nothing but the connection
		return s.failure(err)
	}
	failpoint.At(failpoint.Begun, c.permit.RequestTarget())
	c.wire.inHeader, c.wire.head = false, nil
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
			size += int64(len(name) + len(": ") + len(v) + len("\r\n"))
		}
	}
	if cfg := &c.client.cfg; fields > cfg.MaxHeaderFields || size > cfg.MaxHeaderBytes {
		return s.fail(schemas.UpstreamHeadersTooLarge, errHeaderBytes)
	}
	c.wire.within(s.limits.body)
	s.phase = PhaseBody
	return nil
}

// inline is the largest body that is written before the answer is read: sockets take it,
// whether or not the other side reads.
const inline = 16 << 10

// roundTrip writes the request and reads the answer's head, without interim answers. A large request,
// or one whose body is read as it is sent, is written while the answer is read: it may come before
// the request is whole.
func (s *Stream) roundTrip(req *http.Request) (*http.Response, error) {
	w := s.conn.wire
	w.reader.Reset(w)
	if w.source == nil && req.ContentLength <= inline {
		if err := s.write(req); err != nil {
			return nil, err
		}
	} else {
		s.writing = make(chan struct{})
		go func() {
			defer close(s.writing)
			if s.write(req) != nil {
				w.letGo() // the request is not whole, and no answer to it is waited for
			}
		}()
		<-w.offered // bytes that arrive before the request are no answer to it
	}
	for {
		resp, err := http.ReadResponse(w.reader, req)
		if err != nil || resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// write writes the request through one of the client's buffers: a call needs one for a moment.
func (s *Stream) write(req *http.Request) error {
	w, ok := s.conn.client.writers.Get().(*bufio.Writer)
	if !ok {
		w = bufio.NewWriterSize(nil, readAhead)
	}
	defer s.conn.client.writers.Put(w)
	w.Reset(s.conn.wire)
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

// whole has the connection of an answer that was read to its end wait for another request, where it
// can carry one: this one has left, and nothing came after its answer.
func (s *Stream) whole() {
	c := s.conn
	c.wire.complete.Store(true)
	if !s.limits.Keep || !c.keep || s.resp.Close || c.wire.reader.Buffered() > 0 || !c.wire.socket.canPeek() {
		return
	}
	if s.writing != nil {
		select {
		case <-s.writing:
		case <-time.After(handOver): // it may have come before the request was whole
			return
		}
	}
	if !c.wire.deaf() && s.heed() && !c.over.Swap(true) {
		c.wire.within(0)
		c.client.pool.put(c.wire.link, keyOf(c.permit, c.tenant, true))
	}
}

// handOver is how long a whole answer waits for the last write of its request to return, which is at
// once if the target has read it all.
const handOver = 20 * time.Millisecond

// freeBytes is how much of an answer is read before memory is reserved for it.
const freeBytes = 256 << 10

// errNoMemory ends an answer for which no memory was free in time.
var errNoMemory = errors.New("no memory for the response's body was free in time")

// reserve waits for the memory of an answer that may have up to limit bytes, and returns how many
// it may have.
func (s *Stream) reserve(limit, expected int64) (int64, error) {
	c, ctx := s.conn, s.ctx
	if c.quota.Reserve == nil {
		return limit, nil
	}
	if expected > 0 {
		limit = min(limit, expected)
	}
	if !c.wire.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.wire.until)
		defer cancel()
	}
	granted, release, err := c.quota.Reserve(ctx, limit)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoMemory, err)
	}
	c.release = release
	return granted, nil
}

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
		if limit, err = s.reserve(limit, expected); err != nil {
			return nil, s.stop(s.fail(schemas.UpstreamTimeout, err))
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
		return nil, s.stop(s.fail(schemas.UpstreamTooLarge, errBodyBytes))
	case n == 0:
		return nil, nil
	}
	return buf.Bytes(), nil
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
