package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"weir/internal/fault"
	"weir/internal/retry"
	"weir/schemas"
)

const (
	keyStream = "KV_" + schemas.KeyBucket
	// sealSubject is the subject of the evidence's key.
	sealSubject = "$KV." + schemas.KeyBucket + ".evidence"
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
	key, err := b.readKey(ctx)
	if errors.Is(err, fault.ErrNotFound) {
		fresh := make([]byte, SealKeyLen)
		_, _ = rand.Read(fresh) // never fails
		// Not Append: a log that is full still opens.
		_, err = b.write(ctx, schemas.Append{Subject: sealSubject, Data: fresh, Guarded: true, Guard: sealSubject})
		if err == nil || errors.Is(err, fault.ErrFenced) || errors.Is(err, fault.ErrUnavailable) {
			// The stored key wins, even if another process wrote it. A cluster refuses a second
			// write before it shows the first.
			key, err = b.readKey(ctx)
			for pause := 10 * time.Millisecond; errors.Is(err, fault.ErrNotFound) && pause < readTimeout && retry.Pause(ctx, pause); pause *= 2 {
				key, err = b.readKey(ctx)
			}
		}
	}
	if err == nil {
		err = b.Barrier(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("the key of the evidence: %w", err)
	}
	return key, nil
}

func (b *Broker) readKey(ctx context.Context) ([]byte, error) {
	r, err := b.lead(ctx, keyStream, directGet{Last: sealSubject})
	if err == nil && len(r.Data) != SealKeyLen {
		err = errKeyDamaged
	}
	return r.Data, err
}
