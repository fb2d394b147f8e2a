package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/broker/embedded"
	"weir/schemas"
)

// Observation is what an observer follows. Empty fields do not restrict it.
type Observation struct {
	Tenant string // required
	Kind   string
	Entry  string
	// Durable names the consumer, which remembers what was received.
	Durable string
}

// Observe follows the evidence as any NATS client would: over the network, with
// the observer's credentials from the given file, through a durable consumer. It
// calls each in order, acknowledges what each has returned from, and returns
// when ctx ends.
func Observe(ctx context.Context, credentials string, o Observation, each func(schemas.Evidence)) error {
	raw, err := os.ReadFile(credentials)
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	var c embedded.Credentials
	if err := json.Unmarshal(raw, &c); err != nil {
		return errors.New("observe: the file does not hold credentials")
	}
	nc, err := nats.Connect(c.URL, nats.UserInfo(c.User, c.Password), nats.Name("weir observer"))
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, schemas.EvidenceStream, jetstream.ConsumerConfig{
		Durable: o.Durable, AckPolicy: jetstream.AckExplicitPolicy,
		FilterSubject: schemas.EvidenceFilter(o.Tenant, o.Kind, o.Entry, "", false),
	})
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	run, err := consumer.Consume(func(m jetstream.Msg) {
		var e schemas.Evidence
		if err := json.Unmarshal(m.Data(), &e); err == nil {
			each(e)
		}
		_ = m.Ack() // an acknowledgement that is lost brings the record again
	}, jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(time.Second))
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	<-ctx.Done()
	run.Stop()
	<-run.Closed()
	return nil
}
