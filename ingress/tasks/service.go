// Package tasks handles requests of agents and people about tasks: it reads a request, authorizes
// it by the task's own events, and writes the result as fenced events of the task. If the state has
// changed meanwhile, it decides again, so that the first writer wins.
package tasks

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"time"

	"weir/internal/activetasks"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/limits"
	"weir/internal/task"
	"weir/schemas"
)

// Ledger is the part of the action log that the Service needs.
type Ledger interface {
	Load(ctx context.Context, ref schemas.Ref) (*ledger.State, error)
	Append(ctx context.Context, st *ledger.State, ev schemas.Event) error
	Blob(ctx context.Context, inline json.RawMessage, name string) (json.RawMessage, error)
}

// ActiveTasks knows the tasks that have not ended, see activetasks.Cache.
type ActiveTasks interface {
	Leasable(tenant string, may func(activetasks.Entry) bool, limit int) []activetasks.Entry
	Held(tenant, holder string) (activetasks.Entry, bool)
	Leases(tenant, holder string) (held int, last activetasks.Entry)
	CatchUp(ctx context.Context) error
	Changed(tenant string) <-chan struct{}
}

// Leases keeps when the holder of a task was last heard of: its newest value a key.
type Leases interface {
	Set(ctx context.Context, key string, value []byte) (uint64, error)
}

// Config of a Service. All but Verify have defaults.
type Config struct {
	// Verify says whose a pool's token is, and counts the request. Its errors are
	// public ones. nil: there are no tokens but those of tasks.
	Verify func(token string) (schemas.Token, error)
	// Barrier returns once everything stored before the call would survive.
	Barrier func(ctx context.Context) error
	// Lease is after how long without a call a lease is lost; default 2 min.
	Lease time.Duration
	// Rate is how many requests may come with one task's token; default 500/s. Each
	// node counts for itself.
	Rate string
	// Draining is closed when the node shuts down; waiting requests then return.
	Draining <-chan struct{}
	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Barrier == nil {
		c.Barrier = func(context.Context) error { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Lease, c.Rate = cmp.Or(c.Lease, 2*time.Minute), cmp.Or(c.Rate, "500/s")
	return c
}

// Service handles the requests about tasks. It is safe for concurrent use, and starts nothing.
type Service struct {
	ledger  Ledger
	active  ActiveTasks
	cfg     Config
	touch   *touches
	rates   *rates
	leasing *limits.KeyedMutex
	waits   *limits.PerKey[holding]
}

// NewService returns a Service.
func NewService(l Ledger, b ActiveTasks, leases Leases, cfg Config) *Service {
	cfg = cfg.withDefaults()
	return &Service{
		ledger: l, active: b, cfg: cfg, rates: newRates(cfg.Rate, cfg.Now), leasing: limits.NewKeyedMutex(),
		touch: newTouches(leases, cfg.Lease/schemas.LeaseShare, cfg.Now), waits: limits.NewPerKey[holding](maxWaits),
	}
}

// Lease is after how long without a call a lease is lost.
func (d *Service) Lease() time.Duration { return d.cfg.Lease }

// Secret is a token that is not handed out yet.
type Secret struct{ bytes [32]byte }

// Secret makes one.
func (*Service) Secret() Secret {
	var s Secret
	_, _ = rand.Read(s.bytes[:]) // it never fails
	return s
}

// Hash is what the log keeps of it, whatever it is the token of.
func (s Secret) Hash() string { return task.New("", "", 0, s.bytes).Hash() }

// Text is the token of a lease of a task; lease 0 is the task's own.
func (s Secret) Text(ref schemas.Ref, lease int) string {
	return task.New(ref.Tenant, ref.ID, lease, s.bytes).Text()
}

func (s Secret) subtoken(ref schemas.Ref, lease, n int) string {
	t := task.New(ref.Tenant, ref.ID, lease, s.bytes)
	t.Subtoken = n
	return t.Text()
}

// Reissue makes another token for a task and revokes the current one. The bounds are those of the
// caller, who could use the task's with the token. Errors: NOT_FOUND, STREAM_GONE, UNAVAILABLE, FORBIDDEN; CONFLICT if the
// task has ended, was ever leased by an agent of a pool, or has reached its token limit.
func (d *Service) Reissue(ctx context.Context, tenant, id string, bounds task.Bounds) (ref schemas.Ref, token string, err error) {
	secret := d.Secret()
	ref, err = d.people(ctx, tenant, id, func(f file) ([]schemas.Event, error) {
		switch {
		case !bounds.Covers(task.Of(f.log.Action)):
			return nil, fault.New(schemas.Forbidden, "the task may use entries of the policy or models that this token may not")
		case d.over(f):
			return nil, errEnded()
		case f.task.Lease > 0:
			return nil, fault.New(schemas.Conflict, "a pool's agent has leased this task, so it is the pool's: it has no token of its own any more")
		case f.task.Reissues >= schemas.MaxTaskReissues:
			return nil, fault.New(schemas.Conflict, "the task has had "+strconv.Itoa(schemas.MaxTaskReissues)+" other tokens, which is the most; cancel it and file another one")
		}
		return one(schemas.TaskEvent{What: schemas.TaskReissued, TokenHash: secret.Hash()}), nil
	})
	if err != nil {
		return ref, "", err
	}
	return ref, secret.Text(ref, 0), nil
}
