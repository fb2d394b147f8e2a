package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/broker/access"
	"weir/schemas"
)

const (
	// observerAckWait is how long an observer may take over one record.
	observerAckWait = 30 * time.Second
	// observerPending is how many records it may hold at once.
	observerPending = 1000
)

// Provision makes on a cluster what a log is made of, or brings it up to date, and the
// places of these tenants' observers in the evidence. It says what became of each, as
// far as it came, and may be called again: what is right is kept. Nothing is deleted.
func Provision(ctx context.Context, cfg Config, tenants []string) (did []Thing, err error) {
	cfg.Role = access.Provisioner
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	b := newBroker(ctx, cfg)
	defer b.Close(ctx)
	if err := b.connect(); err != nil {
		return nil, err
	}
	if err := b.checkAccess(ctx); err != nil {
		return nil, err
	}
	if did, err = b.provision(ctx); err != nil {
		return did, err
	}
	for _, tenant := range tenants {
		t := b.consumerThing(schemas.EvidenceStream, observerConsumer(tenant))
		became, err := b.ensure(ctx, t)
		if err != nil {
			return did, fmt.Errorf("%s: %w", t.name, err)
		}
		did = append(did, became)
	}
	_, err = b.SealKey(ctx) // workers may read it and not make it
	return did, err
}

// observerConsumer is where a tenant's observer is in the evidence.
func observerConsumer(tenant string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       access.ObserverQueue(tenant),
		FilterSubject: schemas.EvidenceFilter(tenant, "", "", "", false),
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       observerAckWait,
		MaxDeliver:    -1,
		MaxAckPending: observerPending,
	}
}
