package broker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/limits"
)

const (
	// usagePoll is how often the stored bytes are counted anew.
	usagePoll = time.Second
	// usageShared is how often this process stores what it has counted for each tenant, and reads what
	// others have.
	usageShared = 5 * time.Second
	// recordOverhead is about what the server stores of a record beside its subject and its data:
	// the frame, and the headers of the fence.
	recordOverhead = 150
)

// usage knows roughly how much is stored, in all and for each tenant, so that new work is refused
// while there is still room for the events of the work that was accepted. The server cannot do
// this: a stream with schedules may not refuse at a limit of its own, and the server's wall refuses
// everything alike.
//
// The total is the server's own count, to which only this node's writes are added between two polls.
// The server has no count for a tenant, so each process counts what it writes, by the time at which
// it will have aged out, and stores that in schemas.UsageBucket under a key of its own: a count is
// never changed by two, and survives its process until it is worth nothing. A process that is killed
// loses the last seconds of its count. The zero value has no limit.
type usage struct {
	limit int64
	bytes atomic.Int64

	division limits.Division // of limit; nothing is divided where Share is not less
	kept     [ages]time.Duration
	copies   int64 // of each record; all of them count
	instance string

	sharing sync.Mutex
	read    uint64 // revision of the bucket up to which others' counts are known; guarded by sharing

	mu      sync.Mutex
	tenants map[string]*tenantBytes
	stored  int64 // of all tenants
}

// bound sets the limit. It comes before any other method.
func (u *usage) bound(limit int64, cfg Config) {
	u.limit, u.instance = limit, uuid.NewString()
	u.kept = [ages]time.Duration{cfg.History, blobAge(cfg.History), cfg.EvidenceHistory}
	u.division, u.copies = limits.Percent(limit, cfg.TenantShare), int64(cfg.Replicas)
	u.tenants = make(map[string]*tenantBytes)
}

func (u *usage) full() bool { return u.limit > 0 && u.bytes.Load() >= u.limit }

// divided reports whether tenants have shares of the log.
func (u *usage) divided() bool { return u.limit > 0 && u.division.Share < u.limit }

// add counts bytes that were stored for a tenant.
func (u *usage) add(tenant string, n int64, a age) {
	if u.limit == 0 {
		return
	}
	n = (n + recordOverhead) * u.copies
	u.bytes.Add(n)
	u.count(tenant, n, a)
}

// watchUsage counts until the broker closes.
func (b *Broker) watchUsage() {
	tick := time.NewTicker(usagePoll)
	defer tick.Stop()
	was, shared := false, time.Now()
	for {
		select {
		case now := <-tick.C:
			// A count that fails leaves the old one: a server that does not
			// answer refuses appends itself.
			_ = b.countUsage(b.life)
			if full := b.usage.full(); full != was {
				was = full
				b.tellFull(full)
			}
			b.usage.expire(now)
			if now.Sub(shared) >= usageShared {
				shared = now
				_ = b.shareUsage(b.life) // it is done again
			}
		case <-b.life.Done():
			_ = b.shareUsage(context.WithoutCancel(b.life)) // else the last seconds are lost
			return
		}
	}
}

// tellFull logs that new actions begin or cease to be refused.
func (b *Broker) tellFull(full bool) {
	if full {
		b.cfg.Logger.WarnContext(b.life, "log full", "component", "broker")
		return
	}
	b.cfg.Logger.InfoContext(b.life, "log has room", "component", "broker")
}

func (b *Broker) countUsage(ctx context.Context) error {
	info, err := b.account(ctx)
	if err == nil {
		b.usage.bytes.Store(int64(info.Store)) //nolint:gosec // no disk overflows it
	}
	return err
}

func (b *Broker) account(ctx context.Context) (*jetstream.AccountInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	info, err := b.js.AccountInfo(ctx)
	return info, wrap(err)
}

// boundUsage finds the limit of what is stored and begins to count.
func (b *Broker) boundUsage(ctx context.Context) error {
	limit := b.cfg.MaxBytes
	if limit == 0 {
		info, err := b.account(ctx)
		if err != nil {
			return err
		}
		limit = info.Limits.MaxStore - info.Limits.MaxStore/16
	}
	if limit <= 0 {
		return nil
	}
	b.usage.bound(limit, b.cfg)
	if err := errors.Join(b.countUsage(ctx), b.shareUsage(ctx)); err != nil {
		return err
	}
	b.work.Go(b.watchUsage)
	return nil
}
