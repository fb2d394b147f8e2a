package accept

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/internal/limits"
	"weir/schemas"
)

// Queue returns how many new actions of a tenant wait for a worker, or of all; the broker does.
type Queue interface {
	Waiting(ctx context.Context, tenant string) (uint64, error)
}

// PressureConfig of a Pressure.
type PressureConfig struct {
	// Queued is how many new actions may wait for a worker, and QueuedPerTenant how many of
	// one tenant's; 0: any number.
	Queued, QueuedPerTenant uint64
	// Stored is a tenant's use of the log; nil: no bound.
	Stored func(tenant string) limits.Quota
}

const (
	// pressureAge is how long a count is valid: actions accepted here since then are added to it.
	pressureAge = time.Second
	// pressurePatience bounds one count.
	pressurePatience = 10 * time.Second
	// pressureKept is how long an idle tenant is remembered.
	pressureKept = time.Minute
	// pressureRetry is the Retry-After of a refused request.
	pressureRetry = 5 * time.Second
)

// Pressure refuses new actions while too many are queued. The log counts the queued actions, on
// request and at most once a second; this node adds the actions that it has accepted since. So the
// count is exact to about a second, except for actions that other nodes accept in that time. A
// tenant is counted only if the total is above one tenant's limit. It is safe for concurrent use;
// nil refuses nothing.
type Pressure struct {
	queue Queue
	cfg   PressureConfig

	mu      sync.Mutex
	all     gauge
	tenants map[string]*gauge
}

// gauge is one count.
type gauge struct {
	count, since uint64    // since: accepted here and not in count
	known        time.Time // when it was counted last
	next         time.Time // when it is counted again at the earliest
}

// NewPressure returns a Pressure over a queue.
func NewPressure(q Queue, cfg PressureConfig) *Pressure {
	return &Pressure{queue: q, cfg: cfg, tenants: make(map[string]*gauge)}
}

// Refusal is why a new action of a tenant cannot be taken now; nil: it can. It never waits.
// Writes of traffic rules do not count as queued: they may be what ends the pressure.
func (p *Pressure) Refusal(tenant string, kind schemas.Kind) error {
	if p == nil {
		return nil
	}
	if p.cfg.Stored != nil {
		if used := p.cfg.Stored(tenant); used.Exhausted() {
			return p.exhausted(used)
		}
	}
	if kind == schemas.KindRule || p.cfg.Queued == 0 && p.cfg.QueuedPerTenant == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all, known := p.count(&p.all, "")
	most := p.cfg.QueuedPerTenant
	switch {
	case !known:
		return nil
	case p.cfg.Queued > 0 && all >= p.cfg.Queued:
		return refused(schemas.QueueFull, "too many actions wait for a worker, nothing was stored; try again later")
	case most == 0 || all < most:
		return nil
	}
	g := p.tenants[tenant]
	if g == nil {
		p.tidy()
		g = &gauge{}
		p.tenants[tenant] = g
	}
	if n, known := p.count(g, tenant); known && n >= most {
		return refused(schemas.RateLimited, "too many actions of this tenant wait for a worker, nothing was stored; try again later")
	}
	return nil
}

func refused(code schemas.Code, detail string) error {
	return &fault.Error{Code: code, Message: detail, RetryAfter: pressureRetry}
}

// exhausted is the refusal of a tenant that has used up its share of the log.
func (p *Pressure) exhausted(s limits.Quota) error {
	return &fault.Error{
		Code: schemas.RateLimited, RetryAfter: max(time.Until(s.Frees), pressureRetry), Message: fmt.Sprintf(
			"this tenant has %.1f MiB on the log and may have %.1f MiB, nothing was stored; requests and results are dropped after log.history, large "+
				"bodies after twice that and evidence after 90 days, or an operator raises limits.tenant_share or log.max_bytes", mebi(s.Used), mebi(s.Limit)),
	}
}

func mebi(n int64) float64 { return float64(n) / (1 << 20) }

// Took counts an action that was accepted here.
func (p *Pressure) Took(tenant string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all.since++
	if g := p.tenants[tenant]; g != nil {
		g.since++
	}
}

// count returns how many actions wait, by the last count and what was accepted here since, and has
// an old count renewed. A renewal that fails leaves the old count. known is false if no count has been
// made for so long that the number says nothing: a log that does not answer refuses by itself. The
// caller holds mu.
func (p *Pressure) count(g *gauge, tenant string) (n uint64, known bool) {
	begun := time.Now()
	n, known = g.count+g.since, begun.Sub(g.known) <= pressureUnknown
	if begun.Before(g.next) {
		return n, known
	}
	g.next = begun.Add(pressureKept) // when this count has ended
	before := g.since
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), pressurePatience)
		defer cancel()
		n, err := p.queue.Waiting(ctx, tenant)
		p.mu.Lock()
		defer p.mu.Unlock()
		now := time.Now()
		g.next = now.Add(pressureAge)
		if err == nil {
			// A count that took long is not made again at once.
			g.next = begun.Add(pressureAge + min(now.Sub(begun)*costly, costliest))
			g.count, g.since, g.known = n, g.since-before, now
		}
	}()
	return n, known
}

const (
	// costly: wait this many times the duration of the last count before counting again; costliest
	// limits that wait.
	costly    = 10
	costliest = 5 * time.Second
	// pressureUnknown is when a count is too old to refuse anything by.
	pressureUnknown = 30 * time.Second
)

// tidy forgets the tenants that have sent nothing for long. The caller holds mu.
func (p *Pressure) tidy() {
	now := time.Now()
	maps.DeleteFunc(p.tenants, func(_ string, g *gauge) bool { return now.Sub(g.next) > pressureKept })
}
