package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/schemas"
)

const (
	// evidenceWindow is how long a repeat of a record's id stores nothing. It
	// must outlast a worker's crash, restart and redelivery.
	evidenceWindow = 10 * time.Minute
	// maxAckPending bounds the messages of a consumer that all workers hold
	// together, delayed ones included.
	maxAckPending = 8192

	// What a log says of itself, for the next to open it.
	metaPartitions = "weir_partitions"
	metaLanes      = "weir_lanes"
)

// provision makes what is missing and brings what is there up to date.
func (b *Broker) provision(ctx context.Context) error {
	if err := b.checkLayout(ctx); err != nil {
		return err
	}
	for p := range b.cfg.Layout.Partitions {
		if err := b.makeStream(ctx, b.logStream(p)); err != nil {
			return err
		}
		for _, k := range schemas.Kinds() {
			if _, err := b.js.CreateOrUpdateConsumer(ctx, schemas.LogStream(p), b.workConsumer(p, k)); err != nil {
				return fmt.Errorf("consumer %s of %s: %w", k, schemas.LogStream(p), wrap(err))
			}
		}
	}
	for _, cfg := range []jetstream.StreamConfig{b.evidenceStream(), b.deadStream()} {
		if err := b.makeStream(ctx, cfg); err != nil {
			return err
		}
	}
	_, err := b.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: schemas.BlobBucket, Description: "bodies too large for the log",
		TTL: blobAge(b.cfg.History), Storage: jetstream.FileStorage, Replicas: b.cfg.Replicas,
	})
	if err != nil {
		return fmt.Errorf("bucket %s: %w", schemas.BlobBucket, wrap(err))
	}
	return b.makeTokens(ctx)
}

func (b *Broker) makeStream(ctx context.Context, cfg jetstream.StreamConfig) error {
	if _, err := b.js.CreateOrUpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("stream %s: %w", cfg.Name, wrap(err))
	}
	return nil
}

// checkLayout refuses a log that was cut another way: its actions would not
// be found under the subjects that this layout computes.
func (b *Broker) checkLayout(ctx context.Context) error {
	s, err := b.js.Stream(ctx, schemas.LogStream(0))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", schemas.LogStream(0), wrap(err))
	}
	meta := s.CachedInfo().Config.Metadata
	want := b.cfg.Layout
	for _, c := range []struct {
		key, word string
		want      int
	}{{metaPartitions, "partitions", want.Partitions}, {metaLanes, "lanes", want.Lanes}} {
		if have := meta[c.key]; have != strconv.Itoa(c.want) {
			return fmt.Errorf("the log on this server has %q %s and %d are configured: the number is fixed when a log is made, so configure that one, or use another server or account",
				have, c.word, c.want)
		}
	}
	return nil
}

// logStream is one partition. It never drops a record to make room: it has no
// limit but age. The server refuses schedules on a stream that refuses new
// messages at a limit of its own, so fullness is the server's wall and, before
// that, the broker's own count.
func (b *Broker) logStream(p int) jetstream.StreamConfig {
	n := strconv.Itoa(p)
	return jetstream.StreamConfig{
		Name:              schemas.LogStream(p),
		Description:       "the log of actions, one partition",
		Subjects:          []string{schemas.LogRoot + "." + n + ".>", schemas.ScheduleRoot + "." + n + ".>"},
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardOld,
		MaxAge:            b.cfg.History,
		Storage:           jetstream.FileStorage,
		Replicas:          b.cfg.Replicas,
		AllowDirect:       true,
		AllowMsgSchedules: true,
		AllowRollup:       true, // how a newer schedule replaces an older one
		RePublish:         &jetstream.RePublish{Source: schemas.LogRoot + ".>", Destination: schemas.LiveRoot + ".>"},
		Metadata: map[string]string{
			metaPartitions: strconv.Itoa(b.cfg.Layout.Partitions),
			metaLanes:      strconv.Itoa(b.cfg.Layout.Lanes),
		},
	}
}

func (b *Broker) evidenceStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        schemas.EvidenceStream,
		Description: "the record of every attempt and denial",
		Subjects:    []string{schemas.EvidenceRoot + ".>"},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew,
		MaxAge:      b.cfg.EvidenceHistory,
		Storage:     jetstream.FileStorage,
		Replicas:    b.cfg.Replicas,
		Duplicates:  evidenceWindow,
		AllowDirect: true,
		DenyDelete:  true,
		DenyPurge:   true,
		RePublish:   &jetstream.RePublish{Source: schemas.EvidenceRoot + ".>", Destination: schemas.LiveRoot + ".evidence.>"},
	}
}

func (b *Broker) deadStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        schemas.DeadStream,
		Description: "messages that no retry can help",
		Subjects:    []string{schemas.DeadRoot + ".>"},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew,
		MaxAge:      b.cfg.EvidenceHistory,
		Storage:     jetstream.FileStorage,
		Replicas:    b.cfg.Replicas,
		Duplicates:  evidenceWindow,
		AllowDirect: true,
	}
}

// workConsumer is the one queue of a kind in a partition, which all workers
// share. Deliveries are not limited: how often an action was attempted is
// counted in the log, and a message that is given up by the server stays in
// the stream unseen.
func (b *Broker) workConsumer(p int, k schemas.Kind) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:        string(k),
		FilterSubjects: schemas.WorkFilters(p, k),
		DeliverPolicy:  jetstream.DeliverAllPolicy,
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        b.cfg.AckWait,
		MaxDeliver:     -1,
		MaxAckPending:  maxAckPending,
	}
}

// WorkTopic is the topic of a kind's work in one partition, for Subscriber:
// the stream and the durable consumer on it.
func WorkTopic(partition int, k schemas.Kind) string {
	return schemas.LogStream(partition) + "/" + string(k)
}

// splitTopic undoes WorkTopic.
func splitTopic(topic string) (stream, durable string, err error) {
	stream, durable, ok := strings.Cut(topic, "/")
	if !ok || stream == "" || durable == "" {
		return "", "", fmt.Errorf("topic %q is not a stream and a consumer", topic)
	}
	return stream, durable, nil
}
