package broker

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"weir/schemas"
)

// Waiting counts the new actions of all tenants that were not delivered to a worker. It does not
// count actions that wait for a retry, an answer or their start.
func (b *Broker) Waiting(ctx context.Context) (n uint64, err error) {
	err = b.eachQueue(ctx, func(_ int, q schemas.Queue, info *jetstream.ConsumerInfo) error {
		if isNew(q) {
			n += info.NumPending
		}
		return nil
	})
	return n, err
}

// WaitingOf is Waiting of one tenant. It costs a request for each queue with pending messages,
// which the server scans.
func (b *Broker) WaitingOf(ctx context.Context, tenant string) (n uint64, err error) {
	err = b.eachQueue(ctx, func(p int, q schemas.Queue, info *jetstream.ConsumerInfo) error {
		if !isNew(q) || info.NumPending == 0 {
			return nil
		}
		one, err := b.get(ctx, schemas.LogStream(p), directGet{Next: q.FilterOf(p, tenant), Seq: info.Delivered.Stream + 1, Batch: 1})
		n += min(uint64(len(one.records))+one.left, info.NumPending)
		return err
	})
	return n, err
}

// isNew reports whether a queue holds actions that have not started. Some in an overflow queue may
// have been woken.
func isNew(q schemas.Queue) bool { return q == schemas.QueueNew || q.Overflows() }

// Lag counts the work in each queue of the whole log: the messages that were not delivered, and
// those that were not acknowledged, including delayed ones. It costs one request per partition. On
// a cluster it returns an error, and no smaller number, if not all consumers answer.
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

// eachQueue calls show for the queues of all partitions.
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
