package broker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
	"weir/schemas"
)

// Waiting is how many new actions no worker has been given yet, of all tenants: it is the
// log's own count. What waits for a retry, for somebody, or to begin is not among them.
func (b *Broker) Waiting(ctx context.Context) (uint64, error) {
	n := uint64(0)
	err := b.eachQueue(ctx, func(_ string, q *jetstream.ConsumerInfo) error {
		n += q.NumPending
		return nil
	})
	return n, err
}

// WaitingOf is Waiting of one tenant. It costs a request for each queue that has anything
// waiting, and the server's looking through that.
func (b *Broker) WaitingOf(ctx context.Context, tenant string) (uint64, error) {
	token, n := schemas.EscapeToken(tenant), uint64(0)
	err := b.eachQueue(ctx, func(stream string, q *jetstream.ConsumerInfo) error {
		filter := crowd{Tenant: token}.filter(filterOf(q.Config))
		switch {
		case q.NumPending == 0:
			return nil
		case strings.HasPrefix(q.Name, schemas.CrowdPrefix):
			if filter == filterOf(q.Config) { // its own
				n += q.NumPending
			}
			return nil
		}
		own, err := b.count(ctx, stream, filter, q.Delivered.Stream+1)
		n += min(own, q.NumPending)
		return err
	})
	return n, err
}

// eachQueue shows the consumers of new actions, those of crowds too.
func (b *Broker) eachQueue(ctx context.Context, show func(stream string, q *jetstream.ConsumerInfo) error) error {
	for p := range b.cfg.Layout.Partitions {
		stream := schemas.LogStream(p)
		s, err := b.js.Stream(ctx, stream)
		if err != nil {
			return fmt.Errorf("consumers of %s: %w", stream, wrap(err))
		}
		queues := s.ListConsumers(ctx)
		for q := range queues.Info() {
			if err == nil && strings.HasSuffix(filterOf(q.Config), "."+string(schemas.TailAccepted)) {
				err = show(stream, q)
			}
		}
		if err == nil {
			err = wrap(queues.Err())
		}
		if err != nil {
			return fmt.Errorf("consumers of %s: %w", stream, err)
		}
	}
	return nil
}

// count is how many messages there are under a filter from a sequence on: the server says of
// the first how many follow.
func (b *Broker) count(ctx context.Context, stream, filter string, from uint64) (n uint64, err error) {
	req := directGet{Next: filter, Seq: max(from, 1), Batch: 1}
	werr := b.get(ctx, stream, req, func(m *nats.Msg) bool {
		switch s := status(m); s {
		case "":
			n++
			return false
		case statusEnd:
			more, bad := strconv.ParseUint(last(m.Header, headerPending), 10, 64)
			if n += more; bad != nil {
				err = fmt.Errorf("%w: an answer without a count", fault.ErrUnavailable)
			}
		case statusNotFound:
		default:
			err = fmt.Errorf("%w: status %s", fault.ErrUnavailable, s)
		}
		return true
	})
	if werr != nil {
		return 0, werr
	}
	return n, err
}
