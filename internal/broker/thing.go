package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/broker/access"
	"weir/internal/fault"
	"weir/schemas"
)

// thing is a stream, a queue or a bucket that the log is made of.
type thing struct {
	name string
	// check says what is wrong with the one that is there, or nothing.
	// fault.ErrNotFound: there is none.
	check func(context.Context) (wrong string, err error)
	// make makes it, or brings it up to date, by a request to this subject.
	make    func(context.Context) error
	request string
}

// Thing is what became of a stream, a queue or a bucket.
type Thing struct {
	Name string `json:"name"`
	// Did is made, changed or kept.
	Did string `json:"did"`
	// Was is what was wrong with one that was changed.
	Was string `json:"was,omitempty"`
}

// What can become of a Thing.
const (
	ThingMade    = "made"
	ThingChanged = "changed"
	ThingKept    = "kept"
)

// provision sees to it that everything is there and right that this node needs. On our
// own server all is brought up to date, unasked. On a cluster what is right is left
// alone: a node need not be allowed to make anything.
func (b *Broker) provision(ctx context.Context) ([]Thing, error) {
	if err := b.checkLayout(ctx); err != nil {
		return nil, err
	}
	var all []Thing
	for _, t := range b.things() {
		did, err := b.ensure(ctx, t)
		if err != nil {
			return all, fmt.Errorf("%s: %w", t.name, err)
		}
		all = append(all, did)
	}
	return all, nil
}

func (b *Broker) ensure(ctx context.Context, t thing) (Thing, error) {
	did := Thing{Name: t.name, Did: ThingMade}
	if b.cfg.Server == nil {
		wrong, err := t.check(ctx)
		switch {
		case err == nil && wrong == "":
			did.Did = ThingKept
			return did, nil
		case err == nil:
			did.Did, did.Was = ThingChanged, wrong
		case !errors.Is(err, fault.ErrNotFound):
			return did, wrapDenied(err)
		}
	}
	if !b.granted.publishes(t.request) && b.cfg.Role != access.Provisioner {
		return did, unmade(did.Was, t.request)
	}
	err := t.make(ctx)
	if denied, ok := errors.AsType[*DeniedError](err); ok && b.cfg.Role != access.Provisioner {
		return did, unmade(did.Was, denied.Subject)
	}
	return did, wrapDenied(err)
}

// unmade is a node that finds something missing or wrong that it may not make. What is
// missing may come; what is wrong does not change by waiting.
func unmade(wrong, request string) error {
	const then = ", and this node's NATS user may not change that: run `weir nats provision` with this configuration"
	if wrong == "" {
		return fmt.Errorf("%w%s (it takes %s)", fault.ErrNotFound, then, request)
	}
	return fmt.Errorf("it %s%s (it takes %s)", wrong, then, request)
}

// wrapDenied is wrap that leaves a denial as it is.
func wrapDenied(err error) error {
	if denied, ok := errors.AsType[*DeniedError](err); ok {
		return denied
	}
	return wrap(err)
}

// things are what this node needs, in the order in which they are made.
func (b *Broker) things() []thing {
	var all []thing
	queues := b.cfg.Server != nil || b.cfg.Role.Works() || b.cfg.Role == access.Provisioner
	for p := range b.cfg.Layout.Partitions {
		all = append(all, b.streamThing(b.logStream(p)))
		if queues {
			all = append(all, b.queueThings(p)...)
		}
	}
	all = append(all, b.streamThing(b.evidenceStream()), b.streamThing(b.deadStream()), b.blobThing())
	for _, cfg := range b.buckets() {
		if b.needs(cfg.Bucket) {
			all = append(all, b.bucketThing(cfg))
		}
	}
	return all
}

// needs reports whether this node has anything to do with a bucket.
func (b *Broker) needs(bucket string) bool {
	if b.cfg.Server != nil || b.cfg.Role == access.Provisioner {
		return true
	}
	return access.Reads(b.cfg.Role, bucket)
}

func (b *Broker) streamThing(cfg jetstream.StreamConfig) thing {
	return thing{
		name: "stream " + cfg.Name, request: "$JS.API.STREAM.UPDATE." + cfg.Name,
		check: func(ctx context.Context) (string, error) { return b.checkStream(ctx, cfg) },
		make: func(ctx context.Context) error {
			return b.made(ctx, func(ctx context.Context) error {
				_, err := b.js.CreateOrUpdateStream(ctx, cfg)
				return err
			})
		},
	}
}

// queueThings are the consumers of a partition's work.
func (b *Broker) queueThings(p int) []thing {
	var all []thing
	for _, q := range schemas.Queues() {
		all = append(all, b.consumerThing(schemas.LogStream(p), b.workConsumer(p, q)))
	}
	return all
}

func (b *Broker) consumerThing(stream string, cfg jetstream.ConsumerConfig) thing {
	return thing{
		name: "consumer " + cfg.Durable + " of " + stream, request: "$JS.API.CONSUMER.CREATE." + stream + ".>",
		check: func(ctx context.Context) (string, error) { return b.checkConsumer(ctx, stream, cfg) },
		make: func(ctx context.Context) error {
			return b.made(ctx, func(ctx context.Context) error {
				_, err := b.js.CreateOrUpdateConsumer(ctx, stream, cfg)
				return err
			})
		},
	}
}

func (b *Broker) blobThing() thing {
	cfg := jetstream.ObjectStoreConfig{
		Bucket: schemas.BlobBucket, Description: "bodies too large for the log",
		TTL: blobAge(b.cfg.History), Storage: jetstream.FileStorage, Replicas: b.cfg.Replicas,
	}
	return thing{
		name: "bucket " + cfg.Bucket, request: "$JS.API.STREAM.UPDATE." + blobStream,
		check: func(ctx context.Context) (string, error) {
			return b.checkStream(ctx, jetstream.StreamConfig{Name: blobStream, MaxAge: cfg.TTL, Replicas: cfg.Replicas})
		},
		make: func(ctx context.Context) error {
			return b.made(ctx, func(ctx context.Context) error {
				_, err := b.js.CreateOrUpdateObjectStore(ctx, cfg)
				return err
			})
		},
	}
}

func (b *Broker) bucketThing(cfg jetstream.KeyValueConfig) thing {
	return thing{
		name: "bucket " + cfg.Bucket, request: "$JS.API.STREAM.UPDATE.KV_" + cfg.Bucket,
		check: func(ctx context.Context) (string, error) {
			return b.checkStream(ctx, jetstream.StreamConfig{
				Name: "KV_" + cfg.Bucket, MaxAge: cfg.TTL, MaxMsgsPerSubject: int64(cfg.History), Replicas: cfg.Replicas, RePublish: cfg.RePublish,
			})
		},
		make: func(ctx context.Context) error {
			return b.made(ctx, func(ctx context.Context) error {
				_, err := b.js.CreateOrUpdateKeyValue(ctx, cfg)
				return err
			})
		},
	}
}
