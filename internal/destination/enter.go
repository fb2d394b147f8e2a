package destination

import (
	"context"
	"math/rand/v2"
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
	// Booked is when it may begin by what it was told before; zero: it was told nothing.
	Booked time.Time
	// Gives is when it will have been given up, whatever becomes of it.
	Gives time.Time
	// Seated: it follows a redirect of a call that has entered, and needs no seat of its
	// own. It waits for its turn as every call does.
	Seated bool
	// Own: only operators hold it back. How its destination does is somebody else's
	// business, and it has no limits.
	Own bool
}

// punctual is how late a call may come that was booked: later it is booked anew, so that
// those who all come late do not come all at once.
const punctual = 5 * time.Second

// due reports whether the time for which the call was booked has come.
func (c *Call) due(now time.Time) bool {
	return !c.Booked.IsZero() && !now.Before(c.Booked) && now.Sub(c.Booked) <= punctual
}

// Held says that a call may not be made now.
type Held struct {
	// For is schemas.WaitPaused, WaitDestination, WaitLimit or WaitCapacity.
	For string
	// Until is when to ask again. With WaitLimit and Booked it is the call's turn then,
	// if it says so: see Call.Booked.
	Until  time.Time
	Booked bool
	// Changed is closed when asking again may help before that; nil: never.
	Changed <-chan struct{}
	// Asleep is told once the action rests until then, so that it is woken when asking
	// again may help.
	Asleep func()
}

const (
	// A paused call asks again after firstLook, if nobody has woken it, then after twice
	// as long, up to lastLook; never exactly, so that those who came at once part.
	firstLook = 30 * time.Second
	// A call without a seat asks again after firstSeat to twice as long.
	firstSeat = 4 * time.Second
	// A call behind a probe asks again after seeing.
	seeing = 2 * time.Second
)

// Enter lets a call through, or says what it has to wait for. The error is the store's:
// then nothing may be called.
func (b *Book) Enter(ctx context.Context, c Call) (*Turn, *Held, error) {
	now := b.cfg.Now()
	then := b.orders.now.Load()
	paused, pin := then.about(&c)
	if paused || pin == schemas.PinOpen {
		until := now.Add(spread(firstLook))
		return nil, b.hold(&Held{For: schemas.WaitPaused, Until: until, Changed: then.changed, Asleep: func() { b.orders.sleep(then, c.Ref, until) }}), nil
	}
	if c.Own {
		return &Turn{}, nil, nil
	}
	p := b.place(c.Entry, c.Destination)
	if pin == "" {
		if held := b.alone(p, c.Ref, now); held != nil {
			return nil, b.hold(held), nil
		}
	}
	t := &Turn{book: b, place: p, tenant: c.Ref.Tenant, pinned: pin == schemas.PinClosed}
	if !c.Limits.none() {
		g := b.gate(c.Entry, c.Limits)
		seat := c.Limits.Concurrency > 0 && !c.Seated
		lack, err := b.pass(ctx, g, &c, seat, c.Limits.Count > 0)
		if err != nil {
			return nil, nil, err
		}
		if lack != nil {
			return nil, b.hold(b.lacking(g, c.Ref, lack, now)), nil
		}
		if seat {
			t.gate = g
		}
	}
	if pin == "" {
		held, err := b.probe(ctx, t, &c)
		if held != nil || err != nil {
			t.Leave() //nolint:contextcheck // it is given back whatever becomes of the call
			return nil, held, err
		}
	}
	return t, nil, nil
}

func (b *Book) hold(h *Held) *Held {
	b.held(h.For)
	return h
}

// spread is d and up to half of it.
func spread(d time.Duration) time.Duration {
	return d + rand.N(d/2) //nolint:gosec // a spread, no secret
}

// alone says until when a destination is left alone; nil: it is not.
func (b *Book) alone(p *place, ref schemas.Ref, now time.Time) *Held {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = now
	c, until := p.health.at(ref.Tenant, now)
	switch c {
	case usual, due:
		return nil
	case trying:
		until = now.Add(min(spread(seeing), max(until.Sub(now), seeing)))
	case asked, open:
		if rest := until.Sub(now); rest > time.Second { // those who wait come one after the other
			until = until.Add(rand.N(rest / 4)) //nolint:gosec // a spread, no secret
		}
	}
	return b.rests(p, ref, until)
}

func (b *Book) rests(p *place, ref schemas.Ref, until time.Time) *Held {
	changed := p.changed
	return &Held{For: schemas.WaitDestination, Until: until, Changed: changed, Asleep: func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.changed != changed {
			b.wakers.wake([]schemas.Ref{ref})
			return
		}
		p.asleep.add(ref, until, b.cfg.Now())
	}}
}

// lacking words a shortage.
func (b *Book) lacking(g *gate, ref schemas.Ref, s *shortage, now time.Time) *Held {
	if s.why == schemas.WaitLimit {
		return &Held{For: s.why, Until: s.until, Booked: s.booked}
	}
	until := now.Add(spread(firstSeat))
	return &Held{For: s.why, Until: until, Changed: s.left, Asleep: func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.left != s.left && (g.used < g.seats || g.account.free(g.limits.Concurrency, b.cfg.Now()) > 0) {
			b.wakers.wake([]schemas.Ref{ref})
			return
		}
		g.asleep.add(ref, until, b.cfg.Now())
	}}
}

// probe has the call see to a destination that has failed, if it is time and nobody else
// does.
func (b *Book) probe(ctx context.Context, t *Turn, c *Call) (*Held, error) {
	p := t.place
	p.mu.Lock()
	cond, _ := p.health.at(c.Ref.Tenant, b.cfg.Now())
	p.mu.Unlock()
	if cond == usual {
		return nil, nil //nolint:nilnil // it is let through
	}
	mine, err := b.share(ctx, p, func(h *health, now time.Time) bool { return h.try(b.cfg.Worker, now, c.Gives) })
	if err != nil {
		return nil, err
	}
	if t.probe = mine; mine {
		return nil, nil //nolint:nilnil // it is let through
	}
	now := b.cfg.Now()
	if held := b.alone(p, c.Ref, now); held != nil {
		return b.hold(held), nil
	}
	return nil, nil //nolint:nilnil // another has seen that it is well
}
