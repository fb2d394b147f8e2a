package broker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
)

// suitePublisher and suiteSubscriber give Watermill's suite a stream for each topic and a durable
// consumer for each group: the product makes its own when it opens the log.
type suitePublisher struct{ *Publisher }

func (p suitePublisher) Publish(topic string, messages ...*message.Message) error {
	return p.Publisher.Publish("suite."+topic, messages...)
}

type suiteSubscriber struct {
	*Subscriber
	group string
}

func (s suiteSubscriber) SubscribeInitialize(topic string) error {
	stream := "SUITE_" + strings.ReplaceAll(topic, ".", "_")
	_, err := s.b.js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{
		Name: stream, Subjects: []string{"suite." + topic}, Duplicates: 10 * time.Minute,
	})
	if err != nil {
		return err
	}
	_, err = s.b.js.CreateOrUpdateConsumer(context.Background(), stream, jetstream.ConsumerConfig{
		Durable: s.group, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 2 * time.Second, MaxAckPending: maxAckPending,
	})
	return err
}

func (s suiteSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := s.SubscribeInitialize(topic); err != nil {
		return nil, err
	}
	return s.Subscriber.Subscribe(ctx, "SUITE_"+strings.ReplaceAll(topic, ".", "_")+"/"+s.group)
}

// TestWatermillSuite is Watermill's own acceptance test. There is no exactly once, and no order: a
// subscriber holds many messages at once.
func TestWatermillSuite(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: "process"}, Config{})
	group := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		t.Helper()
		pub := NewPublisher(n.Broker)
		pub.timeout = 30 * time.Second
		sub := NewSubscriber(n.Broker, SubscriberConfig{Backlog: 100_000, DrainTimeout: time.Second, NakDelay: 100 * time.Millisecond})
		t.Cleanup(func() {
			require.NoError(t, pub.Close())
			require.NoError(t, sub.Close())
		})
		return suitePublisher{pub}, suiteSubscriber{sub, group}
	}
	tests.TestPubSub(t, tests.Features{
		ConsumerGroups: true,
		Persistent:     true,
		GenerateTopicFunc: func(c tests.TestContext) string {
			return "topic-" + c.TestID.String()
		},
		GenerateIDFunc: func() tests.TestID { return tests.TestID(watermill.NewUUID()) },
	}, func(t *testing.T) (message.Publisher, message.Subscriber) {
		t.Helper()
		return group(t, "default")
	}, group)
}
