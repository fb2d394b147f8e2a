package broker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
	"weir/internal/retry"
)

const (
	// publishTimeout bounds one Publish, including repeats. A message's own context may end it
	// earlier.
	publishTimeout = 5 * time.Second
	// retryPause avoids a hot loop when the server refuses at once.
	retryPause = 50 * time.Millisecond
)

// Publisher is Watermill's publisher over the broker. The topic is the subject, and the message's
// UUID is its id: a stream stores an id once within its window. Metadata are not stored. It is safe
// for concurrent use.
type Publisher struct {
	b       *Broker
	timeout time.Duration
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a publisher that borrows b's connection.
func NewPublisher(b *Broker) *Publisher { return &Publisher{b: b, timeout: publishTimeout} }

// errClosed is a closed broker or subscriber.
var errClosed = errors.New("closed")

// Publish stores the messages and returns when all are acknowledged. They are in flight together:
// after an error any of them may be stored. A message that is not acknowledged in time is sent
// again under the same id; a message without a UUID is sent once.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	wait, err := p.Send(topic, messages...)
	if err != nil {
		return err
	}
	return wait()
}

// Send is Publish up to the first wait. It returns an error if a message is too large, and has sent
// none then. Call wait once; it waits for the rest.
func (p *Publisher) Send(topic string, messages ...*message.Message) (wait func() error, err error) {
	for _, m := range messages {
		if limit := p.b.writes.MaxPayload(); int64(len(m.Payload)) > limit && limit > 0 {
			return nil, fault.ErrTooLarge
		}
	}
	deadline := time.Now().Add(p.timeout)
	waits := make([]func() error, len(messages))
	for i, m := range messages {
		msg := &nats.Msg{Subject: topic, Data: m.Payload}
		if m.UUID != "" {
			msg.Header = nats.Header{jetstream.MsgIDHeader: {m.UUID}}
		}
		c, err := p.b.acks.send(msg, nil)
		waits[i] = func() error {
			ctx, cancel := context.WithDeadline(m.Context(), deadline)
			defer cancel()
			return p.land(ctx, msg, m.UUID != "", c, err)
		}
	}
	return func() (first error) {
		for _, wait := range waits {
			first = cmp.Or(first, wait())
		}
		return first
	}, nil
}

// land waits for one acknowledgement, and repeats the message while that is safe and there is time.
func (p *Publisher) land(ctx context.Context, msg *nats.Msg, again bool, c *call, err error) error {
	for {
		if err == nil {
			err = p.b.acks.wait(ctx, c, p.b.cfg.AttemptTimeout)
		}
		if err == nil {
			p.b.wrote(msg.Subject, msg.Data)
		}
		if !errors.Is(err, fault.ErrUnavailable) || !again || !retry.Pause(ctx, retryPause) {
			return err
		}
		c, err = p.b.acks.send(msg, nil)
	}
}

// Close does nothing: Publish waits for its own messages, and the connection is the broker's.
func (p *Publisher) Close() error { return nil }
