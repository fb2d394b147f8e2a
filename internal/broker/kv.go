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

	"weir/internal/broker/access"
	"weir/internal/fault"
	"weir/schemas"
)

// destinationAge is how long workers' reports on a destination are stored. Their leases and pauses
// are over by then, and failures are counted anew.
const destinationAge = time.Hour

// modelAge is how long a provider's list of models is stored after the last attempt to read it: the
// upstream is gone from the configuration by then.
const modelAge = 7 * 24 * time.Hour

func keysOf(bucket string) string { return "$KV." + bucket + "." }

// buckets are the key-value buckets that package access lists. Only four of them drop old values:
// leases are useless without the events of their task, and old reports on destinations are wrong.
func (b *Broker) buckets() []jetstream.KeyValueConfig {
	age := map[string]time.Duration{
		schemas.LeaseBucket:       b.cfg.History,
		schemas.DestinationBucket: destinationAge,
		schemas.ModelBucket:       modelAge,
		schemas.UsageBucket:       max(blobAge(b.cfg.History), b.cfg.EvidenceHistory),
	}
	var all []jetstream.KeyValueConfig
	for _, k := range access.Buckets() {
		if k.Object {
			continue
		}
		cfg := jetstream.KeyValueConfig{
			Bucket: k.Name, Description: k.Holds, History: max(k.History, 1), TTL: age[k.Name],
			Storage: jetstream.FileStorage, Replicas: b.cfg.Replicas,
		}
		if k.Live != "" {
			cfg.RePublish = &jetstream.RePublish{Source: keysOf(k.Name) + ">", Destination: k.Live + ">"}
		}
		all = append(all, cfg)
	}
	return all
}

// Bucket stores one value per key, and some older ones. It is an ordinary NATS key-value bucket
// that any NATS tool can read. Weir has its own client for it, because the client of nats.go does
// not report a watcher that has lost its place, and a late replica may answer its reads.
//
// In the records of a Bucket Subject is the key and Seq the revision, which grows over all keys. A
// record without data is a key that another tool deleted. A Bucket accepts writes even if the log
// is full: they belong to accepted actions, or help an operator make room. It is safe for
// concurrent use.
type Bucket struct {
	b      *Broker
	stream string
	keys   string // subject prefix of the keys
	live   string // the same, where changes are republished
}

// Bucket is one of the key-value buckets that package access lists. Only those with a Live subject
// there can be watched.
func (b *Broker) Bucket(name string) *Bucket {
	k := &Bucket{b: b, stream: "KV_" + name, keys: keysOf(name)}
	for _, listed := range access.Buckets() {
		if listed.Name == name {
			k.live = listed.Live
		}
	}
	return k
}

// Put stores a value if last is the newest revision of its key, 0 for a new key, and returns the
// new revision. Otherwise it returns fault.ErrFenced. Append documents the other errors.
func (k *Bucket) Put(ctx context.Context, key string, value []byte, last uint64) (uint64, error) {
	subject := k.keys + key
	return k.b.Append(ctx, schemas.Append{Subject: subject, Data: value, Guarded: true, Guard: subject, Last: last})
}

// Set stores a value unconditionally, and returns the new revision. Append documents the errors.
// After fault.ErrUnavailable it is safe to repeat.
func (k *Bucket) Set(ctx context.Context, key string, value []byte) (uint64, error) {
	return k.b.Append(ctx, schemas.Append{Subject: k.keys + key, Data: value})
}

// Get is the newest record of a key, or fault.ErrNotFound. The stream's leader answers: no write
// that was acknowledged before the call is missing.
func (k *Bucket) Get(ctx context.Context, key string) (schemas.Record, error) {
	r, err := k.b.Newest(ctx, k.stream, k.keys+key)
	return k.keyed(r), err
}

// Next is the first stored record of a key after a revision, or fault.ErrNotFound. The stream's
// leader answers.
func (k *Bucket) Next(ctx context.Context, key string, after uint64) (schemas.Record, error) {
	r, err := k.b.readFromLeader(ctx, k.stream, directGet{Next: k.keys + key, Seq: after + 1})
	return k.keyed(r), err
}

// Forget removes the records of a key up to a revision, without a delete marker and without
// notifying watchers. It is safe to repeat.
func (k *Bucket) Forget(ctx context.Context, key string, revision uint64) error {
	s, err := k.b.js.Stream(ctx, k.stream)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(k.keys+key), jetstream.WithPurgeSequence(revision+1))
	}
	return wrap(err)
}

// Barrier makes every Put that has returned durable; see Broker.Barrier.
func (k *Bucket) Barrier(ctx context.Context) error { return k.b.Barrier(ctx) }

// Read returns up to limit records after a revision, oldest first. Fewer than limit means that
// there were no more at the time of the call: the stream's leader was asked.
func (k *Bucket) Read(ctx context.Context, after uint64, limit int) ([]schemas.Record, error) {
	var all []schemas.Record
	for len(all) < limit {
		next, err := k.Next(ctx, ">", after)
		if errors.Is(err, fault.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		all = append(all, next)
		// A late replica may answer this. It saves asking the leader for one record at a time.
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

// errUnwatched: nothing of the bucket is republished.
var errUnwatched = errors.New("this bucket cannot be watched")

// Watch calls fn for every record that is stored from now on, one call at a time. It calls lost if
// records may be missing; the caller then reads them.
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

// readFromLeader asks the leader of a stream, which has seen every write, for one message. It returns
// fault.ErrNotFound if there is none.
func (b *Broker) readFromLeader(ctx context.Context, stream string, get directGet) (r schemas.Record, err error) {
	body, err := json.Marshal(get)
	if err != nil {
		return r, err
	}
	err = insist(func(within time.Duration) error {
		c, err := b.reads.ask(ctx, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: body}, nil, within)
		if err == nil {
			r, err = decodeMessage(c.reply)
		}
		return err
	})
	r.Stream = stream
	return r, err
}

// leaderTimeout is the timeout of the first request to a leader.
const leaderTimeout = 500 * time.Millisecond

// insist asks again while no answer comes, for readTimeout or a little longer. A request that
// arrives while the leader changes is lost, and no other server can answer it.
func insist(ask func(within time.Duration) error) error {
	begun := time.Now()
	for within := leaderTimeout; ; within *= 2 {
		err := ask(within)
		if !errors.Is(err, errSilent) || time.Since(begun) >= readTimeout {
			return err
		}
	}
}

// decodeMessage decodes the answer of a stream's leader.
func decodeMessage(m *nats.Msg) (schemas.Record, error) {
	var answer struct {
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case status(m) != "", err != nil:
		return schemas.Record{}, fmt.Errorf("%w: the answer cannot be read", fault.ErrUnavailable)
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return schemas.Record{}, fault.ErrNotFound
	case answer.Error != nil:
		return schemas.Record{}, refused(answer.Error.ErrorCode, answer.Error.Description)
	case answer.Message == nil:
		return schemas.Record{}, fmt.Errorf("%w: an answer without a message", fault.ErrUnavailable)
	}
	found := answer.Message
	return schemas.Record{Subject: found.Subject, Seq: found.Seq, Time: found.Time, Data: found.Data}, nil
}
