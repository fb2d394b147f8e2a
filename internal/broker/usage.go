package broker

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/broker/access"
	"weir/internal/limits"
	"weir/schemas"
)

const (
	// usagePoll is how often the stored bytes are counted anew.
	usagePoll = time.Second
	// usageShared is how often this process stores what it has counted for each tenant, and reads what
	// others have.
	usageShared = 5 * time.Second
	// usageSlots is into how many parts the log's history is cut: the bytes of one part are forgotten
	// together, once all of them have aged out.
	usageSlots = 8
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
	slot     time.Duration   // how long the records of one slot take to age out together
	copies   int64           // of each record; all of them count
	instance string

	sharing sync.Mutex
	read    uint64 // revision of the bucket up to which others' counts are known; guarded by sharing

	mu      sync.Mutex
	tenants map[string]*tenantBytes
}

// tenantBytes is what lies on the log for one tenant.
type tenantBytes struct {
	own    agedBytes            // written by this process
	others map[string]agedBytes // by the instance that wrote them
	total  int64                // of all of them
	dirty  bool                 // own has changed since it was stored
}

// agedBytes are bytes by the slot of time in which they age out.
type agedBytes map[int64]int64

func (c agedBytes) sum() (n int64) {
	for _, bytes := range c {
		n += bytes
	}
	return n
}

// oldest is the earliest of its slots, or the given one if that is earlier.
func (c agedBytes) oldest(slot int64) int64 {
	for s := range c {
		slot = min(slot, s)
	}
	return slot
}

// expire drops what has aged out by now and returns how much that is.
func (c agedBytes) expire(now int64) (n int64) {
	for slot, bytes := range c {
		if slot <= now {
			n += bytes
			delete(c, slot)
		}
	}
	return n
}

// bound sets the limit. It comes before any other method.
func (u *usage) bound(limit int64, cfg Config) {
	u.limit, u.slot, u.instance = limit, cfg.History/usageSlots, uuid.NewString()
	u.division, u.copies = limits.Percent(limit, cfg.TenantShare), int64(cfg.Replicas)
	u.tenants = make(map[string]*tenantBytes)
}

func (u *usage) full() bool { return u.limit > 0 && u.bytes.Load() >= u.limit }

// divided reports whether tenants have shares of the log.
func (u *usage) divided() bool { return u.limit > 0 && u.division.Share < u.limit }

// add counts bytes that were stored for a tenant and age out after a time.
func (u *usage) add(tenant string, n int, age time.Duration) {
	if u.limit == 0 {
		return
	}
	bytes := int64(n+recordOverhead) * u.copies
	u.bytes.Add(bytes)
	if !u.divided() || tenant == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.tenant(tenant)
	s.own[u.slotOf(time.Now().Add(age))+1] += bytes
	s.total += bytes
	s.dirty = true
}

func (u *usage) slotOf(t time.Time) int64 { return t.UnixNano() / int64(u.slot) }

// tenant is the tenant's count, made where there is none. The caller holds mu.
func (u *usage) tenant(name string) *tenantBytes {
	s := u.tenants[name]
	if s == nil {
		s = &tenantBytes{own: agedBytes{}, others: map[string]agedBytes{}}
		u.tenants[name] = s
	}
	return s
}

// room is what is left of a tenant's share: a tenant that has nothing beside it on the log may use all but
// one share, so that the next one finds its own.
func (u *usage) room(tenant string) TenantRoom {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := TenantRoom{Limit: u.division.Share, Divided: u.divided()}
	s, known := u.tenants[tenant]
	if known {
		r.Used, r.Frees = s.total, time.Unix(0, s.oldest()*int64(u.slot))
	}
	if len(u.tenants) == 0 || len(u.tenants) == 1 && known {
		r.Limit = max(u.limit-u.division.Share, u.division.Share)
	}
	return r
}

// TenantRoom is how much one tenant has on the log, in bytes, and how much it may have. Without
// Divided nothing but the log's own limit bounds it.
type TenantRoom struct {
	Used, Limit int64
	Divided     bool
	Frees       time.Time // when the oldest of it ages out
}

// Left is how much more it may store.
func (r TenantRoom) Left() int64 { return max(r.Limit-r.Used, 0) }

// Over reports whether the tenant has used up its share.
func (r TenantRoom) Over() bool { return r.Divided && r.Used >= r.Limit }

