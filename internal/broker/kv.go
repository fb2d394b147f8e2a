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

// Tokens lie in an ordinary NATS key-value bucket, so that any NATS tool can
// read them, but are written and read here: the client's own watcher says
// nothing when it has lost its place, and its reads may be answered by a replica
// that has not seen the newest write.
const (
	tokenStream = "KV_" + schemas.TokenBucket
	tokenKeys   = "$KV." + schemas.TokenBucket + "."
	tokenLive   = schemas.LiveRoot + ".tokens."
)

// makeTokens makes the bucket of tokens. It forgets nothing by itself.
func (b *Broker) makeTokens(ctx context.Context) error {
	err := made(ctx, func(ctx context.Context) error {
		_, err := b.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: schemas.TokenBucket, Description: "who may ask: hashes of tokens and what they grant",
			History: 1, Storage: jetstream.FileStorage, Replicas: b.cfg.Replicas,
			RePublish: &jetstream.RePublish{Source: tokenKeys + ">", Destination: tokenLive + ">"},
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("bucket %s: %w", schemas.TokenBucket, wrap(err))
	}
	return nil
}

// TokenBucket holds one value a key. In the records that it gives out Subject is
// the key and Seq the revision, which grows over all keys. A record without
// data is a key that was deleted with other tools. It is safe for concurrent use.
type TokenBucket struct{ b *Broker }

// Tokens is the bucket of tokens.
func (b *Broker) Tokens() *TokenBucket { return &TokenBucket{b: b} }

// Put stores a value if the newest revision of its key is last, 0 for a key that
// never was, and returns the new one. fault.ErrFenced says that it is not; of
// the other errors Append tells.
func (k *TokenBucket) Put(ctx context.Context, key string, value []byte, last uint64) (uint64, error) {
	subject := tokenKeys + key
	return k.b.Append(ctx, schemas.Append{Subject: subject, Data: value, Guarded: true, Guard: subject, Last: last})
}

// Forget drops what is stored of a key up to a revision, and leaves nothing of
// it: no mark, and no record for whoever watches. It may be called again.
func (k *TokenBucket) Forget(ctx context.Context, key string, revision uint64) error {
	s, err := k.b.js.Stream(ctx, tokenStream)
	if err != nil {
		return wrap(err)
	}
	return wrap(s.Purge(ctx, jetstream.WithPurgeSubject(tokenKeys+key), jetstream.WithPurgeSequence(revision+1)))
}

// Barrier returns once every Put that has returned would survive what the
// durability promises.
func (k *TokenBucket) Barrier(ctx context.Context) error { return k.b.Barrier(ctx) }

// Read returns up to limit records behind a revision, oldest first. Fewer than
// limit says that there were no more when it was called: the stream's leader
// was asked.
func (k *TokenBucket) Read(ctx context.Context, after uint64, limit int) ([]schemas.Record, error) {
	var all []schemas.Record
	for len(all) < limit {
		next, err := k.next(ctx, after)
		if errors.Is(err, fault.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		all = append(all, next)
		// A replica may answer this, from the past. What it knows is not asked
		// of the leader one by one.
		more, err := k.b.Range(ctx, tokenStream, tokenKeys+">", next.Seq+1, limit-len(all))
		if err != nil {
			return nil, err
		}
		for _, r := range more {
			all = append(all, keyed(r))
		}
		after = all[len(all)-1].Seq
	}
	return all, nil
}

// next asks the leader for the first record behind a revision.
func (k *TokenBucket) next(ctx context.Context, after uint64) (schemas.Record, error) {
	r, err := k.b.lead(ctx, tokenStream, directGet{Next: tokenKeys + ">", Seq: after + 1})
	return keyed(r), err
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
	c, err := b.reads.send(&nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: body}, nil)
	if err != nil {
		return schemas.Record{}, err
	}
	if err := b.reads.wait(ctx, c, readTimeout); err != nil {
		return schemas.Record{}, err
	}
	r, err := led(c.reply)
	r.Stream = stream
	return r, err
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

// Watch calls fn for every record that is stored from now on, on one goroutine
// at a time. When some may be missing it calls lost, and the caller reads.
func (k *TokenBucket) Watch(fn func(schemas.Record), lost func()) (stop func(), err error) {
	return k.b.Live(tokenLive+">", func(r schemas.Record) { fn(keyed(r)) }, lost)
}

func keyed(r schemas.Record) schemas.Record {
	r.Subject = strings.TrimPrefix(r.Subject, tokenKeys)
	return r
}
