// Package agent is the outward adapter for services that speak the run contract:
// it reads every dialect that they answer in, hands their events on as they come,
// and finds the one end.
package agent

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"time"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/processors/guard"
	"weir/schemas"
)

// Config bounds what an agent may answer.
type Config struct {
	// Event is the most data that one event, or an answer that is no stream, may
	// have; default 8 MiB. A progress event is kept up to schemas.InlineLimit.
	Event int64
	// Stream is the most that a stream may have in all; default 256 MiB.
	Stream int64
	// Grace is how long the agent may take to close a stream after its end; default 1 s.
	Grace time.Duration
}

func (c Config) withDefaults() Config {
	return Config{cmp.Or(c.Event, 8<<20), cmp.Or(c.Stream, 256<<20), cmp.Or(c.Grace, time.Second)}
}

// Adapter calls agents through the guarded client. It is safe for concurrent use.
type Adapter struct {
	client  *outbound.Client
	secrets dial.Secrets
	cfg     Config
}

// New returns an Adapter.
func New(c *outbound.Client, s dial.Secrets, cfg Config) *Adapter {
	return &Adapter{client: c, secrets: s, cfg: cfg.withDefaults()}
}

// CallOptions describes one run to its agent's adapter.
type CallOptions struct {
	RequestID, TaskType string
	// Progress takes the events before the end, in order, on the goroutine of Do,
	// which reads no further until it returns. Its error ends the call.
	Progress func(ctx context.Context, p schemas.RunProgress) error
	// Answering is called on the same goroutine when the agent begins to answer; nil: no callback.
	Answering func(status int)
}

// For returns an adapter for the calls of one run. Of the response it keeps the status, and as the
// answer's body the end of the run: a schemas.RunResult. A success has no error; a refusal has the
// agent's error, if any.
func (a *Adapter) For(t CallOptions) call.Adapter { return runAdapter{a, t} }

type runAdapter struct {
	*Adapter
	opts CallOptions
}

// Open dials the agent.
func (v runAdapter) Open(ctx context.Context, p guard.Pass) (call.Exchange, error) {
	line, err := dial.Acquire(ctx, v.client, p)
	if err != nil {
		return nil, err
	}
	return &exchange{line, v}, nil
}

type exchange struct {
	*dial.Base
	runAdapter
}

// Do calls the agent and reads its response to the end. It reads the entry's secrets as late as
// possible. If a traffic rule answers, the agent is not called, and neither is Answering.
func (e *exchange) Do(ctx context.Context) (call.Reply, error) {
	if e.Pass.Mocked() {
		r := e.Mock()
		return e.decoder(head{r.Status, r.Headers, r.RetryAfter}, page{bytes.NewReader(r.Body)}, nil, time.Now()).decode(ctx)
	}
	req, scrub, err := e.Request(ctx, e.secrets, e.Pass.Call().Body)
	if err != nil {
		return call.Reply{}, err
	}
	req.ContentType = "application/json"
	asked := time.Now()
	// Only ctx bounds the time before the first event, and between two events: an agent may think
	// for as long as its run may take.
	s, err := e.Conn.Stream(ctx, req, outbound.StreamLimits{Header: -1, Bytes: e.cfg.Stream})
	if err != nil {
		return call.Reply{}, err
	}
	defer s.Close()
	if e.opts.Answering != nil {
		e.opts.Answering(s.Status)
	}
	return e.decoder(head{s.Status, s.Headers, s.RetryAfter}, s, scrub, asked).decode(ctx)
}

func (e *exchange) decoder(h head, s stream, scrub *redact.Scrubber, asked time.Time) *decoder {
	return &decoder{exchange: e, head: h, stream: s, scrub: scrub, asked: asked, reader: ends{opts: e.opts}}
}

// head is the beginning of an answer.
type head struct {
	status     int
	headers    []schemas.Header
	retryAfter time.Duration
}

// stream is an answer's body as it comes; see outbound.Stream.
type stream interface {
	io.Reader
	ReadAll(limit int64) ([]byte, error)
	Close()
}

// decoder is one answer while it is read.
type decoder struct {
	*exchange
	head
	stream stream
	scrub  *redact.Scrubber
	reader ends
	// last applies the newest event that may be the end; nil: there was none.
	last func()
	// given and left are the numbers of events that were passed on, and that were not.
	given, left int
	// asked is the time of the request, and took the time from there to the first end.
	asked time.Time
	took  time.Duration
}

// decode reads an answer of any kind.
func (l *decoder) decode(ctx context.Context) (call.Reply, error) {
	if l.status < 200 || l.status > 299 {
		return l.refused()
	}
	switch mediaType(l.headers) {
	case streamType:
		return l.events(ctx, l.stream)
	case jsonType:
		return l.whole(nil)
	}
	// What does not say what it is may be either; its first byte tells.
	first, err := dial.Peek(l.stream)
	switch {
	case err != nil:
		return call.Reply{}, l.broken(err)
	case first == '{':
		return l.whole([]byte{first})
	default:
		return l.events(ctx, io.MultiReader(bytes.NewReader([]byte{first}), l.stream))
	}
}

// page is a body that is all there.
type page struct{ *bytes.Reader }

// ReadAll reads what is left, where that is no more than limit.
func (p page) ReadAll(limit int64) ([]byte, error) {
	if int64(p.Len()) > limit {
		return nil, &fault.Call{Code: schemas.UpstreamTooLarge}
	}
	return io.ReadAll(p)
}

// Close does nothing.
func (page) Close() {}
