package broker

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
	"weir/schemas"
)

// Waiting is how many new actions no worker has been given yet, of all tenants: it is the
// log's own count. What waits for a retry, for somebody, or to begin is not among them.
func (b *Broker) Waiting(ctx context.Context) (uint64, error) {
	n := uint64(0)
	err := b.eachQueue(ctx, func(_ int, q schemas.Queue, info *jetstream.ConsumerInfo) error {
		if isNew(q) {
			n += info.NumPending
		}
		return nil
	})
	return n, err
}

// WaitingOf is Waiting of one tenant. It costs a request for each queue that has anything
// waiting, and the server's looking through that.
func (b *Broker) WaitingOf(ctx context.Context, tenant string) (uint64, error) {
	n := uint64(0)
	err := b.eachQueue(ctx, func(p int, q schemas.Queue, info *jetstream.ConsumerInfo) error {
		if !isNew(q) || info.NumPending == 0 {
			return nil
		}
		waits, err := b.count(ctx, schemas.LogStream(p), q.FilterOf(p, tenant), info.Delivered.Stream+1)
		n += min(waits, info.NumPending)
		return err
	})
	return n, err
}

// isNew reports whether a queue is of actions that have not begun; of those in an overflow queue some may
// have been woken.
func isNew(q schemas.Queue) bool { return q == schemas.QueueNew || q.Overflows() }

// Lag is how much work there is in each queue: the messages that no worker has been given
// yet, and those that workers have and have not acknowledged, delayed ones included. It is
// that of the whole log, whichever node asks. Each call asks the server once a partition;
// of a cluster whose consumers do not all answer it is an error, and no smaller number.
func (b *Broker) Lag(ctx context.Context) (map[schemas.Queue]uint64, error) {
	lag := map[schemas.Queue]uint64{}
	err := b.eachQueue(ctx, func(_ int, q schemas.Queue, info *jetstream.ConsumerInfo) error {
		lag[q] += info.NumPending + uint64(max(0, info.NumAckPending))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lag, nil
}

// eachQueue shows the queues of all partitions.
func (b *Broker) eachQueue(ctx context.Context, show func(partition int, q schemas.Queue, info *jetstream.ConsumerInfo) error) error {
	for p := range b.cfg.Layout.Partitions {
		s, err := b.js.Stream(ctx, schemas.LogStream(p))
		if err == nil {
			list := s.ListConsumers(ctx)
			for info := range list.Info() {
				if err == nil {
					err = show(p, schemas.Queue(info.Name), info)
				}
			}
			if err == nil {
				err = list.Err()
			}
		}
		if err != nil {
			return fmt.Errorf("consumers of %s: %w", schemas.LogStream(p), wrap(err))
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
