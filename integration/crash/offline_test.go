//go:build e2e

package crash_test

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/weirtest/history"
	"weir/schemas"
)

// everything is more than a directory of these tests holds.
const everything = 1 << 20

// offline reads a data directory that no process has open.
func offline(ctx context.Context, dir string, run *history.Run) (err error) {
	layout := schemas.Layout{Partitions: 1}
	server, err := embedded.Start(embedded.Config{Dir: dir, Layout: layout, Durability: schemas.DurabilityProcess})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	b, err := broker.Open(ctx, broker.Config{Server: server, Layout: layout})
	if err != nil {
		return err
	}
	defer b.Close(ctx)
	if run.Log, err = b.Range(ctx, schemas.LogStream(0), schemas.LogRoot+".>", 1, everything); err != nil {
		return err
	}
	if run.Evidence, err = b.Range(ctx, schemas.EvidenceStream, schemas.EvidenceRoot+".>", 1, everything); err != nil {
		return err
	}
	return left(ctx, server, run)
}

// left counts the consumers and what waits in them.
func left(ctx context.Context, server *embedded.Server, run *history.Run) error {
	nc, err := server.Connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, schemas.LogStream(0))
	if err != nil {
		return err
	}
	run.Left.Consumers -= len(schemas.Queues())
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		run.Left.Consumers++
		run.Left.Backlog += info.NumPending + uint64(info.NumAckPending)
	}
	return list.Err()
}
