package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
	"weir/schemas"
)

// What is replaced as a whole lies in ordinary NATS key-value buckets, so that any
// NATS tool can read it, but is written and read here: the client's own watcher
// says nothing when it has lost its place, and its reads may be answered by a
// replica that has not seen the newest write.
const (
	tokenLive = schemas.LiveRoot + ".tokens."
	ruleLive  = schemas.LiveRoot + ".rules."

	operationLive   = schemas.LiveRoot + ".operations."
	destinationLive = schemas.LiveRoot + ".destinations."

	// destinationAge is how long what workers tell each other of a destination is kept: its
	// leases and pauses are over by then, and what failed is counted anew.
	destinationAge = time.Hour

	// ruleHistory is how many sets of a tenant are kept. A worker that comes back to a
	// write whose end it does not know finds the set that replaced what it had read,
	// unless so many others were written since. It is the most that a bucket keeps.
	ruleHistory = jetstream.KeyValueMaxHistory
)

func keysOf(bucket string) string { return "$KV." + bucket + "." }

// buckets are what is made of them. They forget nothing by themselves, but for leases,
// which mean nothing when the task's own events are gone, and for destinations, of which
// nothing old is true. Those that nobody follows are not republished, and that of keys is
// no part of what observers are given. Who may read and write which is said in package
// access, and a new one has to be said there.
func (b *Broker) buckets() []jetstream.KeyValueConfig {
	var all []jetstream.KeyValueConfig
	for _, w := range []struct {
		name, description, live string
		history                 uint8
		age                     time.Duration
	}{
		{schemas.TokenBucket, "who may ask: hashes of tokens and what they grant", tokenLive, 1, 0},
		{schemas.RuleBucket, "the traffic rules of each tenant", ruleLive, ruleHistory, 0},
		{schemas.RepoBucket, "the repositories of each tenant: names and places, no objects", "", 1, 0},
		{schemas.LeaseBucket, "when the holder of a task was last heard of", "", 1, b.cfg.History},
		{schemas.BudgetBucket, "what was used of models, and is held for what is under way", "", 1, 0},
		{schemas.JanitorBucket, "how far each partition was looked through for overdue actions, and by whom", "", 1, 0},
		{schemas.OperationBucket, "what operators pause and pin", operationLive, 1, 0},
		{schemas.DestinationBucket, "which destinations are left alone, and what is used of their limits", destinationLive, 1, destinationAge},
		{schemas.UsageBucket, "how much each tenant has stored, as each process has counted it", "", 1, max(blobAge(b.cfg.History), b.cfg.EvidenceHistory)},
		{schemas.KeyBucket, "what the evidence of sensitive actions is hashed with: never for those who read evidence", "", 1, 0},
	} {
		cfg := jetstream.KeyValueConfig{
			Bucket: w.name, Description: w.description, History: w.history, TTL: w.age,
			Storage: jetstream.FileStorage, Replicas: b.cfg.Replicas,
		}
		if w.live != "" {
			cfg.RePublish = &jetstream.RePublish{Source: keysOf(w.name) + ">", Destination: w.live + ">"}
		}
		all = append(all, cfg)
	}
	return all
}

// Bucket holds one value a key, and some of those before it. In the records that
// it gives out Subject is the key and Seq the revision, which grows over all keys.
// A record without data is a key that was deleted with other tools. It is safe for
// concurrent use.
type Bucket struct {
	b      *Broker
	stream string
	keys   string // what stands before a key in its subject
	live   string // the same, where it is republished
}

// Tokens is the bucket of tokens and sessions. A log that is full still takes them: an operator has to
// sign in to make room.
func (b *Broker) Tokens() *Bucket { return b.bucket(schemas.TokenBucket, tokenLive) }

// Rules is the bucket of rule sets. What is written to it was accepted as an action,
// so that a log that is full still takes it.
func (b *Broker) Rules() *Bucket { return b.bucket(schemas.RuleBucket, ruleLive) }

// Repos is the bucket of repositories. Like Rules it takes what was accepted however
// full the log is. It cannot be watched.
func (b *Broker) Repos() *Bucket { return b.bucket(schemas.RepoBucket, "") }

// Leases is the bucket that says when the holders of tasks were last heard of. A log
// that is full still takes it: a lease is not lost for that. It cannot be watched.
func (b *Broker) Leases() *Bucket { return b.bucket(schemas.LeaseBucket, "") }

// Budgets is the bucket of the accounts of budgets. A log that is full still takes it:
// what has used something is charged for it. It cannot be watched.
func (b *Broker) Budgets() *Bucket { return b.bucket(schemas.BudgetBucket, "") }

// Janitor is the bucket of how far the log was looked through for overdue actions. A log
// that is full still takes it. It cannot be watched.
func (b *Broker) Janitor() *Bucket { return b.bucket(schemas.JanitorBucket, "") }

// Operations is the bucket of what operators decided. A log that is full still takes it:
// to hold calls back may be what helps.
func (b *Broker) Operations() *Bucket {
	return b.bucket(schemas.OperationBucket, operationLive)
}

// Destinations is the bucket of what workers tell each other of destinations. A log that
// is full still takes it, so that what was accepted gets done.
func (b *Broker) Destinations() *Bucket {
	return b.bucket(schemas.DestinationBucket, destinationLive)
}

// bucket is one of the buckets. A log that is full still takes what is written to them.
func (b *Broker) bucket(name, live string) *Bucket {
	return &Bucket{b: b, stream: "KV_" + name, keys: keysOf(name), live: live}
}

// Put stores a value if the newest revision of its key is last, 0 for a key that
// never was, and returns the new one. fault.ErrFenced says that it is not; of
// the other errors Append tells.
func (k *Bucket) Put(ctx context.Context, key string, value []byte, last uint64) (uint64, error) {
	subject := k.keys + key
	return k.b.write(ctx, schemas.Append{Subject: subject, Data: value, Guarded: true, Guard: subject, Last: last})
}

