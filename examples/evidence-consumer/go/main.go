// Command evidence-consumer copies Weir's evidence into a file, one record a line.
//
// It reads the stream WEIR_EVIDENCE with a durable consumer and acknowledges a record only
// after the record is on disk. If an acknowledgement is lost, NATS delivers the record again
// with the same id: store records by their id.
//
//	go run . CREDENTIALS FILE
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: evidence-consumer CREDENTIALS FILE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := copyEvidence(ctx, os.Args[1], os.Args[2])
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func copyEvidence(ctx context.Context, credentials, name string) error {
	text, err := os.ReadFile(credentials) //nolint:gosec // the path is the operator's
	if err != nil {
		return err
	}
	var access struct {
		URL      string `json:"url"`
		User     string `json:"user"`
		Password string `json:"password"`
	}
	if err := json.Unmarshal(text, &access); err != nil {
		return fmt.Errorf("%s: %w", credentials, err)
	}
	nc, err := nats.Connect(access.URL, nats.UserInfo(access.User, access.Password), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	// The server remembers under this name what was acknowledged: a restart continues there.
	consumer, err := js.CreateOrUpdateConsumer(ctx, "WEIR_EVIDENCE", jetstream.ConsumerConfig{
		Durable: "evidence-go", AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // the path is the operator's
	if err != nil {
		return err
	}
	defer file.Close()
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		if _, err := file.Write(append(m.Data(), '\n')); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		if err := m.DoubleAck(ctx); err != nil {
			return err
		}
	}
}
