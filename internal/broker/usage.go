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
	// usageShared is how often this process stores its counts for each tenant, and reads the
	// others' counts.
	usageShared = 5 * time.Second
	// recordOverhead is about what the server stores of a record beside its subject and its data:
	// the frame, and the headers of the fence.
	recordOverhead = 150
)

// usage knows roughly how much is stored, in all and per tenant. It refuses new work while there is
// still room for the events of accepted work. The server cannot do that: a stream with schedules
// may not refuse messages at a limit of its own, and the server's wall refuses everything.
//
// The total is the server's count, plus this node's writes since the last poll. The server has no
// count per tenant. So each process counts its writes, by their time of expiry, and stores that in
// schemas.UsageBucket under its own key, which survives it until all its records have expired. A
// process that is killed loses the last seconds of its count. The zero value has no limit.
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

// watchUsage counts until the broker closes. After an error the old count stays: a server that does
// not answer refuses appends itself.
func (b *Broker) watchUsage() {
	tick := time.NewTicker(usagePoll)
	defer tick.Stop()
	was, shared := false, time.Now()
	for {
		select {
		case now := <-tick.C:
			_ = b.countUsage(b.life)
			full := b.usage.full()
			switch {
			case full && !was:
				b.cfg.Logger.WarnContext(b.life, "log_full", "component", "broker")
			case was && !full:
				b.cfg.Logger.InfoContext(b.life, "log_recovered", "component", "broker")
			}
			was = full
			b.usage.expire(now)
			if now.Sub(shared) >= usageShared {
				shared = now
				_ = b.shareUsage(b.life)
			}
		case <-b.life.Done():
			_ = b.shareUsage(context.WithoutCancel(b.life)) // otherwise the last seconds are lost
			return
		}
	}
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
	u := &b.usage
	u.limit, u.instance = limit, uuid.NewString()
	u.kept = [ages]time.Duration{b.cfg.History, blobAge(b.cfg.History), b.cfg.EvidenceHistory}
	u.division, u.copies = limits.Percent(limit, b.cfg.TenantShare), int64(b.cfg.Replicas)
	u.tenants = make(map[string]*tenantBytes)
	if err := errors.Join(b.countUsage(ctx), b.shareUsage(ctx)); err != nil {
		return err
	}
	b.work.Go(b.watchUsage)
	return nil
}