// Set stores a value whatever its key has, and returns the new revision. Of the errors
// Append tells; where nobody knows whether it was stored, storing it again does no harm.
func (k *Bucket) Set(ctx context.Context, key string, value []byte) (uint64, error) {
	return k.b.write(ctx, schemas.Append{Subject: k.keys + key, Data: value})
}

// Get is the newest record of a key, as the stream's leader has it: no write that
// was acknowledged before the call is missing. fault.ErrNotFound: there is none.
func (k *Bucket) Get(ctx context.Context, key string) (schemas.Record, error) {
	r, err := k.b.Newest(ctx, k.stream, k.keys+key)
	return k.keyed(r), err
}

// Next is the first record of a key behind a revision that is still kept, as the
// stream's leader has it. fault.ErrNotFound: there is none.
func (k *Bucket) Next(ctx context.Context, key string, after uint64) (schemas.Record, error) {
	return k.ask(ctx, directGet{Next: k.keys + key, Seq: after + 1})
}

// ask has the leader answer.
func (k *Bucket) ask(ctx context.Context, get directGet) (schemas.Record, error) {
	r, err := k.b.lead(ctx, k.stream, get)
	return k.keyed(r), err
}

// Forget drops what is stored of a key up to a revision, and leaves nothing of
// it: no mark, and no record for whoever watches. It may be called again.
func (k *Bucket) Forget(ctx context.Context, key string, revision uint64) error {
	s, err := k.b.js.Stream(ctx, k.stream)
	if err != nil {
		return wrap(err)
	}
	return wrap(s.Purge(ctx, jetstream.WithPurgeSubject(k.keys+key), jetstream.WithPurgeSequence(revision+1)))
}

// Barrier returns once every Put that has returned would survive what the
// durability promises.
func (k *Bucket) Barrier(ctx context.Context) error { return k.b.Barrier(ctx) }

// Read returns up to limit records behind a revision, oldest first. Fewer than
// limit says that there were no more when it was called: the stream's leader
// was asked.
func (k *Bucket) Read(ctx context.Context, after uint64, limit int) ([]schemas.Record, error) {
	var all []schemas.Record
	for len(all) < limit {
		next, err := k.ask(ctx, directGet{Next: k.keys + ">", Seq: after + 1})
		if errors.Is(err, fault.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		all = append(all, next)
		// A replica may answer this, from the past. What it knows is not asked
		// of the leader one by one.
		more, err := k.b.Range(ctx, k.stream, k.keys+">", next.Seq+1, limit-len(all))
		if err != nil {
			return nil, err
		}
		for _, r := range more {
			all = append(all, k.keyed(r))
		}
		after = all[len(all)-1].Seq
	}
	return all, nil
}

// lead asks a stream's leader, who has seen every write, for one message. There
// being none is fault.ErrNotFound.
func (b *Broker) lead(ctx context.Context, stream string, get directGet) (schemas.Record, error) {
	if ctx.Err() != nil {
		return schemas.Record{}, ended(ctx)
	}
	body, err := json.Marshal(get)
	if err != nil {
		return schemas.Record{}, err
	}
	var r schemas.Record
	err = insist(func(within time.Duration) error {
		c, err := b.reads.send(&nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: body}, nil)
		if err != nil {
			return err
		}
		if err := b.reads.wait(ctx, c, within); err != nil {
			return err
		}
		r, err = led(c.reply)
		return err
	})
	r.Stream = stream
	return r, err
}

// leadWithin is how long a leader's first answer is waited for.
const leadWithin = 500 * time.Millisecond

// insist asks again where no answer comes, for readTimeout or a little longer. What
// was asked while a leader changes is lost, and it is the one question that nobody
// else answers.
func insist(ask func(within time.Duration) error) error {
	begun := time.Now()
	for within := leadWithin; ; within *= 2 {
		err := ask(within)
		if !errors.Is(err, errSilent) || time.Since(begun) >= readTimeout {
			return err
		}
	}
}

// led reads the answer of a stream's leader.
func led(m *nats.Msg) (schemas.Record, error) {
	const noMessage = 10037
	var answer struct {
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
		Error *struct {
			Code int    `json:"err_code"`
			Text string `json:"description"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case status(m) != "", err != nil:
		return schemas.Record{}, fmt.Errorf("%w: the answer cannot be read", fault.ErrUnavailable)
	case answer.Error != nil && answer.Error.Code == noMessage:
		return schemas.Record{}, fault.ErrNotFound
	case answer.Error != nil:
		return schemas.Record{}, refused(answer.Error.Code, answer.Error.Text)
	case answer.Message == nil:
		return schemas.Record{}, fmt.Errorf("%w: an answer without a message", fault.ErrUnavailable)
	}
	found := answer.Message
	return schemas.Record{Subject: found.Subject, Seq: found.Seq, Time: found.Time, Data: found.Data}, nil
}

// errUnwatched: nothing of the bucket is republished.
var errUnwatched = errors.New("this bucket cannot be watched")

// Watch calls fn for every record that is stored from now on, on one goroutine
// at a time. When some may be missing it calls lost, and the caller reads.
func (k *Bucket) Watch(fn func(schemas.Record), lost func()) (stop func(), err error) {
	if k.live == "" {
		return nil, errUnwatched
	}
	return k.b.Live(k.live+">", func(r schemas.Record) { fn(k.keyed(r)) }, lost)
}

func (k *Bucket) keyed(r schemas.Record) schemas.Record {
	r.Subject = strings.TrimPrefix(r.Subject, k.keys)
	return r
}
