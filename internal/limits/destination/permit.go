package destination

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Permit allows one call. It belongs to one goroutine; Release must follow. A nil Permit learns
// nothing.
type Permit struct {
	endpoint *endpoint // nil: nothing is learned from the call
	tenant   string
	quota    *quota // where it has a slot
	probe    bool
	pinned   bool // the destination is called whatever becomes of it
	once     sync.Once
}

// learns reports whether the outcome of the call is shared.
func (p *Permit) learns() bool { return p != nil && p.endpoint != nil }

// Succeeded says that the destination answered, and does not fail.
func (p *Permit) Succeeded(ctx context.Context) {
	if !p.learns() {
		return
	}
	e := p.endpoint
	e.succeeded()
	p.probe = false
	if h := e.account.Value(); h.Failures == 0 && h.Open == 0 {
		return
	}
	was, changed, err := e.change(ctx, func(h *health, _ time.Time) bool { return h.succeed() })
	if err == nil && changed && was.Open != 0 {
		p.logger().InfoContext(ctx, "destination is called again")
	}
}

// Failed says that the destination could not be reached, gave no answer or failed.
func (p *Permit) Failed(ctx context.Context) {
	if !p.learns() || p.pinned {
		return
	}
	e := p.endpoint
	n, probe := e.failed(p.probe), p.probe
	if p.probe = false; n == 0 {
		return
	}
	was, changed, err := e.change(ctx, func(h *health, now time.Time) bool {
		return h.fail(n, probe, now, e.limiter.cfg.Failures)
	})
	if err == nil && changed && was.Open == 0 && e.account.Value().Open != 0 {
		p.logger().InfoContext(ctx, "destination left alone after failures")
	}
}

// Asked says that the destination asked this call's tenant not to call before a time. Other
// tenants wait once two were asked. It says nothing of how the destination does otherwise. A
// wait that is too long counts as none.
func (p *Permit) Asked(ctx context.Context, until time.Time) {
	if !p.learns() || p.pinned {
		return
	}
	wait := time.Until(until)
	if wait <= 0 || wait > longest {
		return
	}
	_, changed, err := p.endpoint.change(ctx, func(h *health, now time.Time) bool { return h.ask(p.tenant, until, now) })
	if err == nil && changed && wait > time.Second {
		p.logger().InfoContext(ctx, "destination asked to be left alone")
	}
}

// Release gives back what the call had taken. It may be called twice.
func (p *Permit) Release() {
	if !p.learns() {
		return
	}
	p.once.Do(func() {
		if p.quota != nil {
			p.quota.release()
		}
		if p.probe { // the call has shown nothing: the next one probes
			worker := p.endpoint.limiter.cfg.Worker
			_, _, _ = p.endpoint.change(context.Background(), func(h *health, _ time.Time) bool { return h.dropProbe(worker) })
		}
	})
}

func (p *Permit) logger() *slog.Logger {
	return p.endpoint.limiter.cfg.Logger.With("component", "destination", "entry", p.endpoint.entry)
}
