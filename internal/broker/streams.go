package broker

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/schemas"
)

const (
	// evidenceWindow is how long a repeated record id stores nothing: longer than a replaced worker
	// may still write. With an embedded server such a worker stops when the server does, and a long
	// window takes memory, and time at each start.
	evidenceWindow         = 10 * time.Minute
	embeddedEvidenceWindow = time.Minute
	// logWindow is the server's minimum. Records of the log have no ids, and a server reads back
	// the whole window when it starts.
	logWindow = 100 * time.Millisecond
	// maxAckPending bounds the unacknowledged messages of a consumer, including delayed ones.
	maxAckPending = 1 << 17
	// observerAckWait and observerPending are the limits of an observer's consumer.
	observerAckWait = 30 * time.Second
	observerPending = 1000

	// logVersion is raised when older records can no longer be read.
	logVersion = 3

	// The metadata of a log.
	metaVersion    = "weir_version"
	metaPartitions = "weir_partitions"
)

// stream has the settings that all streams share.
func (b *Broker) stream(name, description string, age, window time.Duration, subjects ...string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Description: description, Subjects: subjects, MaxAge: age, Duplicates: window, Replicas: b.cfg.Replicas,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, AllowDirect: true,
	}
}

// logStream is one partition. It never drops a record to make room: its only limit is age. The
// server does not allow schedules on a stream that refuses messages at a limit of its own. So the
// server's wall, and before that the broker's own count, bound the log.
func (b *Broker) logStream(p int) jetstream.StreamConfig {
	n := strconv.Itoa(p)
	cfg := b.stream(schemas.LogStream(p), "the log of actions, one partition", b.cfg.History, logWindow,
		schemas.LogRoot+"."+n+".>", schemas.ScheduleRoot+"."+n+".>")
	cfg.Discard = jetstream.DiscardOld
	cfg.AllowMsgSchedules = true
	cfg.AllowRollup = true // a newer schedule replaces an older one
	cfg.Metadata = map[string]string{metaVersion: strconv.Itoa(logVersion), metaPartitions: strconv.Itoa(b.cfg.Layout.Partitions)}
	if b.cfg.Server == nil { // else see Live
		cfg.RePublish = &jetstream.RePublish{Source: schemas.LogRoot + ".>", Destination: schemas.LiveLog + ".>"}
	}
	return cfg
}

func (b *Broker) evidenceStream() jetstream.StreamConfig {
	window := evidenceWindow
	if b.cfg.Server != nil {
		window = embeddedEvidenceWindow
	}
	cfg := b.stream(schemas.EvidenceStream, "the record of every attempt and denial", b.cfg.EvidenceHistory, window, schemas.EvidenceRoot+".>")
	cfg.DenyDelete, cfg.DenyPurge = true, true
	cfg.RePublish = &jetstream.RePublish{Source: schemas.EvidenceRoot + ".>", Destination: schemas.LiveRoot + ".evidence.>"}
	return cfg
}

// workConsumer is a queue of a partition, which all workers share. Deliveries are not limited: the
// log counts the attempts of an action, and a message that the server gives up stays in the stream
// unseen.
func (b *Broker) workConsumer(p int, q schemas.Queue) jetstream.ConsumerConfig {
	return consumer(string(q), q.Filter(p), b.cfg.AckWait, maxAckPending)
}

func consumer(name, filter string, wait time.Duration, pending int) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: name, FilterSubject: filter, AckWait: wait, MaxAckPending: pending, MaxDeliver: -1,
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy,
	}
}
