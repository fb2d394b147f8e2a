// Package agent is the outward adapter for services that speak the run contract:
// it reads every dialect that they answer in, hands their events on as they come,
// and finds the one end.
package agent

import (
	"bufio"
	"cmp"
	"context"
	"strings"
	"time"

	"weir/internal/outbound"
	"weir/processors/call"
	"weir/processors/call/dial"
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
	// Answering is called on the same goroutine when the agent, and not a traffic rule, begins to
	// answer; nil: no callback.
	Answering func(status int)
}

// For returns an adapter for the calls of one run. Of the response it keeps the status, and as the
// answer's body the end of the run: a schemas.RunResult. A success has no error; a refusal has the
// agent's error, if any.
func (a *Adapter) For(t CallOptions) call.Adapter {
	return &dial.Adapter{
		Client: a.client, Secrets: a.secrets,
		// Only ctx bounds the time before the first event, and between two events: an agent may
		// think for as long as its run may take.
		Limits: outbound.StreamLimits{Header: -1, Bytes: a.cfg.Stream},
		Read: func(ctx context.Context, answer *dial.Answer) (*call.Reply, error) {
			if t.Answering != nil && !answer.Pass.Mocked() {
				t.Answering(answer.Status)
			}
			return (&decoder{Answer: answer, cfg: a.cfg, reader: ends{opts: t}}).decode(ctx)
		},
	}
}

// decoder is one answer while it is read.
type decoder struct {
	*dial.Answer

	cfg    Config
	reader ends
	// last applies the newest event that may be the end; nil: there was none.
	last func()
	// seen is the number of events of any kind; given and left are those that were passed on, and
	// that were not.
	seen, given, left int
}

// decode reads an answer of any kind.
func (l *decoder) decode(ctx context.Context) (*call.Reply, error) {
	if l.Refused() {
		return l.refused()
	}
	in := bufio.NewReader(l)
	switch media := dial.MediaType(l.Headers); {
	case media == "text/event-stream":
		return l.events(ctx, in)
	case media == "application/json", strings.HasSuffix(media, "+json"):
		return l.whole(in)
	}
	// What does not say what it is may be either; its first byte tells.
	switch first, err := dial.Peek(in); {
	case err != nil:
		return l.ended(err)
	case first == '{':
		return l.whole(in)
	default:
		return l.events(ctx, in)
	}
}
