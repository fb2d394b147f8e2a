package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/broker/access"
	"weir/internal/fault"
	"weir/internal/retry"
	"weir/schemas"
)

// resource is a stream, a queue or a bucket of the log.
type resource struct {
	name string
	// check describes what is wrong with the existing one, or returns an empty text.
	check func(context.Context) (wrong string, err error)
	// make creates or updates it by a request to this subject.
	make    func(context.Context) error
	request string
}

// Resource reports the result for a stream, a queue or a bucket.
type Resource struct {
	Name string `json:"name"`
	// Did is made, changed or kept.
	Did string `json:"did"`
	// Was describes what was wrong with a changed one.
	Was string `json:"was,omitempty"`
}

// The values of Resource.Did.
const (
	ResourceMade    = "made"
	ResourceChanged = "changed"
	ResourceKept    = "kept"
)

// Provision creates or updates the streams, queues and buckets of a log on a cluster, and the
// consumers of these tenants' observers. It reports each one up to the first error, is safe to
// repeat, and deletes nothing.
func Provision(ctx context.Context, cfg Config, tenants []string) (did []Resource, err error) {
	cfg.Role = access.Provisioner
	b, err := start(ctx, cfg, func(b *Broker) (err error) {
		if did, err = b.provision(ctx, tenants...); err == nil {
			_, err = b.SealKey(ctx) // workers may only read it
		}
		return err
	})
	if err == nil {
		b.Close(ctx)
	}
	return did, err
}

// provision creates or updates what this node needs. An embedded server's resources are always
// updated. On a cluster correct ones are not changed: a node needs no permission to create any.
func (b *Broker) provision(ctx context.Context, tenants ...string) (all []Resource, err error) {
	if err := b.checkLayout(ctx); err != nil {
		return nil, err
	}
	for _, r := range b.resources(tenants) {
		did, err := b.ensure(ctx, r)
		if err != nil {
			return all, fmt.Errorf("%s: %w", r.name, err)
		}
		all = append(all, did)
	}
	return all, nil
}

func (b *Broker) ensure(ctx context.Context, r resource) (did Resource, err error) {
	did = Resource{Name: r.name, Did: ResourceMade}
	if b.cfg.Server == nil {
		err = b.made(ctx, func(ctx context.Context) (err error) {
			did.Was, err = r.check(ctx)
			return err
		})
		switch {
		case err == nil && did.Was == "":
			did.Did = ResourceKept
			return did, nil
		case err == nil:
			did.Did = ResourceChanged
		case !errors.Is(err, fault.ErrNotFound):
			return did, err
		}
	}
	mayNot := b.cfg.Role != access.Provisioner
	if g := b.granted; mayNot && g != nil && !g.Publish.has(r.request) { // as far as the servers say
		return did, unmade(did.Was, r.request)
	}
	err = b.made(ctx, r.make)
	if denied, ok := errors.AsType[*DeniedError](err); ok && mayNot {
		return did, unmade(did.Was, denied.Subject)
	}
	return did, err
}

// unmade is the error of a node that may not create a missing resource or update a wrong one. A
// missing one may still be created by another node; waiting does not help against a wrong one.
func unmade(wrong, request string) error {
	const then = ", and this node's NATS user may not change that: run `weir nats provision` with this configuration"
	if wrong == "" {
		return fmt.Errorf("%w%s (it takes %s)", fault.ErrNotFound, then, request)
	}
	return fmt.Errorf("it %s%s (it takes %s)", wrong, then, request)
}

const (
	// madeTries is how many requests are sent for one resource. The first one times out after
	// madeWithin, each further one that much later; madePause is the longest pause in between.
	madeTries  = 6
	madeWithin = time.Second
	madePause  = 500 * time.Millisecond
)

// made repeats a request about a resource while the servers do not answer or have only just found each
// other. If two nodes create one at the same time, a cluster may answer neither; the next attempt finds
// it created. The pauses differ, so that the nodes part. A request that is denied is a *DeniedError.
func (b *Broker) made(ctx context.Context, ask func(context.Context) error) error {
	for try := 1; ; try++ {
		once, cancel := context.WithTimeout(ctx, time.Duration(try)*madeWithin)
		err := wrap(b.asked(once, ask))
		cancel()
		if !errors.Is(err, fault.ErrUnavailable) || try == madeTries || !retry.Pause(ctx, rand.N(madePause)) { //nolint:gosec // the pauses only have to differ
			return err
		}
	}
}

// checkLayout refuses a log of another version or layout: this one would compute other subjects for
// its actions.
func (b *Broker) checkLayout(ctx context.Context) error {
	var s jetstream.Stream
	err := b.made(ctx, func(ctx context.Context) (err error) {
		s, err = b.js.Stream(ctx, schemas.LogStream(0))
		return err
	})
	if errors.Is(err, fault.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", schemas.LogStream(0), err)
	}
	meta := s.CachedInfo().Config.Metadata
	if have := cmp.Or(meta[metaVersion], "1"); have != strconv.Itoa(logVersion) { // version 1 had no metadata
		return fmt.Errorf("the log has version %s, and this Weir reads version %d: use another data directory, server or account, and read the old log with the Weir that wrote it",
			have, logVersion)
	}
	if have := meta[metaPartitions]; have != strconv.Itoa(b.cfg.Layout.Partitions) {
		return fmt.Errorf("the log on this server has %q partitions and %d are configured: the number is fixed when a log is made, so configure that one, or use another server or account",
			have, b.cfg.Layout.Partitions)
	}
	return nil
}

