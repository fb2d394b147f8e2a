package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
	"weir/schemas"
)

// Waiting counts the new actions of a tenant that were not delivered to a worker; of all tenants if
// it is empty. It does not count actions that wait for a retry, an answer or their start, but some in
// an overflow queue that were woken. For a tenant it costs a request for each queue with pending
// messages, which the server scans.
func (b *Broker) Waiting(ctx context.Context, tenant string) (n uint64, err error) {
	all, err := b.queues(ctx)
	for _, q := range all {
		pending := q.NumPending
		if pending == 0 || q.name != schemas.QueueNew && !q.name.Overflows() {
			continue
		}
		if tenant != "" {
			one, err := b.get(ctx, q.Stream, directGet{Next: q.name.FilterOf(q.partition, tenant), Seq: q.Delivered.Stream + 1, Batch: 1})
			if err != nil {
				return n, err
			}
			pending = min(uint64(len(one.records))+one.left, pending)
		}
		n += pending
	}
	return n, err
}

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

const (
	// positionEvery is how often the place of a quiet queue is checked, and how long the queue must
	// have delivered nothing. It must be much longer than the server takes to count a new message.
	positionEvery = 15 * time.Second
	// positionLag is how many records a place may lag before it is moved.
	positionLag = 10_000
)

// advancePosition moves the place of a quiet queue forward. The server stores the place of the last
// delivered message, and when it starts it searches every record after it, a million per second,
// while no writes are possible. A queue that is seldom used would cost that at each start.
//
// The new place is the newest record of the previous check. The queue must have delivered nothing
// since then although a pull was pending, and must have no pending or unacknowledged message. On a
// cluster the stream's leader must confirm that, because the queue's may be late. Later messages
// are delivered as usual, and once more if they were on their way. After an error the next check
// tries again.
func (f *feed) advancePosition() {
	f.slots.mu.Lock()
	quiet := !f.closing && !f.hold && f.asked > 0 && len(f.held) == 0
	before := f.looked
	f.looked = 0
	f.slots.mu.Unlock()
	if !quiet {
		return
	}
	ctx, cancel := context.WithTimeout(f.handlers, readTimeout)
	defer cancel()
	_, newest, err := f.s.b.Bounds(ctx, f.stream)
	if err != nil {
		return
	}
	if before > 0 && before <= newest {
		f.movePosition(ctx, before)
	}
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	if len(f.held) == 0 { // otherwise a message was delivered since
		f.looked = newest
	}
}

// movePosition makes to the last record that the queue has passed.
func (f *feed) movePosition(ctx context.Context, to uint64) {
	c, err := f.s.b.js.Consumer(ctx, f.stream, string(f.queue))
	if err != nil {
		return
	}
	info := c.CachedInfo()
	seen := info.Delivered.Stream
	done := info.NumPending == 0 && info.NumAckPending == 0 && info.AckFloor.Stream == seen
	if !done || seen == 0 || seen+f.s.cfg.PositionLag > to { // seen is 0: a start finds it empty at once
		return
	}
	if f.s.b.cfg.Replicas > 1 {
		next, err := f.s.b.Next(ctx, f.stream, f.config.FilterSubject, seen+1)
		if !errors.Is(err, fault.ErrNotFound) && (err != nil || next.Seq <= to) {
			return
		}
	}
	if _, err := f.s.b.js.ResetConsumerToSequence(ctx, f.stream, string(f.queue), to+1); err != nil {
		f.warn("place_not_moved")
	}
}
