package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
)

// checkStream says what is wrong with a stream, or nothing. What want leaves empty is
// not looked at, but for limits that nothing has: those of age, and where the log is
// republished.
func (b *Broker) checkStream(ctx context.Context, want jetstream.StreamConfig) (string, error) {
	var s jetstream.Stream
	err := b.made(ctx, func(ctx context.Context) (err error) {
		s, err = b.js.Stream(ctx, want.Name)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", fault.ErrNotFound
	}
	if err != nil {
		return "", err
	}
	return differs(want, s.CachedInfo().Config), nil
}

// differs is the first difference that matters, as a sentence about what there is.
func differs(want, have jetstream.StreamConfig) string {
	switch {
	case want.Subjects != nil && !slices.Equal(slices.Sorted(slices.Values(want.Subjects)), slices.Sorted(slices.Values(have.Subjects))):
		return "stores other subjects"
	case want.MaxAge != have.MaxAge:
		return fmt.Sprintf("keeps records for %s and not for %s", have.MaxAge, want.MaxAge)
	case want.Replicas != have.Replicas:
		return fmt.Sprintf("has %d replicas and not %d", have.Replicas, want.Replicas)
	case want.Duplicates != 0 && want.Duplicates != have.Duplicates:
		return fmt.Sprintf("remembers ids for %s and not for %s", have.Duplicates, want.Duplicates)
	case want.MaxMsgsPerSubject != 0 && want.MaxMsgsPerSubject != have.MaxMsgsPerSubject:
		return fmt.Sprintf("keeps %d values of a key and not %d", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject)
	case want.AllowDirect && !have.AllowDirect, want.AllowMsgSchedules && !have.AllowMsgSchedules, want.AllowRollup && !have.AllowRollup,
		want.AllowMsgTTL && !have.AllowMsgTTL:
		return "does not allow what is needed of it"
	case want.DenyDelete && !have.DenyDelete, want.DenyPurge && !have.DenyPurge:
		return "lets records be deleted"
	case want.Subjects != nil && (want.Retention != have.Retention || want.Discard != have.Discard):
		return "drops records in another way"
	case !sameRePublish(want.RePublish, have.RePublish):
		return "is republished in another way"
	}
	return ""
}

func sameRePublish(a, b *jetstream.RePublish) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Source == b.Source && a.Destination == b.Destination
}

// checkConsumer says what is wrong with a queue, or nothing.
func (b *Broker) checkConsumer(ctx context.Context, stream string, want jetstream.ConsumerConfig) (string, error) {
	var c jetstream.Consumer
	err := b.made(ctx, func(ctx context.Context) (err error) {
		c, err = b.js.Consumer(ctx, stream, want.Durable)
		return err
	})
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", fault.ErrNotFound
	}
	if err != nil {
		return "", err
	}
	have := c.CachedInfo().Config
	switch {
	case want.FilterSubject != have.FilterSubject || len(have.FilterSubjects) > 0:
		return "gives out other messages", nil
	case want.AckWait != have.AckWait:
		return fmt.Sprintf("waits %s for an answer and not %s", have.AckWait, want.AckWait), nil
	case want.MaxAckPending != have.MaxAckPending:
		return fmt.Sprintf("gives out %d messages at a time and not %d", have.MaxAckPending, want.MaxAckPending), nil
	case want.AckPolicy != have.AckPolicy, want.MaxDeliver != have.MaxDeliver, have.DeliverSubject != "":
		return "gives out messages in another way", nil
	}
	return "", nil
}
