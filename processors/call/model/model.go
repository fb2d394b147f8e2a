// Package model is the outward adapter for services that speak a protocol of models: it
// hands the chunks of their answers on as they come, mends what they get wrong, and keeps
// the secrets of their entries out of it.
package model

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"weir/internal/completion"
	"weir/internal/outbound"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/schemas"
)

// Config bounds what a model may answer.
type Config struct {
	// Event is the most data that one event, or an answer that is no stream, may have;
	// default 8 MiB.
	Event int64
	// Stream is the most that a stream may have in all; default 256 MiB. Of that a token
	// may take some hundred times what it is long.
	Stream int64
	// Answer is the largest size of a streamed answer, assembled, and of embeddings; default
	// 32 MiB. It is what a call holds on to, in several copies at its end.
	Answer int64
	// Grace is how long a stream in which every choice has ended is waited for, for what
	// was used and for its end: without a byte of it, and twelve times as long in all.
	// Default 5 s.
	Grace time.Duration
}

func (c Config) withDefaults() Config {
	return Config{cmp.Or(c.Event, 8<<20), cmp.Or(c.Stream, 256<<20), cmp.Or(c.Answer, 32<<20), cmp.Or(c.Grace, 5*time.Second)}
}

// Adapter calls models through the guarded client. It is safe for concurrent use.
type Adapter struct {
	client  *outbound.Client
	secrets dial.Secrets
	cfg     Config
}

// New returns an Adapter.
func New(c *outbound.Client, s dial.Secrets, cfg Config) *Adapter {
	return &Adapter{client: c, secrets: s, cfg: cfg.withDefaults()}
}

// CallOptions is one call of a model.
type CallOptions struct {
	// Dialect is the protocol of the answer; empty: schemas.DialectChat.
	Dialect schemas.Dialect
	// Options describe the request. A stream of DialectChat is over without [DONE] when as many choices
	// as were asked for have ended.
	completion.Options
	// Stream: the caller reads chunks, of a model that answers as a whole too.
	Stream bool
	// Connect, FirstByte and Idle bound the time until the connection stands, then until
	// the answer begins, and then until more of it arrives; zero: the attempt's own.
	Connect, FirstByte, Idle time.Duration
	// Chunk takes the next chunk for the reader, in order, on the goroutine of Do, which
	// reads no further until it returns. It never receives a secret of the entry, in one piece or
	// several. Its error ends the call.
	Chunk func(ctx context.Context, c Piece) error
	// Broke is called before Do returns with the usage of a call without a reply, if the provider
	// reported it before the connection broke. nil: no callback.
	Broke func(used *schemas.ChatUsage)
	// Done returns once every chunk is on the log. It is called before Do returns, whatever came of an
	// answer that began with a success.
	Done func(ctx context.Context) error
}

// Piece is one chunk of an answer.
type Piece struct {
	// Raw is what the reader is given; nil: nothing, for it only counts.
	Raw json.RawMessage
	// Output is an estimate of the tokens of the answer so far.
	Output int64
}

// Response is the body of a Reply's answer: all that a model answered.
type Response struct {
	// Completion is the whole answer of a success.
	Completion json.RawMessage `json:"completion,omitempty"`
	// ProviderID is the provider's own id of it, where the caller receives another.
	ProviderID string `json:"provider_id,omitempty"`
	// Usage is the provider's word; nil: it has not told. Output is an estimate of the
	// tokens of the answer.
	Usage   *schemas.ChatUsage `json:"usage,omitempty"`
	Output  int64              `json:"output,omitempty"`
	Reasons []string           `json:"reasons,omitempty"`
	// Fault is what the provider said went wrong: with its status where it refused, and
	// with a 2xx status of the answer where it said so in the stream.
	Fault *completion.Fault `json:"fault,omitempty"`
	// First is how long it took until the first of the answer.
	First time.Duration `json:"first_ns,omitempty"`
}

// For returns an adapter for one call. A success has a whole answer that ended: a stream of
// DialectChat without [DONE] has, once as many choices as were asked for said why they ended,
// and one of another dialect with its last event. Otherwise it is UPSTREAM_TRUNCATED. Any other status has the Fault. The answer's Hash is that of
// what came. An error of Chunk, or of Done where nothing else went wrong, is returned as
// it is.
func (a *Adapter) For(t CallOptions) call.Adapter {
	return &dial.Adapter{
		Client: a.client, Secrets: a.secrets, Connect: t.Connect,
		Limits: outbound.StreamLimits{Header: cmp.Or(t.FirstByte, -1), Bytes: a.cfg.Stream},
		Read: func(ctx context.Context, answer *dial.Answer) (*call.Reply, error) {
			return (&decoder{Answer: answer, cfg: a.cfg, options: t}).decode(ctx)
		},
	}
}
