package destination

import (
	"context"
	"time"

	"weir/schemas"
)

// release gives a seat back: to whoever waits for it here, or to all workers where none
// is free any more.
func (b *Book) release(g *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := b.cfg.Now()
	g.used--
	g.leave()
	if b.shared == nil {
		if g.used < g.limits.Concurrency {
			b.wakers.wake(g.asleep.take(1, now))
		}
		return
	}
	if g.account.free(g.limits.Concurrency, now) == 0 && g.trim() {
		b.done.Go(func() { b.renew(context.Background(), g) })
	}
}

// trim lets go of the seats that are not used; they are others' once that is told. The
// caller holds the gate's lock.
func (g *gate) trim() bool {
	over := g.seats > g.used
	g.seats = g.used
	return over
}

// renew tells everybody how many seats this process has, and wakes those who rest here
// for one that is free now.
func (b *Book) renew(ctx context.Context, g *gate) {
	g.storing.Lock()
	err := b.settle(ctx, g, func(a *account, now time.Time) (drawn, bool) {
		g.mu.Lock()
		n := g.seats
		g.mu.Unlock()
		a.tidy(now)
		a.seat(b.cfg.Worker, n, now.Add(b.cfg.Lease))
		return drawn{}, true
	})
	g.storing.Unlock()
	if err != nil {
		return // the next renewal tells it; others find the lease at its end
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := b.cfg.Now()
	b.wakers.wake(g.asleep.take(g.account.free(g.limits.Concurrency, now), now))
}

// keep renews the leases, gives back what is not used, and counts.
func (b *Book) keep(ctx context.Context) {
	tick := time.NewTicker(min(b.cfg.Lease/3, time.Second))
	defer tick.Stop()
	renewed := b.cfg.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.part() //nolint:contextcheck // the context has ended
			return
		}
		b.count()
		if now := b.cfg.Now(); b.shared != nil && now.Sub(renewed) >= b.cfg.Lease/3 {
			renewed = now
			for _, g := range b.taken() {
				g.mu.Lock()
				g.trim()
				g.mu.Unlock()
				b.renew(ctx, g)
			}
		}
	}
}

// part gives back what this process had.
func (b *Book) part() {
	if b.shared == nil {
		return
	}
	for _, g := range b.taken() {
		g.mu.Lock()
		g.trim()
		g.mu.Unlock()
		b.renew(context.Background(), g)
	}
}

// taken are the gates at which this process has seats, or is said to have.
func (b *Book) taken() (all []*gate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.gates {
		g.mu.Lock()
		_, said := g.account.Seats[b.cfg.Worker]
		if said || g.seats > 0 {
			all = append(all, g)
		}
		g.mu.Unlock()
	}
	return all
}

// count tells how many destinations are left alone.
func (b *Book) count() {
	if b.cfg.Metrics == nil {
		return
	}
	type sum struct{ asked, open int }
	now, byEntry := b.cfg.Now(), map[string]sum{}
	b.mu.Lock()
	for _, p := range b.places {
		p.mu.Lock()
		v, _ := p.health.view(now)
		p.mu.Unlock()
		s := byEntry[p.entry]
		switch v.State {
		case schemas.DestinationAsked:
			s.asked++
		case schemas.DestinationOpen, schemas.DestinationTrying:
			s.open++
		}
		byEntry[p.entry] = s
	}
	b.mu.Unlock()
	for entry, s := range byEntry {
		b.cfg.Metrics.DestinationsLeft(entry, s.asked, s.open)
	}
}
