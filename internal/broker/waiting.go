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
	all, err := b.queues(ctx)
	for _, q := range all {
		if isNew(q.name) {
			n += q.NumPending
		}
	}
	return n, err
}

// WaitingOf is Waiting of one tenant. It costs a request for each queue with pending messages,
// which the server scans.
func (b *Broker) WaitingOf(ctx context.Context, tenant string) (n uint64, err error) {
	all, err := b.queues(ctx)
	for _, q := range all {
		if !isNew(q.name) || q.NumPending == 0 {
			continue
		}
		one, err := b.get(ctx, q.Stream, directGet{Next: q.name.FilterOf(q.partition, tenant), Seq: q.Delivered.Stream + 1, Batch: 1})
		if err != nil {
			return n, err
		}
		n += min(uint64(len(one.records))+one.left, q.NumPending)
	}
	return n, err
}

// isNew reports whether a queue holds actions that have not started. Some in an overflow queue may
// have been woken.
func isNew(q schemas.Queue) bool { return q == schemas.QueueNew || q.Overflows() }

// Lag counts the work in each queue of the whole log: the messages that were not delivered, and
// those that were not acknowledged, including delayed ones. It costs one request per partition. On
// a cluster it returns an error, and no smaller number, if not all consumers answer.
func (b *Broker) Lag(ctx context.Context) (map[schemas.Queue]uint64, error) {
	all, err := b.queues(ctx)
	if err != nil {
		return nil, err
	}
	lag := map[schemas.Queue]uint64{}
	for _, q := range all {
		lag[q.name] += q.NumPending + uint64(max(0, q.NumAckPending))
	}
	return lag, nil
}

// queue is the state of a partition's queue.
type queue struct {
	name      schemas.Queue
	partition int
	*jetstream.ConsumerInfo
}

// queues lists those of all partitions.
func (b *Broker) queues(ctx context.Context) (all []queue, err error) {
	for p := range b.cfg.Layout.Partitions {
		s, err := b.js.Stream(ctx, schemas.LogStream(p))
		if err == nil {
			list := s.ListConsumers(ctx)
			for info := range list.Info() {
				all = append(all, queue{schemas.Queue(info.Name), p, info})
			}
			err = list.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("consumers of %s: %w", schemas.LogStream(p), wrap(err))
		}
	}
	return all, nil
}