// resources are what this node and the observers of these tenants need, in the order of creation.
func (b *Broker) resources(tenants []string) (all []resource) {
	everything := b.cfg.Server != nil || b.cfg.Role == access.Provisioner
	for p := range b.cfg.Layout.Partitions {
		all = append(all, b.streamResource("stream ", schemas.LogStream(p), b.logStream(p)))
		for _, q := range schemas.Queues() {
			if everything || b.cfg.Role.Works() {
				all = append(all, b.consumerResource(schemas.LogStream(p), b.workConsumer(p, q)))
			}
		}
	}
	dead := b.stream(schemas.DeadStream, "messages that no retry can help", evidenceHistory, evidenceWindow, schemas.DeadRoot+".>")
	all = append(all, b.streamResource("stream ", schemas.EvidenceStream, b.evidenceStream()), b.streamResource("stream ", schemas.DeadStream, dead))
	for _, k := range access.Buckets() {
		if everything || access.Reads(b.cfg.Role, k.Name) {
			all = append(all, b.streamResource("bucket ", k.Name, b.bucketStream(k)))
		}
	}
	for _, tenant := range tenants {
		observer := consumer(access.ObserverQueue(tenant), schemas.EvidenceFilter(tenant, "", "", "", false), observerAckWait, observerPending)
		all = append(all, b.consumerResource(schemas.EvidenceStream, observer))
	}
	return all
}

func (b *Broker) streamResource(sort, name string, want jetstream.StreamConfig) resource {
	return resource{
		name: sort + name, request: "$JS.API.STREAM.UPDATE." + want.Name,
		check: func(ctx context.Context) (string, error) {
			s, err := b.js.Stream(ctx, want.Name)
			if err != nil {
				return "", err
			}
			return differs(want, s.CachedInfo().Config, "Subjects", "MaxAge", "Replicas", "Duplicates", "MaxMsgsPerSubject", "Retention", "Discard",
				"AllowDirect", "AllowMsgSchedules", "AllowRollup", "DenyDelete", "DenyPurge", "RePublish"), nil
		},
		make: func(ctx context.Context) error {
			_, err := b.js.CreateOrUpdateStream(ctx, want)
			return err
		},
	}
}

func (b *Broker) consumerResource(stream string, want jetstream.ConsumerConfig) resource {
	return resource{
		name: "consumer " + want.Durable + " of " + stream, request: "$JS.API.CONSUMER.CREATE." + stream + ".>",
		check: func(ctx context.Context) (string, error) {
			c, err := b.js.Consumer(ctx, stream, want.Durable)
			if err != nil {
				return "", err
			}
			return differs(want, c.CachedInfo().Config, "FilterSubject", "FilterSubjects", "AckWait", "MaxAckPending", "AckPolicy", "MaxDeliver", "DeliverSubject"), nil
		},
		make: func(ctx context.Context) error {
			_, err := b.js.CreateOrUpdateConsumer(ctx, stream, want)
			return err
		},
	}
}

// differs describes the first of some members in which two configurations differ.
func differs(want, have any, members ...string) string {
	w, h := reflect.ValueOf(want), reflect.ValueOf(have)
	for _, m := range members {
		if f := w.FieldByName(m); f.Kind() == reflect.Bool && !f.Bool() {
			continue // what else the operator allows or forbids; the server lets some of it never be unset
		}
		if w, h := w.FieldByName(m).Interface(), h.FieldByName(m).Interface(); !reflect.DeepEqual(w, h) {
			return fmt.Sprintf("has %s %+v and not %+v", m, h, w)
		}
	}
	return ""
}

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

	// destinationAge is how long workers' reports on a destination are stored. Their leases and
	// pauses are over by then, and failures are counted anew.
	destinationAge = time.Hour
	// modelAge is how long a provider's list of models is stored after the last attempt to read it:
	// the upstream is gone from the configuration by then.
	modelAge = 7 * 24 * time.Hour
	// bucketWindow is the duplicate window of ordinary NATS buckets.
	bucketWindow = 2 * time.Minute
)

// stream has the settings that all streams share.
func (b *Broker) stream(name, description string, age, window time.Duration, subjects ...string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Description: description, Subjects: subjects, MaxAge: age, Duplicates: window, Replicas: b.cfg.Replicas,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, AllowDirect: true, MaxMsgsPerSubject: -1,
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
	cfg := b.stream(schemas.EvidenceStream, "the record of every attempt and denial", evidenceHistory, window, schemas.EvidenceRoot+".>")
	cfg.DenyDelete, cfg.DenyPurge = true, true
	cfg.RePublish = &jetstream.RePublish{Source: schemas.EvidenceRoot + ".>", Destination: schemas.LiveRoot + ".evidence.>"}
	return cfg
}

// bucketStream is the stream of a bucket as NATS clients configure it, so that any NATS tool can
// read it. Only five of them drop old values: nothing refers to a body any more then, leases are
// useless without the events of their task, and old reports on destinations are wrong.
func (b *Broker) bucketStream(k access.Bucket) jetstream.StreamConfig {
	age := map[string]time.Duration{
		schemas.BlobBucket:        blobAge(b.cfg.History),
		schemas.LeaseBucket:       b.cfg.History,
		schemas.DestinationBucket: destinationAge,
		schemas.ModelBucket:       modelAge,
		schemas.UsageBucket:       max(blobAge(b.cfg.History), evidenceHistory),
	}[k.Name]
	cfg := b.stream(k.Stream(), k.Holds, age, min(cmp.Or(age, bucketWindow), bucketWindow), k.Keys()+">")
	cfg.AllowRollup = true
	if k.Object {
		cfg.Subjects = []string{blobChunks + ">", blobMeta + ">"}
		return cfg
	}
	cfg.DenyDelete, cfg.MaxMsgsPerSubject = true, int64(max(k.History, 1))
	if k.Live != "" {
		cfg.RePublish = &jetstream.RePublish{Source: k.Keys() + ">", Destination: k.Live + ">"}
	}
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
