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
	// A provisioner may ask the leader only, so the key is read by Next, which always does.
	k := b.Bucket(schemas.KeyBucket)
	r, err := k.Next(ctx, sealKey, 0)
	if errors.Is(err, fault.ErrNotFound) {
		fresh := make([]byte, SealKeyLen)
		_, _ = rand.Read(fresh) // never fails
		_, err = k.Put(ctx, sealKey, fresh, 0)
		if err == nil || errors.Is(err, fault.ErrFenced) || errors.Is(err, fault.ErrUnavailable) {
			// The stored key wins, even if another process wrote it. A cluster refuses a second
			// write before it shows the first.
			r, err = k.Next(ctx, sealKey, 0)
			for pause := 10 * time.Millisecond; errors.Is(err, fault.ErrNotFound) && pause < readTimeout && retry.Pause(ctx, pause); pause *= 2 {
				r, err = k.Next(ctx, sealKey, 0)
			}
		}
	}
	if err == nil && len(r.Data) != SealKeyLen {
		err = errKeyDamaged
	}
	if err == nil {
		err = b.Barrier(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("the key of the evidence: %w", err)
	}
	return r.Data, nil
}
