package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/broker/access"
	"weir/internal/fault"
	"weir/internal/retry"
	"weir/schemas"
)

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
	listed := access.Named(name)
	return &Bucket{b: b, stream: listed.Stream(), keys: listed.Keys(), live: listed.Live}
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

// bucketPage is how many records of a bucket are read at once, unless they are large.
const bucketPage = 1000

// Read calls take for every record after a revision, oldest first, and returns the last one's. The
// stream's leader says that there are no more. Records taken before an error count.
func (k *Bucket) Read(ctx context.Context, after uint64, take func(schemas.Record)) (last uint64, err error) {
	for {
		next, err := k.Next(ctx, ">", after)
		if errors.Is(err, fault.ErrNotFound) {
			return after, nil
		}
		if err != nil {
			return after, err
		}
		take(next)
		after = next.Seq
		// A late replica may answer this. It saves asking the leader for one record at a time.
		more, _, err := k.b.Page(ctx, k.stream, k.keys+">", after+1, bucketPage, readBytes)
		for _, r := range more {
			take(k.keyed(r))
			after = r.Seq
		}
		if err != nil {
			return after, err
		}
	}
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

const (
	// sealKey is the evidence's key in schemas.KeyBucket.
	sealKey = "evidence"
	// SealKeyLen is the length of that key in bytes.
	SealKeyLen = 32
)

// errKeyDamaged is a key that no node has created. With a new one in its place, equal contents
// would silently get different hashes.
var errKeyDamaged = errors.New("the key in the bucket " + schemas.KeyBucket + " is damaged: restore it, or delete the bucket for a new one, " +
	"whose hashes cannot be compared with those that are stored")

// SealKey is the log's key for the evidence of sensitive actions. The first call on any node
// creates it, and concurrent calls agree. SealKey returns after the key is as durable as promised,
// so that no hash outlives its key.
func (b *Broker) SealKey(ctx context.Context) ([]byte, error) {
	// A provisioner may ask the leader only, so the key is read by Next, which always does. The stored
	// key wins, even if another process wrote it: a cluster refuses a second write before it shows the
	// first.
	k := b.Bucket(schemas.KeyBucket)
	r, err := k.Next(ctx, sealKey, 0)
	for pause := 5 * time.Millisecond; errors.Is(err, fault.ErrNotFound) && pause < readTimeout && retry.Pause(ctx, pause); pause *= 2 {
		fresh := make([]byte, SealKeyLen)
		_, _ = rand.Read(fresh) // never fails
		_, err = k.Put(ctx, sealKey, fresh, 0)
		if err == nil || errors.Is(err, fault.ErrFenced) || errors.Is(err, fault.ErrUnavailable) {
			r, err = k.Next(ctx, sealKey, 0)
		}
	}
	switch {
	case err == nil && len(r.Data) != SealKeyLen:
		err = errKeyDamaged
	case err == nil:
		err = b.Barrier(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("the key of the evidence: %w", err)
	}
	return r.Data, nil
}
