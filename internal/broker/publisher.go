package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/net/http/httpguts"

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

// Publisher is Watermill's publisher over the broker. The topic is the subject, the metadata are
// headers, and the message's UUID is its id: a stream stores an id once within its window. It is
// safe for concurrent use.
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

// Send is Publish up to the first wait. It returns an error if a message cannot be sent at all, and
// has sent none then. Call wait once; it waits for the rest.
func (p *Publisher) Send(topic string, messages ...*message.Message) (wait func() error, err error) {
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
	deadline := time.Now().Add(p.timeout)
	for i := range flights {
		flights[i].call, flights[i].err = p.b.acks.send(flights[i].msg, nil)
	}
	return func() (first error) {
		for i := range flights {
			if err := p.land(&flights[i], deadline); err != nil && first == nil {
				first = err
			}
		}
		return first
	}, nil
}

// flight is one message that was sent.
type flight struct {
	ctx   context.Context //nolint:containedctx // each message of a batch has its own
	msg   *nats.Msg
	again bool
	call  *call
	err   error // of sending it
}

// land waits for one acknowledgement, and repeats the message while that is safe and there is time.
func (p *Publisher) land(f *flight, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(f.ctx, deadline)
	defer cancel()
	for {
		err := f.err
		if err == nil {
			err = p.b.acks.wait(ctx, f.call, p.b.cfg.AttemptTimeout)
		}
		if err == nil {
			p.b.wrote(f.msg.Subject, f.msg.Data)
		}
		if !errors.Is(err, fault.ErrUnavailable) || !f.again || !retry.Pause(ctx, retryPause) {
			return err
		}
		f.call, f.err = p.b.acks.send(f.msg, nil)
	}
}

// Close does nothing: Publish waits for its own messages, and the connection is the broker's.
func (p *Publisher) Close() error { return nil }

// outgoing is m in NATS form.
func outgoing(topic string, m *message.Message) (*nats.Msg, error) {
	msg := &nats.Msg{Subject: topic, Data: m.Payload, Header: make(nats.Header, len(m.Metadata)+1)}
	for k, v := range m.Metadata {
		if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidHeaderFieldValue(v) {
			return nil, fmt.Errorf("metadata %q cannot be a header", k)
		}
		msg.Header[k] = []string{v}
	}
	if m.UUID != "" {
		msg.Header[jetstream.MsgIDHeader] = []string{m.UUID}
	}
	return msg, nil
}