// TenantRoom is that of a tenant. It is exact to some seconds of other nodes' writes.
func (b *Broker) TenantRoom(tenant string) TenantRoom { return b.usage.room(tenant) }

// StoredByTenant is how many bytes each tenant has on the log, and the share of one.
func (b *Broker) StoredByTenant() (tenants map[string]int64, share int64) {
	u := &b.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	tenants = make(map[string]int64, len(u.tenants))
	for name, s := range u.tenants {
		tenants[name] = s.total
	}
	return tenants, u.division.Share
}

// expire forgets what has aged out.
func (u *usage) expire(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	slot := u.slotOf(now)
	for name, s := range u.tenants {
		s.total -= s.own.expire(slot)
		for instance, c := range s.others {
			s.total -= c.expire(slot)
			if len(c) == 0 {
				delete(s.others, instance)
			}
		}
		if s.total == 0 && !s.dirty {
			delete(u.tenants, name)
		}
	}
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

// wrote counts what was stored under a subject.
func (b *Broker) wrote(subject string, n int) {
	tenant, age := b.tenantOf(subject)
	b.usage.add(tenant, n, age)
}

// shareUsage stores what this process has counted since it last did, and reads what others have.
func (b *Broker) shareUsage(ctx context.Context) error {
	if !b.usage.divided() || !access.Reads(b.cfg.Role, schemas.UsageBucket) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	b.usage.sharing.Lock()
	defer b.usage.sharing.Unlock()
	bucket := b.bucket(schemas.UsageBucket, "")
	return errors.Join(b.usage.publish(ctx, bucket), b.usage.follow(ctx, bucket))
}

// publish stores the counts that have changed.
func (u *usage) publish(ctx context.Context, to *Bucket) error {
	u.mu.Lock()
	changed := map[string][]byte{}
	for name, s := range u.tenants {
		if s.dirty {
			changed[name], _ = json.Marshal(s.own) //nolint:errchkjson // a map of numbers
			s.dirty = false
		}
	}
	u.mu.Unlock()
	for name, doc := range changed {
		if _, err := to.Set(ctx, schemas.EscapeToken(name)+"."+u.instance, doc); err != nil {
			u.mu.Lock()
			for name := range changed {
				u.tenant(name).dirty = true
			}
			u.mu.Unlock()
			return err
		}
	}
	return nil
}

// oldest is the slot that ages out next.
func (s *tenantBytes) oldest() int64 {
	slot := int64(math.MaxInt64)
	for _, c := range s.others {
		slot = c.oldest(slot)
	}
	return s.own.oldest(slot)
}

// usagePage is how many counts are read at once.
const usagePage = 1000

// follow reads the counts that other processes have stored since the last call.
func (u *usage) follow(ctx context.Context, from *Bucket) error {
	for {
		records, err := from.Read(ctx, u.read, usagePage)
		if err != nil {
			return err
		}
		for _, r := range records {
			u.read = r.Seq
			u.learn(r)
		}
		if len(records) < usagePage {
			return nil
		}
	}
}

// learn takes over what another process has counted. What cannot be read is no count.
func (u *usage) learn(r schemas.Record) {
	token, instance, _ := strings.Cut(r.Subject, ".")
	tenant, err := schemas.UnescapeToken(token)
	var c agedBytes
	if err != nil || instance == u.instance || json.Unmarshal(r.Data, &c) != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	c.expire(u.slotOf(time.Now()))
	s := u.tenant(tenant)
	s.total += c.sum() - s.others[instance].sum()
	s.others[instance] = c
}

// tenantOf is whose a message of the log or a record of evidence is, and how long it is kept; empty: it
// is no tenant's.
func (b *Broker) tenantOf(subject string) (tenant string, age time.Duration) {
	switch {
	case strings.HasPrefix(subject, schemas.LogRoot+"."):
		tenant, age = tenantToken(subject), b.cfg.History
	case strings.HasPrefix(subject, schemas.EvidenceRoot+"."):
		tenant, _, _ = strings.Cut(subject[len(schemas.EvidenceRoot)+1:], ".")
		age = b.cfg.EvidenceHistory
	}
	name, err := schemas.UnescapeToken(tenant)
	if tenant == "" || err != nil {
		return "", 0
	}
	return name, age
}
