package embedded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/schemas"
)

// Observer is a connection of an observer to an embedded server. It is safe for concurrent use.
type Observer struct {
	conn   *nats.Conn
	stream jetstream.Stream
}

// ErrNoConsumer says that there is no consumer of that name.
var ErrNoConsumer = errors.New("there is no consumer of this name")

// Consumer is one that an observer made on the stream of the evidence.
type Consumer struct {
	Name    string    `json:"name"`
	Durable bool      `json:"durable"`
	Created time.Time `json:"created"`
	// Delivered is when it last received a record; absent: never, since the server was started.
	Delivered *time.Time `json:"delivered,omitempty"`
	Filters   []string   `json:"filters"`
	// Pending are the records that it has not received yet, Unacked those that it has not
	// acknowledged.
	Pending uint64 `json:"pending"`
	Unacked int    `json:"unacked"`
}

// Observe connects with the credentials of a file that a server wrote, see CredentialsFile.
func Observe(ctx context.Context, file string) (*Observer, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var c Credentials
	if err := json.Unmarshal(raw, &c); err != nil || c.URL == "" {
		return nil, fmt.Errorf("%s has no credentials of an observer", file)
	}
	conn, err := nats.Connect(c.URL, nats.UserInfo(c.User, c.Password), nats.Name("weir nats consumers"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.URL, err)
	}
	o := &Observer{conn: conn}
	js, err := jetstream.New(conn)
	if err == nil {
		o.stream, err = js.Stream(ctx, schemas.EvidenceStream)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", c.URL, err)
	}
	return o, nil
}

// Follow calls each for every record that filter covers, in order, through a durable consumer. It
// acknowledges a record after each has returned, and returns when ctx ends.
func (o *Observer) Follow(ctx context.Context, durable, filter string, each func(schemas.Evidence)) error {
	consumer, err := o.stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: filter,
	})
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	run, err := consumer.Consume(func(m jetstream.Msg) {
		var e schemas.Evidence
		if err := json.Unmarshal(m.Data(), &e); err == nil {
			each(e)
		}
		_ = m.Ack() // after a lost acknowledgement the record is delivered again
	}, jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(time.Second))
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	<-ctx.Done()
	run.Stop()
	<-run.Closed()
	return nil
}

// Close ends the connection.
func (o *Observer) Close() { o.conn.Close() }

// Consumers lists the consumers of all observers by name.
func (o *Observer) Consumers(ctx context.Context) ([]Consumer, error) {
	all := []Consumer{}
	list := o.stream.ListConsumers(ctx)
	for i := range list.Info() {
		c := Consumer{
			Name: i.Name, Durable: i.Config.Durable != "", Created: i.Created, Delivered: i.Delivered.Last,
			Filters: i.Config.FilterSubjects, Pending: i.NumPending, Unacked: i.NumAckPending,
		}
		if i.Config.FilterSubject != "" {
			c.Filters = []string{i.Config.FilterSubject}
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Consumer) int { return cmp.Compare(a.Name, b.Name) })
	return all, list.Err()
}

// Delete removes a consumer, and what it has not read with it; the evidence stays. It returns
// ErrNoConsumer.
func (o *Observer) Delete(ctx context.Context, name string) error {
	err := o.stream.DeleteConsumer(ctx, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrInvalidConsumerName) {
		return ErrNoConsumer
	}
	return err
}
