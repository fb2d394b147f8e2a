package stored

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/weirtest/history"
	"weir/schemas"
)

// everything is more than a directory of a test holds.
const everything = 1 << 20

// Offline fills in what a data directory has that no process has open: the log, the evidence,
// and what is left in the queues.
func Offline(ctx context.Context, dir string, run *history.Run) (err error) {
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
	nc, err := server.Connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	var queues int
	run.Left.Backlog, queues, err = (&Log{nc, js}).Waiting(ctx, []string{schemas.LogStream(0)})
	run.Left.Consumers = queues - len(schemas.Queues())
	return err
}
