package outbound

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/net/http/httpguts"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/schemas"
)

// exchange is one request and its answer. It belongs to one goroutine, but for end.
type exchange struct {
	*Conn
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
}

// terms are what Do and Stream differ in before the body.
type terms struct {
	identity bool          // a body without coding is asked for
	header   time.Duration // the phase's limit; none if not positive
	body     time.Duration
}

// exchange sends the connection's request and returns when the answer's headers
// are there and checked. The caller ends the exchange; after an error there is
// none to end, and the connection is closed.
func (c *Conn) exchange(ctx context.Context, r Request, t terms) (*exchange, error) {
	if c.spent.Swap(true) {
		if r.Stream != nil {
			_ = r.Stream.Close()
		}
		return nil, &fault.Call{Code: schemas.Internal, Cause: ErrSpent}
	}
	x := &exchange{Conn: c, caller: ctx, phase: PhaseHeader}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	x.heed = context.AfterFunc(x.ctx, x.abort) //nolint:contextcheck // it is the end of one
	if r.Stream != nil {
		x.source = &source{from: r.Stream, wire: c.wire}
		c.wire.source = x.source // before it is written
	}
	if err := x.begin(r, t); err != nil {
		x.within(0)
		x.end(nil)
		if c.wire.used {
			c.client.pool.drop(c.wire.key)
		}
		return nil, err
	}
	return x, nil
}

func (x *exchange) begin(r Request, t terms) error {
	if code, over := givenUp(x.caller); over {
		return &fault.Call{Code: code, Cause: &PhaseError{PhaseHeader, context.Cause(x.caller)}}
	}
	if err := x.wire.quiet(); err != nil { // it ended, or spoke, before it was used
		code := schemas.UpstreamReset
		if errors.Is(err, errUnsolicited) {
			code = schemas.UpstreamProtocol
		}
		return &fault.Call{Code: code, Cause: &PhaseError{PhaseHeader, err}}
	}
	req, err := build(x.ctx, x.permit, r, x.source, t.identity)
	if err != nil {
		return err
	}
	req.Close = !x.keep
	x.within(t.header)
	if err := x.send(req); err != nil {
		return x.headerFailure(err)
	}
	if x.resp, err = x.receive(req); err != nil { //nolint:bodyclose // its body holds nothing but the connection
		return x.headerFailure(err)
	}
	failpoint.At(failpoint.Begun, x.permit.RequestTarget())
	if err := x.headerOver(x.resp); err != nil {
		return err
	}
	if !x.within(t.body) {
		return x.fail(schemas.UpstreamTimeout, errPhaseTime) // it fired between the answer and here
	}
	x.phase = PhaseBody
	return nil
}

// inline is the largest body that is written before the answer is read: sockets take it,
// whether or not the other side reads.
const inline = 16 << 10

// send writes the request. A large one, or one whose body is read as it is sent, is written
// while the answer is read: it may come before the request is whole.
func (x *exchange) send(req *http.Request) error {
	write := func() error {
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
	if x.source == nil && req.ContentLength <= inline {
		return write()
	}
	x.writing = make(chan struct{})
	go func() {
		defer close(x.writing)
		if write() != nil {
			x.abort() // the request is not whole, and no answer to it is waited for
		}
	}()
	return nil
}

// receive reads the answer's head. Interim answers are read and dropped.
func (x *exchange) receive(req *http.Request) (*http.Response, error) {
	x.wire.reader.Reset(x.wire)
	if x.writing != nil {
		<-x.wire.offered // bytes that arrive before the request are no answer to it
	}
	for {
		resp, err := http.ReadResponse(x.wire.reader, req)
		if err != nil || resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// abort ends reading and writing; the end itself is the owner's.
func (x *exchange) abort() { _ = x.wire.letGo() }

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

// headerOver checks the header as a whole.
func (x *exchange) headerOver(resp *http.Response) error {
	x.wire.headerDone()
	x.status = resp.StatusCode
	if resp.ProtoMajor != 1 || x.status < 200 || x.status > 599 {
		return x.fail(schemas.UpstreamProtocol, errors.New("not a final answer of HTTP/1"))
	}
	fields, size := 0, int64(0)
	for name, values := range resp.Header {
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
