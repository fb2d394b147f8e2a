package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"weir/internal/broker/access"
	"weir/internal/limits"
	"weir/schemas"
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
	// usageParts is into how many parts the time is cut for which records are kept: the bytes of
	// one part are forgotten together, once all of them have aged out.
	usageParts = 8
	// Pending is what an action counts for its tenant beside its records until it has ended: about
	// what its answer adds where the tenant is over its share by then, see LeastAnswer. Otherwise a
	// tenant could have any number of small actions accepted that fill the log when they are
	// performed.
	Pending = 2 * LeastAnswer
	// LeastAnswer is the answer size still allowed for a tenant over its share, so that accepted
	// actions can finish. An answer of this size is stored in two records.
	LeastAnswer = 8 << 10
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
	limits.Division // of what may be stored; nothing is divided where Share is not less

	bytes    atomic.Int64
	kept     [ages]time.Duration
	copies   int64 // of each record; all of them count
	instance string

	sharing sync.Mutex
	read    uint64 // revision of the bucket up to which others' counts are known; guarded by sharing

	mu      sync.Mutex
	tenants map[string]*tenantBytes
	stored  int64 // of all tenants
}

func (u *usage) full() bool { return u.Capacity > 0 && u.bytes.Load() >= u.Capacity }

// divided reports whether tenants have shares of the log.
func (u *usage) divided() bool { return u.Share < u.Capacity }

