package destination

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// place is one destination of one entry.
type place struct {
	key, entry, destination string

	mu       sync.Mutex
	health   health
	revision uint64
	run      int           // failures in a row here that nobody was told of
	changed  chan struct{} // closed, and replaced, with every change that lets calls through
	asleep   sleepers
	used     time.Time

	storing single // one write of this process at a time
}

const (
	placePrefix = "at."
	gatePrefix  = "of."
	// mostPlaces is how many destinations are remembered of which nothing is known.
	mostPlaces = 4096
	// A destination that nothing holds back is forgotten when it was not called for unused, and one that has failed
	// when it was not called for longUnused.
	unused     = time.Minute
	longUnused = 10 * time.Minute
	// storeWithin bounds one write: the call that it is for waits for it.
	storeWithin = 2 * time.Second
	// shareTries is how often a write is tried when others write at the same time.
	shareTries = 6
)

func placeKey(entry, destination string) string {
	return placePrefix + schemas.EscapeToken(entry) + "." + schemas.EscapeToken(destination)
}

type placeID struct{ entry, destination string }

// place finds a destination, or begins to know it.
func (b *Book) place(entry, destination string) *place {
	id := placeID{entry, destination}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.places[id]
	if p == nil {
		b.forget()
		p = &place{key: placeKey(entry, destination), entry: entry, destination: destination, storing: newSingle(), changed: make(chan struct{})}
		p.health = health{V: healthVersion, Entry: entry, Destination: destination}
		b.places[id] = p
	}
	return p
}

// forget makes room for a destination, at most once a second: one of which nothing is known is as good as new.
// The caller holds the lock.
func (b *Book) forget() {
	now := b.cfg.Now()
	if len(b.places) < mostPlaces || now.Sub(b.forgot) < time.Second {
		return
	}
	b.forgot = now
	for id, p := range b.places {
		if p.idle(now) {
			delete(b.places, id)
		}
	}
}

// idle reports whether the place may be forgotten.
func (p *place) idle(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, _ := p.health.at("", now)
	if c != usual && c != due || len(p.health.inForce(now)) > 0 || len(p.asleep.line) > 0 {
		return false
	}
	keep := unused
	if c == due || p.health.Failures > 0 || p.run > 0 {
		keep = longUnused
	}
	return now.Sub(p.used) > keep
}

// learn takes over what another worker, or this one, has told.
func (b *Book) learn(r schemas.Record) {
	switch {
	case strings.HasPrefix(r.Subject, gatePrefix):
		b.learnGate(r)
		return
	case !strings.HasPrefix(r.Subject, placePrefix):
		return
	}
	h, ok := decodeHealth(r.Data)
	if !ok { // deleted, or of another version: as if nothing were known
		return
	}
	p := b.place(h.Entry, h.Destination)
	if p.key == r.Subject {
		b.adopt(p, h, r.Seq)
	}
}

// adopt puts a newer state in the place of an older one.
func (b *Book) adopt(p *place, h health, revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if revision <= p.revision {
		return
	}
	p.revision = revision
	b.turn(p, h)
}

// turn is a change of state. The caller holds the place's lock.
func (b *Book) turn(p *place, h health) {
	now := b.cfg.Now()
	before, _ := p.health.at("", now)
	was := p.health
	p.health = h
	after, _ := h.at("", now)
	if before != after && (after == usual || after == due) || was.Open > h.Open {
		close(p.changed)
		p.changed = make(chan struct{})
		b.wakers.wake(p.asleep.take(-1, now))
	}
}

// share changes what is known of a place, for everybody. It is in force here even where
// it cannot be told to others.
func (b *Book) share(ctx context.Context, p *place, do func(h *health, now time.Time) bool) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	p.storing.Lock()
	defer p.storing.Unlock()
	for try := 1; ; try++ {
		p.mu.Lock()
		h, revision := p.health, p.revision
		changed = do(&h, b.cfg.Now())
		if changed && b.shared == nil {
			b.turn(p, h)
		}
		p.mu.Unlock()
		if !changed || b.shared == nil {
			return changed, nil
		}
		value, err := json.Marshal(h)
		if err != nil {
			return false, err
		}
		seq, err := b.shared.Put(ctx, p.key, value, revision)
		switch {
		case err == nil:
			b.adopt(p, h, seq)
			return true, nil
		case try == shareTries || ctx.Err() != nil || !errors.Is(err, fault.ErrFenced) && !errors.Is(err, fault.ErrUnavailable):
			return b.here(p, do), err
		}
		if err := b.look(ctx, p); err != nil {
			return b.here(p, do), err
		}
		pause(ctx, try)
	}
}

// here changes what this process knows of a place, where the others cannot be told.
func (b *Book) here(p *place, do func(h *health, now time.Time) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.health
	changed := do(&h, b.cfg.Now())
	if changed {
		b.turn(p, h)
	}
	return changed
}

// pause lets those come apart who want to write the same.
func pause(ctx context.Context, try int) {
	timer := time.NewTimer(rand.N(time.Millisecond << try)) //nolint:gosec // a spread, no secret
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// look reads a place anew.
func (b *Book) look(ctx context.Context, p *place) error {
	r, err := b.shared.Get(ctx, p.key)
	if errors.Is(err, fault.ErrNotFound) { // it was forgotten meanwhile
		p.mu.Lock()
		p.revision = 0
		p.mu.Unlock()
		return nil
	}
	if err != nil {
		return err
	}
	if h, ok := decodeHealth(r.Data); ok {
		b.adopt(p, h, r.Seq)
		return nil
	}
	p.mu.Lock()
	p.revision = r.Seq // of another version: it is written over
	p.mu.Unlock()
	return nil
}

// Destinations are those that are left alone by what was found out, by entry and
// destination.
func (b *Book) Destinations() []schemas.DestinationView {
	all := []schemas.DestinationView{}
	now := b.cfg.Now()
	b.mu.Lock()
	places := make([]*place, 0, len(b.places))
	for _, p := range b.places {
		places = append(places, p)
	}
	b.mu.Unlock()
	for _, p := range places {
		p.mu.Lock()
		v, left := p.health.view(now)
		p.mu.Unlock()
		if left {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b schemas.DestinationView) int {
		if c := strings.Compare(a.Entry, b.Entry); c != 0 {
			return c
		}
		return strings.Compare(a.Destination, b.Destination)
	})
	return all
}
