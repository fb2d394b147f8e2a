// Package listed keeps the lists of models that providers have: a worker stores them, and every
// node that shows models follows them.
package listed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"weir/internal/mirror"
	"weir/schemas"
)

const (
	// version is the version of the stored form. A record of another version counts as none.
	version = 1
	// check is how often the store is read beside what is heard, and patience bounds one reading.
	check    = time.Minute
	patience = 5 * time.Second
)

// The most that is kept of one list.
const (
	MaxModels = 2000
	MaxBytes  = 512 << 10
)

// Keeper is a copy of the lists. It is safe for concurrent use.
type Keeper struct {
	*mirror.Follower

	store mirror.Store

	mu   sync.RWMutex
	kept map[string]kept // by upstream
}

type kept struct {
	record schemas.ProviderModels
	seq    uint64
}

// New returns a Keeper that is empty until Start.
func New(s mirror.Store, logger *slog.Logger) *Keeper {
	k := &Keeper{store: s, kept: map[string]kept{}}
	k.Follower = mirror.New(mirror.Config{Component: "models", Check: check, Patience: patience, Logger: logger, Store: s, Learn: k.learn})
	return k
}

// Models is the list of an upstream that was read last; none: it has no list, or it was not read at
// its present URL. A nil Keeper has none.
func (k *Keeper) Models(up schemas.ModelUpstream) []schemas.ListedModel {
	if k == nil {
		return nil
	}
	if r, _ := k.Get(up.Name); r.Source == Source(up) {
		return r.Models
	}
	return nil
}

// Get is the record of an upstream and its revision; 0: there is none.
func (k *Keeper) Get(upstream string) (schemas.ProviderModels, uint64) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	r := k.kept[upstream]
	return r.record, r.seq
}

// Put stores a record if last is the newest revision of its upstream, and otherwise returns
// fault.ErrFenced.
func (k *Keeper) Put(ctx context.Context, r schemas.ProviderModels, last uint64) (uint64, error) {
	r.V = version
	data, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	key := schemas.EscapeToken(r.Upstream)
	seq, err := k.store.Put(ctx, key, data, last)
	if err == nil {
		k.learn(schemas.Record{Subject: key, Seq: seq, Data: data})
	}
	return seq, err
}

// learn takes over a record, unless a newer one is there. One that cannot be read counts as none,
// and is replaced by the next.
func (k *Keeper) learn(r schemas.Record) {
	name, err := schemas.UnescapeToken(r.Subject)
	if err != nil {
		return
	}
	next := kept{seq: r.Seq}
	if err := json.Unmarshal(r.Data, &next.record); err != nil || next.record.V != version || next.record.Upstream != name {
		next.record = schemas.ProviderModels{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept[name].seq < r.Seq {
		k.kept[name] = next
	}
}

// Source tells two URLs of an upstream apart, and names none.
func Source(up schemas.ModelUpstream) string {
	sum := sha256.Sum256([]byte(up.URL))
	return hex.EncodeToString(sum[:8])
}
