package broker

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// connect opens both connections. Publishes and their acknowledgements use a separate one, so that
// they and the deliveries do not delay each other.
func (b *Broker) connect() (err error) {
	gap := nats.ReconnectHandler(func(*nats.Conn) { b.gapped() })
	if b.nc, err = b.dial(gap); err != nil {
		return err
	}
	var more []nats.Option
	if b.cfg.Server != nil { // its acknowledgements are the feed
		more = append(more, gap)
	}
	if b.writes, err = b.dial(more...); err != nil {
		return err
	}
	if b.js, err = jetstream.New(b.nc); err != nil {
		return err
	}
	return errors.Join(b.acks.open(b.writes), b.reads.open(b.nc))
}

func (b *Broker) dial(more ...nats.Option) (nc *nats.Conn, err error) {
	opts := append([]nats.Option{
		nats.Name("weir"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		// A publish without a connection fails at once instead of being buffered.
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(b.asyncError),
	}, more...)
	if b.cfg.Server != nil {
		nc, err = b.cfg.Server.Connect(opts...)
	} else {
		var own []nats.Option
		if own, err = b.cfg.external(); err != nil {
			return nil, err
		}
		nc, err = nats.Connect(b.cfg.URL, append(opts, own...)...)
	}
	if err != nil {
		return nil, fmt.Errorf("the broker cannot be reached: %w", wrap(err))
	}
	return nc, nil
}

// asyncError handles errors that the client cannot return to a caller. Their texts may name
// subjects and addresses, so it logs the kind only.
func (b *Broker) asyncError(_ *nats.Conn, _ *nats.Subscription, err error) {
	kind := "other"
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		b.denied(err)
		return
	case errors.Is(err, nats.ErrSlowConsumer):
		kind = "slow_consumer"
	case errors.Is(err, nats.ErrBadHeaderMsg):
		kind = "bad_header"
	}
	b.cfg.Logger.WarnContext(b.life, "broker_connection_failed", "component", "broker", "err_kind", kind)
}
