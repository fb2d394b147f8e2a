package destination

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"weir/schemas"
)

// Call is a call that is about to be made.
type Call struct {
	Ref         schemas.Ref // of its action
	Entry       string
	Destination string // see schemas.Destination
	Limits      Limits
	Deadline    time.Time // of its action; zero: it has none
	// Booked is when it may begin by an earlier Held; zero: nothing was booked.
	Booked time.Time
	// Gives is when the call will have ended, whatever its result.
	Gives time.Time
	// Own: only operators hold it back. It has no limits, and its destination is not watched.
	Own bool
}

// punctual is how late a booked call may come. A later one is booked anew, so that calls that are
// all late do not come all at once.
const punctual = 5 * time.Second

// due reports whether the time for which the call was booked has come.
func (c *Call) due(now time.Time) bool {
	return !c.Booked.IsZero() && !now.Before(c.Booked) && now.Sub(c.Booked) <= punctual
}

// Held says that a call may not be made now.
type Held struct {
	// For is schemas.WaitPaused, WaitDestination, WaitLimit or WaitCapacity.
	For string
	// Until is when to ask again. With WaitLimit and Booked the call may begin then, if it says
	// so: see Call.Booked.
	Until  time.Time
	Booked bool
	// Changed is closed when asking again may help before that; nil: never.
	Changed <-chan struct{}
	// Deferred is called once the action is deferred until then, so that it is woken when asking
	// again may help; nil: it is not woken.
	Deferred func()
}

const (
	// A paused call asks again after pausePause, if it was not woken before. It and others wait up
	// to half as much longer, so that calls that came at once come apart.
	pausePause = 30 * time.Second
	// A call that waits for another's probe asks again after probePause.
	probePause = 2 * time.Second
)

// Acquire lets a call through, or says what it has to wait for. After an error, which is the
// store's, nothing may be called.
func (l *Limiter) Acquire(ctx context.Context, c Call) (p *Permit, held *Held, err error) {
	defer func() { //nolint:contextcheck // what was taken is released whatever the call's result
		if held != nil {
			l.cfg.Metrics.CallHeld(held.For)
		}
		if held != nil || err != nil {
			p.Release()
			p = nil
		}
	}()
	since := l.paused.since()
	paused, pin := l.holds.Value().about(&c)
	switch {
	case paused || pin == schemas.PinOpen:
		return nil, l.paused.hold(schemas.WaitPaused, c.Ref, time.Now().Add(spread(pausePause)), since, nil), nil
	case c.Own:
		return nil, nil, nil
	}
	e := l.endpoint(c.Entry, c.Destination)
	if pin == "" {
		if held = e.check(c.Ref); held != nil {
			return nil, held, nil
		}
	}
	p = &Permit{endpoint: e, tenant: c.Ref.Tenant, pinned: pin == schemas.PinClosed}
	if c.Limits.Count > 0 || c.Limits.Concurrency > 0 {
		q := l.quota(c.Entry)
		if held, err = q.acquire(ctx, &c); held != nil || err != nil {
			return p, held, err
		}
		if c.Limits.Concurrency > 0 {
			p.quota = q
		}
	}
	if pin == "" {
		held, err = e.probe(ctx, p, &c)
	}
	return p, held, err
}

// Paused reports whether operators hold a call back. changed is closed once that may be different.
func (l *Limiter) Paused(c Call) (paused bool, changed <-chan struct{}) {
	changed = l.paused.since()
	paused, pin := l.holds.Value().about(&c)
	return paused || pin == schemas.PinOpen, changed
}

// spread is d and up to half of it.
func spread(d time.Duration) time.Duration {
	return d + rand.N(d/2) //nolint:gosec // a spread, no secret
}

// Permit allows one call. It belongs to one goroutine; Release must follow. A nil Permit is one of a
// call that only operators hold back: it has taken nothing, and nothing is learned from the call.
type Permit struct {
	endpoint *endpoint
	tenant   string
	quota    *quota // where it has a slot
	probe    bool
	pinned   bool // the destination is called regardless of its state
	once     sync.Once
}

// Succeeded says that the destination answered, and does not fail.
func (p *Permit) Succeeded(ctx context.Context) {
	if p == nil {
		return
	}
	p.probe = false
	p.endpoint.failures.Store(0)
	if h := p.endpoint.account.Value(); h.Failures == 0 && h.Open == 0 {
		return
	}
	_, _ = p.endpoint.change(ctx, "destination_resumed", func(h *health, _ time.Time) (bool, bool) {
		news := h.Open != 0
		return h.succeed(), news
	})
}

// Failed says that the destination could not be reached, gave no answer or failed. The first
// failures in a row are counted here alone: other workers do not have to know of them yet.
func (p *Permit) Failed(ctx context.Context) {
	if p == nil || p.pinned {
		return
	}
	e, probe := p.endpoint, p.probe
	p.probe = false
	n, most := int(e.failures.Add(1)), e.limiter.cfg.Failures
	if e.limiter.shared != nil && !probe && n < max(1, most/8) && e.account.Value().Failures+n < most {
		return
	}
	if n = int(e.failures.Swap(0)); probe { // another's failure may have been counted with the probe's
		n = max(n, 1)
	}
	if n == 0 {
		return
	}
	_, _ = e.change(ctx, "destination_breaker_opened", func(h *health, now time.Time) (changed, news bool) {
		was := h.Open
		changed = h.fail(n, probe, now, most)
		return changed, was == 0 && h.Open != 0
	})
}

// Asked says that the destination asked this call's tenant not to call before a time. Other
// tenants wait once two were asked. It says nothing of how the destination does otherwise. A
// wait that is too long counts as none.
func (p *Permit) Asked(ctx context.Context, until time.Time) {
	if p == nil || p.pinned {
		return
	}
	wait := time.Until(until)
	if wait <= 0 || wait > longest {
		return
	}
	_, _ = p.endpoint.change(ctx, "destination_pause_requested", func(h *health, now time.Time) (bool, bool) {
		return h.ask(p.tenant, until, now), wait > time.Second
	})
}

// Release gives back what the call had taken. It may be called twice.
func (p *Permit) Release() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		if p.quota != nil {
			p.quota.release()
		}
		if p.probe { // the call has shown nothing: the next one probes
			worker := p.endpoint.limiter.cfg.Worker
			_, _ = p.endpoint.change(context.Background(), "", func(h *health, _ time.Time) (bool, bool) { return h.dropProbe(worker), false })
		}
	})
}