// add counts a record of n bytes that was stored for a tenant, and what is pending from now on, which
// may be negative.
func (u *usage) add(tenant string, n, pending int64, a age) {
	if u.Capacity == 0 {
		return
	}
	n = (n + recordOverhead) * u.copies
	u.bytes.Add(n)
	if !u.divided() || tenant == "" {
		return
	}
	n += pending
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.tenant(tenant)
	c := s.counts[u.instance]
	if c[a] == nil {
		c[a] = map[int64]int64{}
		s.counts[u.instance] = c
	}
	part := max(int64(u.kept[a]/usageParts/time.Second), 1)
	c[a][(time.Now().Unix()/part+1)*part] += n
	s.total += n
	u.stored += n
	s.dirty = true
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
			_, _ = b.countUsage(b.life)
			full := b.usage.full()
			switch {
			case full && !was:
				kind := "full"
				if b.room() <= 0 {
					kind = "no_space"
				}
				b.cfg.Logger.WarnContext(b.life, "log_full", "component", "broker", "err_kind", kind)
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

// room is what may still be stored on the disk of an embedded server.
func (b *Broker) room() int64 {
	if b.cfg.Server == nil {
		return math.MaxInt64
	}
	return b.cfg.Server.CheckDisk()
}

// countUsage asks the server for what is stored, and returns the account's limit. What is missing on
// the disk of an embedded server counts as stored.
func (b *Broker) countUsage(ctx context.Context) (limit int64, err error) {
	room := b.room()
	info, err := b.js.AccountInfo(ctx)
	if err != nil {
		return 0, wrap(err)
	}
	b.usage.bytes.Store(max(int64(info.Store), b.usage.Capacity-room)) //nolint:gosec // no disk overflows it
	return info.Limits.MaxStore, nil
}

// boundUsage finds the limit of what is stored and begins to count.
func (b *Broker) boundUsage(ctx context.Context) error {
	most, err := b.countUsage(ctx)
	limit := cmp.Or(b.cfg.MaxBytes, most-most/16)
	if err != nil || limit <= 0 {
		return err
	}
	u := &b.usage
	u.instance, u.tenants = uuid.NewString(), map[string]*tenantBytes{}
	u.kept = [ages]time.Duration{b.cfg.History, blobAge(b.cfg.History), evidenceHistory}
	u.Division, u.copies = limits.Percent(limit, b.cfg.TenantShare), int64(b.cfg.Replicas)
	if err = b.shareUsage(ctx); err == nil {
		b.work.Go(b.watchUsage)
	}
	return err
}

// age is how long a record is kept.
type age int

const (
	ageLog      age = iota // log.history
	ageBlob                // see blobAge
	ageEvidence            // the history of the evidence
	ages
)

// counted are bytes by their age, and by when they were written: in Unix seconds, rounded up. They
// name no time of expiry, so that another log.history changes what is stored of them already.
type counted [ages]map[int64]int64

// tenantBytes is the size of one tenant's records in the log.
type tenantBytes struct {
	counts   map[string]counted // by the instance of the process that wrote them
	reserved int64              // for answers that this process receives
	total    int64              // of both
	dirty    bool               // the count of this process has changed since it was stored
}

// tenant is the tenant's count, made where there is none. The caller holds mu.
func (u *usage) tenant(name string) *tenantBytes {
	s := u.tenants[name]
	if s == nil {
		s = &tenantBytes{counts: map[string]counted{}}
		u.tenants[name] = s
	}
	return s
}

// recount drops the expired bytes of a tenant, and returns when the next of the others expire. The
// caller holds mu.
func (u *usage) recount(s *tenantBytes, now time.Time) (next int64) {
	total, next := s.reserved, int64(math.MaxInt64)
	for instance, c := range s.counts {
		empty := true
		for a, parts := range c {
			for written, bytes := range parts {
				end := written + int64(u.kept[a]/time.Second)
				if end <= now.Unix() {
					delete(parts, written)
					continue
				}
				empty, total, next = false, total+bytes, min(next, end)
			}
		}
		if empty {
			delete(s.counts, instance)
		}
	}
	u.stored += total - s.total
	s.total = total
	return next
}

// quotaOf is what a tenant has, which may be nil, and may have. It may always have its share, and
// beyond it what leaves one share free, so that the next tenant finds its own. The caller holds mu.
func (u *usage) quotaOf(s *tenantBytes) (r limits.Quota) {
	read := func() {
		if s != nil {
			r.Used = max(s.total, 0)
		}
		r.Limit = max(u.Share, u.Capacity-u.Share-max(u.stored-r.Used, 0))
	}
	if read(); s != nil && r.Exhausted() {
		next := u.recount(s, time.Now())
		if read(); r.Exhausted() { // without what has just expired
			r.Frees = time.Unix(next, 0)
		}
	}
	return r
}

// TenantQuota is what a tenant has on the log and may have, in bytes, exact to some seconds of other
// nodes' writes. It has no limit but the log's own where the log is not divided.
func (b *Broker) TenantQuota(tenant string) limits.Quota {
	u := &b.usage
	if !u.divided() {
		return limits.Quota{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.quotaOf(u.tenants[tenant])
}

// ReserveAnswer counts up to n bytes of an answer, which is going to be stored, as stored: as many
// as the tenant has room for, and at least LeastAnswer. The answer may have the granted bytes;
// release must be called after it was stored, once.
func (b *Broker) ReserveAnswer(tenant string, n int64) (granted int64, release func()) {
	u := &b.usage
	if !u.divided() {
		return n, func() {}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.tenant(tenant)
	n = min(n, max(u.quotaOf(s).Remaining(), LeastAnswer))
	reserve := func(n int64) {
		s.reserved += n
		s.total += n
		u.stored += n
	}
	reserve(n)
	return n, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		reserve(-n)
	}
}

// StoredByTenant is the TenantQuota of each tenant that has anything on a divided log.
func (b *Broker) StoredByTenant() map[string]limits.Quota {
	u := &b.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	tenants := make(map[string]limits.Quota, len(u.tenants))
	for name, s := range u.tenants {
		tenants[name] = u.quotaOf(s)
	}
	return tenants
}

// expire forgets the expired bytes.
func (u *usage) expire(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, s := range u.tenants {
		u.recount(s, now)
		if len(s.counts) == 0 && s.total == 0 && !s.dirty {
			delete(u.tenants, name)
		}
	}
}

var ruleKeys = access.Named(schemas.RuleBucket).Keys() //nolint:gochecknoglobals // a constant

// wrote counts the bytes that were stored under a subject: an action's, a record's of evidence or a
// rule set's is its tenant's, any other is no tenant's. A rule set counts as long as an action, also
// if newer ones have replaced it.
func (b *Broker) wrote(subject string, data []byte) {
	_, owner, section := schemas.Split(subject)
	a, pending := ageLog, int64(0)
	switch {
	case section == schemas.SectionAccepted:
		pending = Pending
	case (schemas.Append{Subject: subject, Data: data}).Ends():
		pending = -Pending
	case strings.HasPrefix(subject, schemas.EvidenceRoot+"."):
		owner, a = subject[len(schemas.EvidenceRoot)+1:], ageEvidence
	case strings.HasPrefix(subject, ruleKeys):
		owner = subject[len(ruleKeys):]
	}
	owner, _, _ = strings.Cut(owner, ".")
	tenant, _ := schemas.UnescapeToken(owner) // what cannot be read is no tenant's
	b.usage.add(tenant, int64(len(subject)+len(data)), pending, a)
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
	bucket := b.Bucket(schemas.UsageBucket)
	err := b.usage.publish(ctx, bucket)
	last, unread := bucket.Read(ctx, b.usage.read, b.usage.learn)
	b.usage.read = last
	b.usage.expire(time.Now()) // counts what was learned
	return errors.Join(err, unread)
}

// publish stores the counts that have changed.
func (u *usage) publish(ctx context.Context, to *Bucket) error {
	u.mu.Lock()
	changed := map[string][]byte{}
	for name, s := range u.tenants {
		if s.dirty {
			changed[name], _ = json.Marshal(s.counts[u.instance]) //nolint:errchkjson // a map of numbers
			s.dirty = false
		}
	}
	u.mu.Unlock()
	for name, doc := range changed {
		if _, err := to.Set(ctx, schemas.EscapeToken(name)+"."+u.instance, doc); err != nil {
			u.mu.Lock()
			defer u.mu.Unlock()
			for name := range changed { // storing one again does not count it again
				u.tenant(name).dirty = true
			}
			return err
		}
	}
	return nil
}

// learn takes over what another process has counted, which the next expire adds. What cannot be read
// is no count.
func (u *usage) learn(r schemas.Record) {
	token, instance, _ := strings.Cut(r.Subject, ".")
	tenant, err := schemas.UnescapeToken(token)
	var c counted
	if err != nil || instance == u.instance || json.Unmarshal(r.Data, &c) != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tenant(tenant).counts[instance] = c
}
