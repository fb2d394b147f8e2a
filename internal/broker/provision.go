package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/schemas"
)

const (
	// evidenceWindow is how long a repeat of a record's id stores nothing: longer than a
	// worker that was given up may still write. Who takes its work over has read what is
	// stored. With the embedded server such a worker stands still as the server does, and
	// what the window holds takes memory, and time at each start.
	evidenceWindow         = 10 * time.Minute
	embeddedEvidenceWindow = time.Minute
	// logWindow is the least that a server takes. Records of the log have no such ids,
	// and a server that starts reads back all records that the window holds.
	logWindow = 100 * time.Millisecond
	// maxAckPending bounds the messages of a consumer that all workers hold
	// together, delayed ones included.
	maxAckPending = 1 << 17

	// logVersion is raised when older records could not be read any more.
	logVersion = 3

	// What a log says of itself, for the next to open it.
	metaVersion    = "weir_version"
	metaPartitions = "weir_partitions"
)

const (
	// madeTries is how often the server is asked to make one thing. The first answer
	// is waited for as long as madeWithin, each further one that much longer;
	// madePause is the longest pause in between.
	madeTries  = 6
	madeWithin = time.Second
	madePause  = 500 * time.Millisecond
)

// made has something made that may be there, and asks again where no answer comes:
// when two nodes want the same thing at the same time, a cluster may answer neither,
// and whoever asks again finds it made. The pause differs, so that they part.
// One that is denied is a *DeniedError.
func (b *Broker) made(ctx context.Context, ask func(context.Context) error) error {
	for try := 1; ; try++ {
		once, cancel := context.WithTimeout(ctx, time.Duration(try)*madeWithin)
		err := b.asked(once, ask)
		cancel()
		if !unanswered(err) || ctx.Err() != nil || try == madeTries {
			return err
		}
		pause := time.NewTimer(rand.N(madePause)) //nolint:gosec // it only has to differ
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// unanswered reports whether asking again may help: nobody answered, or servers that have
// only just found each other.
func unanswered(err error) bool {
	const notAvailable = 10008
	var api *jetstream.APIError
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &api) && api.ErrorCode == notAvailable
}

// checkLayout refuses a log of another version, and one that was cut another way: its actions
// would not be found under the subjects that this layout computes.
func (b *Broker) checkLayout(ctx context.Context) error {
	var s jetstream.Stream
	err := b.made(ctx, func(ctx context.Context) (err error) {
		s, err = b.js.Stream(ctx, schemas.LogStream(0))
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", schemas.LogStream(0), wrap(err))
	}
	meta := s.CachedInfo().Config.Metadata
	want := b.cfg.Layout
	if have := cmp.Or(meta[metaVersion], "1"); have != strconv.Itoa(logVersion) { // the first did not say
		return fmt.Errorf("the log has version %s, and this Weir reads version %d: use another data directory, server or account, and read the old log with the Weir that wrote it",
			have, logVersion)
	}
	if have := meta[metaPartitions]; have != strconv.Itoa(want.Partitions) {
		return fmt.Errorf("the log on this server has %q partitions and %d are configured: the number is fixed when a log is made, so configure that one, or use another server or account",
			have, want.Partitions)
	}
	return nil
}

// logStream is one partition. It never drops a record to make room: it has no
// limit but age. The server refuses schedules on a stream that refuses new
// messages at a limit of its own, so fullness is the server's wall and, before
// that, the broker's own count.
func (b *Broker) logStream(p int) jetstream.StreamConfig {
	n := strconv.Itoa(p)
	cfg := jetstream.StreamConfig{
		Name:              schemas.LogStream(p),
		Description:       "the log of actions, one partition",
		Subjects:          []string{schemas.LogRoot + "." + n + ".>", schemas.ScheduleRoot + "." + n + ".>"},
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardOld,
		MaxAge:            b.cfg.History,
		Storage:           jetstream.FileStorage,
		Replicas:          b.cfg.Replicas,
		Duplicates:        logWindow,
		AllowDirect:       true,
		AllowMsgSchedules: true,
		AllowRollup:       true, // how a newer schedule replaces an older one
		Metadata: map[string]string{
			metaVersion:    strconv.Itoa(logVersion),
			metaPartitions: strconv.Itoa(b.cfg.Layout.Partitions),
		},
	}
	if b.cfg.Server == nil { // else see Live
		cfg.RePublish = &jetstream.RePublish{Source: schemas.LogRoot + ".>", Destination: schemas.LiveLog + ".>"}
	}
	return cfg
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
		Duplicates:  b.evidenceWindow(),
		AllowDirect: true,
		DenyDelete:  true,
		DenyPurge:   true,
		RePublish:   &jetstream.RePublish{Source: schemas.EvidenceRoot + ".>", Destination: schemas.LiveRoot + ".evidence.>"},
	}
}

func (b *Broker) evidenceWindow() time.Duration {
	if b.cfg.Server != nil {
		return embeddedEvidenceWindow
	}
	return evidenceWindow
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

// workConsumer is a queue of a partition, which all workers share. Deliveries are not limited:
// how often an action was attempted is counted in the log, and a message that is given
// up by the server stays in the stream unseen.
func (b *Broker) workConsumer(p int, q schemas.Queue) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       string(q),
		FilterSubject: q.Filter(p),
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       b.cfg.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: maxAckPending,
	}
}

// Topics are the topics of one partition for Subscriber, in the order of schemas.Queues: each is the
// stream and a durable consumer of it.
func Topics(partition int) []string {
	topics := make([]string, 0, len(schemas.Queues()))
	for _, q := range schemas.Queues() {
		topics = append(topics, schemas.LogStream(partition)+"/"+string(q))
	}
	return topics
}

// splitTopic reads a topic.
func splitTopic(topic string) (stream, durable string, err error) {
	stream, durable, ok := strings.Cut(topic, "/")
	if !ok || stream == "" || durable == "" {
		return "", "", fmt.Errorf("topic %q is not a stream and a consumer", topic)
	}
	return stream, durable, nil
}
