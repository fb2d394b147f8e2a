package broker

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"

	"weir/internal/broker/access"
	"weir/internal/limits"
	"weir/internal/mirror"
	"weir/schemas"
)

const (
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

// add counts bytes that were written now.
func (c *counted) add(n int64, a age, kept time.Duration) {
	part := max(int64(kept/usageParts/time.Second), 1)
	if c[a] == nil {
		c[a] = map[int64]int64{}
	}
	c[a][(time.Now().Unix()/part+1)*part] += n
}

// sum is how many bytes there are.
func (c *counted) sum() (n int64) {
	for _, parts := range c {
		for _, bytes := range parts {
			n += bytes
		}
	}
	return n
}

// expire drops the expired bytes and returns their number.
func (c *counted) expire(now time.Time, kept [ages]time.Duration) (n int64) {
	for a, parts := range c {
		for written, bytes := range parts {
			if time.Unix(written, 0).Add(kept[a]).After(now) {
				continue
			}
			n += bytes
			delete(parts, written)
		}
	}
	return n
}

// frees is when the next of it ages out, or the given time if that comes before.
func (c *counted) frees(next int64, kept [ages]time.Duration) int64 {
	for a, parts := range c {
		for written := range parts {
			next = min(next, written+int64(kept[a]/time.Second))
		}
	}
	return next
}

// tenantBytes is the size of one tenant's records in the log.
type tenantBytes struct {
	counts map[string]*counted // by the instance of the process that wrote them
	total  int64               // of all of them, and of answers that this process receives
	dirty  bool                // the count of this process has changed since it was stored
}

// tenant is the tenant's count, made where there is none. The caller holds mu.
func (u *usage) tenant(name string) *tenantBytes {
	s := u.tenants[name]
	if s == nil {
		s = &tenantBytes{counts: map[string]*counted{}}
		u.tenants[name] = s
	}
	return s
}

// of is the count of an instance, made where there is none.
func (s *tenantBytes) of(instance string) *counted {
	if s.counts[instance] == nil {
		s.counts[instance] = &counted{}
	}
	return s.counts[instance]
}

// count adds to what a tenant has stored; n may be negative.
func (u *usage) count(tenant string, n int64, a age) {
	if !u.divided() || tenant == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.tenant(tenant)
	s.of(u.instance).add(n, a, u.kept[a])
	s.dirty = true
	u.change(s, n)
}

// change adds to a tenant's total. The caller holds mu.
func (u *usage) change(s *tenantBytes, n int64) {
	s.total += n
	u.stored += n
}

// quotaOf is what a tenant has, which may be nil, and may have. It may always have its share, and
// beyond it what leaves one share free, so that the next tenant finds its own. The caller holds mu.
func (u *usage) quotaOf(s *tenantBytes) (r limits.Quota) {
	if s != nil {
		r.Used = max(s.total, 0)
	}
	r.Limit = max(u.division.Share, u.limit-u.division.Share-max(u.stored-r.Used, 0))
	if s != nil && r.Exhausted() {
		next := int64(math.MaxInt64)
		for _, c := range s.counts {
			next = c.frees(next, u.kept)
		}
		r.Frees = time.Unix(next, 0)
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
	u.change(s, n)
	return n, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.change(s, -n)
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
		for instance, c := range s.counts {
			u.change(s, -c.expire(now, u.kept))
			if len(c[ageLog])+len(c[ageBlob])+len(c[ageEvidence]) == 0 {
				delete(s.counts, instance)
			}
		}
		if len(s.counts) == 0 && s.total == 0 && !s.dirty {
			delete(u.tenants, name)
		}
	}
}

// wrote counts the bytes that were stored under a subject.
func (b *Broker) wrote(subject string, data []byte) {
	tenant, a := tenantOf(subject)
	b.usage.add(tenant, int64(len(subject)+len(data)), a)
	switch _, _, section := schemas.Split(subject); {
	case section == schemas.SectionAccepted:
		b.usage.count(tenant, Pending, a)
	case (schemas.Append{Subject: subject, Data: data}).Ends():
		b.usage.count(tenant, -Pending, a)
	}
}

// tenantOf is whose a message of the log or a record of evidence is, and how long it is kept;
// empty: it is no tenant's.
func tenantOf(subject string) (tenant string, a age) {
	switch {
	case strings.HasPrefix(subject, schemas.LogRoot+"."):
		_, action, _ := schemas.Split(subject)
		tenant, _, _ = strings.Cut(action, ".")
	case strings.HasPrefix(subject, schemas.EvidenceRoot+"."):
		tenant, _, _ = strings.Cut(subject[len(schemas.EvidenceRoot)+1:], ".")
		a = ageEvidence
	}
	name, err := schemas.UnescapeToken(tenant)
	if err != nil {
		return "", a
	}
	return name, a
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
	last, unread := mirror.Read(ctx, bucket, b.usage.read, usagePage, b.usage.learn)
	b.usage.read = last
	return errors.Join(err, unread)
}

// publish stores the counts that have changed.
func (u *usage) publish(ctx context.Context, to *Bucket) error {
	u.mu.Lock()
	changed := map[string][]byte{}
	for name, s := range u.tenants {
		if s.dirty {
			changed[name], _ = json.Marshal(s.of(u.instance)) //nolint:errchkjson // a map of numbers
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

// usagePage is how many counts are read at once.
const usagePage = 1000

// learn takes over what another process has counted. What cannot be read is no count.
func (u *usage) learn(r schemas.Record) {
	token, instance, _ := strings.Cut(r.Subject, ".")
	tenant, err := schemas.UnescapeToken(token)
	c := &counted{}
	if err != nil || instance == u.instance || json.Unmarshal(r.Data, c) != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	c.expire(time.Now(), u.kept)
	s := u.tenant(tenant)
	u.change(s, c.sum()-s.of(instance).sum())
	s.counts[instance] = c
}
