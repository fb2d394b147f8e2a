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
	all := func(stream, filter string) (records []schemas.Record) {
		for from, more := uint64(1), true; more && err == nil; {
			var page []schemas.Record
			page, more, err = b.Page(ctx, stream, filter, from, 1<<20, 8<<20)
			if records = append(records, page...); len(records) > 0 {
				from = records[len(records)-1].Seq + 1
			}
		}
		return records
	}
	run.Log = all(schemas.LogStream(0), schemas.LogRoot+".>")
	if err == nil {
		run.Evidence = all(schemas.EvidenceStream, schemas.EvidenceRoot+".>")
	}
	if err != nil {
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
