package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"weir/internal/fault"
)

// PublisherConfig sets a Publisher's limits.
type PublisherConfig struct {
	// Timeout bounds one Publish, repeats included; default 5 s. A message's
	// own context may end it earlier.
	Timeout time.Duration
}

// Publisher is Watermill's publisher over the broker. The topic is the
// subject, the metadata are headers, and the message's UUID is its id: within
// the stream's window a message with an id that is stored already is not
// stored again. It is safe for concurrent use.
type Publisher struct {
	b   *Broker
	cfg PublisherConfig

	flying sync.WaitGroup // messages without an acknowledgement
	mu     sync.RWMutex
	closed bool
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a publisher that borrows b's connection.
func NewPublisher(b *Broker, cfg PublisherConfig) *Publisher {
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	return &Publisher{b: b, cfg: cfg}
}

// errClosed is what a closed publisher or subscriber answers.
var errClosed = errors.New("closed")

// Publish stores the messages and returns when all are acknowledged. They are
// in flight together: after an error some may be stored and some not, in any
// combination. What is not acknowledged in time is sent again under the same
// id; a message without a UUID is sent once.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	wait, err := p.Send(topic, messages...)
	if err != nil {
		return err
	}
	return wait()
}

// Send is Publish as far as it can be done without waiting: its error is that a message cannot
// be sent at all, and nothing was. What it returns waits for the rest, and is to be called once.
func (p *Publisher) Send(topic string, messages ...*message.Message) (wait func() error, err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return nil, errClosed
	}
	flights := make([]flight, len(messages))
	for i, m := range messages {
		msg, err := outgoing(topic, m)
		if err != nil {
			return nil, err
		}
		if limit := p.b.writes.MaxPayload(); int64(len(msg.Data)) > limit && limit > 0 {
			return nil, fault.ErrTooLarge
		}
		flights[i] = flight{ctx: m.Context(), msg: msg, again: m.UUID != ""}
	}
	deadline := time.Now().Add(p.cfg.Timeout)
	for i := range flights {
		flights[i].call, flights[i].err = p.b.acks.send(flights[i].msg, nil)
	}
	p.flying.Add(1)
	return func() (first error) {
		defer p.flying.Done()
		for i := range flights {
			if err := p.land(&flights[i], deadline); err != nil && first == nil {
				first = err
			}
		}
		return first
	}, nil
}

// flight is one message on its way.
type flight struct {
	ctx   context.Context //nolint:containedctx // each message of a batch has its own
	msg   *nats.Msg
	again bool
	call  *call
	err   error // of sending it
}

// land waits for one acknowledgement, and sends the message again while that
// is harmless and there is time.
func (p *Publisher) land(f *flight, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(f.ctx, deadline)
	defer cancel()
	for {
		err := f.err
		if err == nil {
			err = p.b.acks.wait(ctx, f.call, p.b.cfg.AttemptTimeout)
		}
		if err == nil {
			_, err = stored(f.call.reply)
		}
		if err == nil {
			p.b.wrote(f.msg.Subject, f.msg.Data)
		}
		if !errors.Is(err, fault.ErrUnavailable) || !f.again || !p.pause(ctx) {
			return err
		}
		f.call, f.err = p.b.acks.send(f.msg, nil)
	}
}

// retryPause keeps a publisher from asking a server in a hot loop that refuses
// at once.
const retryPause = 50 * time.Millisecond

func (p *Publisher) pause(ctx context.Context) bool {
	select {
	case <-time.After(retryPause):
		return true
	case <-ctx.Done():
		return false
	}
}

// Close waits for what is being published. It leaves the connection alone.
func (p *Publisher) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.flying.Wait()
	return nil
}

// outgoing is m as NATS carries it.
func outgoing(topic string, m *message.Message) (*nats.Msg, error) {
	msg := &nats.Msg{Subject: topic, Data: m.Payload}
	if len(m.Metadata) > 0 || m.UUID != "" {
		msg.Header = make(nats.Header, len(m.Metadata)+1)
	}
	for k, v := range m.Metadata {
		if !headerName(k) || strings.ContainsAny(v, "\r\n") {
			return nil, fmt.Errorf("metadata %q cannot be a header", k)
		}
		msg.Header[k] = []string{v}
	}
	if m.UUID != "" {
		msg.Header[headerMsgID] = []string{m.UUID}
	}
	return msg, nil
}

// headerName reports whether k may stand before a colon on a line of its own.
func headerName(k string) bool {
	for i := range len(k) {
		if c := k[i]; c <= ' ' || c == ':' || c > '~' {
			return false
		}
	}
	return k != ""
}
