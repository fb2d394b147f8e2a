package outbound

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/net/http/httpguts"

	"weir/internal/failpoint"
	"weir/schemas"
)

// exchange is one request and its answer. It belongs to one goroutine, but for end.
type exchange struct {
	*Conn
	limits StreamLimits
	caller context.Context //nolint:containedctx // lives as long as the exchange
	ctx    context.Context //nolint:containedctx // the same, and ends with the phase's time
	cancel context.CancelCauseFunc
	timer  *time.Timer // ends ctx; nil until a phase is bounded
	timed  bool        // the phase is
	heed   func() bool // has the end of ctx not matter any more; false: it has come
	phase  Phase
	status int
	source *source // the body that is sent while it is read; nil: none
	resp   *http.Response
	// writing is closed when a request that is written while its answer is read is over; nil: there
	// is none.
	writing chan struct{}

	most   int64 // of the body's bytes on the wire
	got    int64 // of them so far
	unread bool  // the body's coding is unknown
	err    error // the final error of Read
}

// begin sends the connection's request and returns when the answer's headers are there and checked.
func (x *exchange) begin(r Request) error {
	if x.caller.Err() != nil {
		return x.fail(schemas.Canceled, context.Cause(x.caller))
	}
	switch err := x.wire.quiet(); {
	case errors.Is(err, errUnsolicited): // it spoke before it was used
		return x.fail(schemas.UpstreamProtocol, err)
	case err != nil: // or ended
		return x.fail(schemas.UpstreamReset, err)
	}
	req, err := build(x.ctx, x.permit, r, x.source, x.limits.body == 0)
	if err != nil {
		return err
	}
	req.Close = !x.keep
	x.within(x.limits.Header)
	if x.resp, err = x.roundTrip(req); err != nil { //nolint:bodyclose // its body holds nothing but the connection
		return x.failure(err)
	}
	failpoint.At(failpoint.Begun, x.permit.RequestTarget())
	if err := x.check(); err != nil {
		return err
	}
	if !x.within(x.limits.body) {
		return x.fail(schemas.UpstreamTimeout, errPhaseTime) // it fired between the answer and here
	}
	x.phase = PhaseBody
	return nil
}

// inline is the largest body that is written before the answer is read: sockets take it,
// whether or not the other side reads.
const inline = 16 << 10

// roundTrip writes the request and reads the answer's head, without interim answers. A large request,
// or one whose body is read as it is sent, is written while the answer is read: it may come before
// the request is whole.
func (x *exchange) roundTrip(req *http.Request) (*http.Response, error) {
	x.wire.reader.Reset(x.wire)
	if x.source == nil && req.ContentLength <= inline {
		if err := x.write(req); err != nil {
			return nil, err
		}
	} else {
		x.writing = make(chan struct{})
		go func() {
			defer close(x.writing)
			if x.write(req) != nil {
				x.wire.letGo() // the request is not whole, and no answer to it is waited for
			}
		}()
		<-x.wire.offered // bytes that arrive before the request are no answer to it
	}
	for {
		resp, err := http.ReadResponse(x.wire.reader, req)
		if err != nil || resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// write writes the request through one of the client's buffers: a call needs one for a moment.
func (x *exchange) write(req *http.Request) error {
	w, ok := x.client.writers.Get().(*bufio.Writer)
	if !ok {
		w = bufio.NewWriterSize(nil, readAhead)
	}
	defer x.client.writers.Put(w)
	w.Reset(x.wire)
	err := req.Write(w)
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	return err
}

// check checks the header as a whole.
func (x *exchange) check() error {
	x.wire.headerDone()
	x.status = x.resp.StatusCode
	if x.resp.ProtoMajor != 1 || x.status < 200 || x.status > 599 {
		return x.fail(schemas.UpstreamProtocol, errors.New("not a final answer of HTTP/1"))
	}
	fields, size := 0, int64(0)
	for name, values := range x.resp.Header {
		if !httpguts.ValidHeaderFieldName(name) { // net/http lets a space before the colon pass, as part of the name
			return x.fail(schemas.UpstreamProtocol, errors.New("a field's name is not a token"))
		}
		for _, v := range values {
			fields++
			size += int64(len(name) + len(": ") + len(v) + len("\r\n"))
		}
	}
	if fields > x.client.cfg.MaxHeaderFields || size > x.client.cfg.MaxHeaderBytes {
		return x.fail(schemas.UpstreamHeadersTooLarge, errHeaderBytes)
	}
	return nil
}

// Read reads what there is of the body as it comes over the wire, and waits for no more than
// limits.Idle. Its errors are io.EOF and *fault.Call, and may come with bytes.
func (x *exchange) Read(p []byte) (n int, err error) {
	switch {
	case x.err != nil:
		return 0, x.err
	case x.declared() > x.most:
		x.err = x.fail(schemas.UpstreamTooLarge, errBodyBytes)
		return 0, x.err
	case x.ctx.Err() != nil: // buffered bytes are not read any more
		x.err = x.fail(schemas.Canceled, errLeft)
		return 0, x.err
	}
	whole := x.limits.body > 0
	if !whole {
		x.within(x.limits.Idle)
	}
	n, err = x.resp.Body.Read(p)
	inTime := whole || x.within(0)
	x.got += int64(n)
	switch {
	case x.unread && n > 0: // without a body there is nothing to decode
		n, err = 0, x.fail(schemas.UpstreamEncoding, errCoding)
	case x.got > x.most:
		n -= int(x.got - x.most)
		err = x.fail(schemas.UpstreamTooLarge, errBodyBytes)
	case errors.Is(err, io.EOF):
		err = io.EOF
	case err != nil:
		err = x.failure(err)
	case !inTime: // it came as the time ran out, which has ended the connection
		err = x.fail(schemas.UpstreamTimeout, errPhaseTime)
	}
	x.err = err
	return n, err
}

// declared is the length of the body that the upstream announced; less than zero without one.
func (x *exchange) declared() int64 {
	if x.resp.Request.Method == http.MethodHead {
		return 0
	}
	return x.resp.ContentLength
}

// within bounds the phase that begins, in place of the one before; without a
// limit, ctx alone bounds it. It reports whether the one before was in time.
func (x *exchange) within(limit time.Duration) (inTime bool) {
	if x.timed && !x.timer.Stop() {
		return false
	}
	switch x.timed = limit > 0; {
	case !x.timed:
	case x.timer == nil:
		x.timer = time.AfterFunc(limit, func() { x.cancel(errPhaseTime) })
	default:
		x.timer.Reset(limit)
	}
	return true
}

// end lets go of everything, and ends every read in progress. The first cause is the
// one that counts. It may be called more than once and from any goroutine.
func (x *exchange) end(cause error) {
	x.cancel(cause)
	x.Close()
	if x.writing != nil {
		<-x.writing
	}
}

// giveBack has the connection wait for another request, where it can carry one: this one has left,
// and nothing came after its answer, which was read to its end.
func (x *exchange) giveBack() {
	if !x.keep || x.resp.Close || x.wire.reader.Buffered() > 0 || !x.wire.socket.canPeek() {
		return
	}
	if x.writing != nil {
		select {
		case <-x.writing:
		case <-time.After(handOver): // it may have come before the request was whole
			return
		}
	}
	if !x.wire.deaf() && x.heed() && !x.over.Swap(true) {
		x.client.pool.put(x.wire.link, keyOf(x.permit, x.tenant, true))
	}
}

// handOver is how long a whole answer waits for the last write of its request to return, which is at
// once if the target has read it all.
const handOver = 20 * time.Millisecond
