package destination

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/limits"
	"weir/schemas"
)

// endpoint is one destination of one entry.
type endpoint struct {
	endpointID

	limiter *Limiter
	account *limits.Account[health]
	waiters *waiters
	used    time.Time // of Limiter.mu

	failures atomic.Int64 // in a row here, that no other worker knows of
}

type endpointID struct{ entry, destination string }

const (
	// mostEndpoints is how many destinations are remembered of which nothing is known.
	mostEndpoints = 4096
	// A destination that nothing holds back is forgotten when it was not called for unused, and
	// one that has failed when it was not called for longUnused.
	unused     = time.Minute
	longUnused = 10 * time.Minute
)

func endpointKey(entry, destination string) string {
	return endpointPrefix + schemas.EscapeToken(entry) + "." + schemas.EscapeToken(destination)
}

// endpoint finds a destination, or begins to know it.
func (l *Limiter) endpoint(entry, destination string) *endpoint {
	id := endpointID{entry, destination}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.endpoints[id]
	if e == nil {
		l.forget()
		e = &endpoint{endpointID: id, limiter: l, waiters: l.newWaiters()}
		e.account = l.states.Open(endpointKey(entry, destination), health{V: healthVersion, Entry: entry, Destination: destination}, e.changed)
		l.endpoints[id] = e
	}
	e.used = time.Now()
	return e
}

// forget frees space for a destination, at most once a second: it drops destinations without any
// state. The caller holds the lock.
func (l *Limiter) forget() {
	now := time.Now()
	if len(l.endpoints) < mostEndpoints || now.Sub(l.forgot) < time.Second {
		return
	}
	l.forgot = now
	maps.DeleteFunc(l.endpoints, func(_ endpointID, e *endpoint) bool { return e.idle(now) })
}

// idle reports whether the endpoint may be forgotten. The caller holds the Limiter's lock.
func (e *endpoint) idle(now time.Time) bool {
	h := e.account.Value()
	c, _ := h.at("", now)
	if c != callable && c != due || len(h.waits(now)) > 0 || !e.waiters.none() {
		return false
	}
	keep := unused
	if c == due || h.Failures > 0 || e.failures.Load() > 0 {
		keep = longUnused
	}
	return now.Sub(e.used) > keep
}

// failed counts a failure in a row, and returns how many there were that other workers have to
// know of now; 0: none.
func (e *endpoint) failed(probe bool) int {
	n, most := int(e.failures.Add(1)), e.limiter.cfg.Failures
	if e.limiter.shared != nil && !probe && n < max(1, most/8) && e.account.Value().Failures+n < most {
		return 0
	}
	if n = int(e.failures.Swap(0)); probe { // another's failure may have been counted with the probe's
		n = max(n, 1)
	}
	return n
}

// changed wakes waiting calls when the destination may be called again.
func (e *endpoint) changed(was, is *health) {
	now := time.Now()
	before, _ := was.at("", now)
	after, _ := is.at("", now)
	if before != after && (after == callable || after == due) || was.Open > is.Open {
		e.waiters.notify(-1)
	}
}

// change changes what is known of the destination, for all workers, and reports whether it did. If
// that cannot be stored, it changes for this worker. Was is what was known before.
func (e *endpoint) change(ctx context.Context, do func(h *health, now time.Time) bool) (was health, changed bool, err error) {
	err = e.account.Change(context.WithoutCancel(ctx), func(h *health, now time.Time) bool {
		was = *h
		changed = do(h, now)
		return changed
	})
	return was, changed, err
}

// check says until when a destination is not called; nil: it may be.
func (e *endpoint) check(ref schemas.Ref) *Held {
	since, now := e.waiters.since(), time.Now()
	c, until := e.account.Value().at(ref.Tenant, now)
	switch c {
	case callable, due:
		return nil
	case trying:
		until = now.Add(min(spread(probePause), max(until.Sub(now), probePause)))
	case asked, open:
		if wait := until.Sub(now); wait > time.Second { // those who wait come one after the other
			until = until.Add(rand.N(wait / 4)) //nolint:gosec // a spread, no secret
		}
	}
	return e.waiters.hold(schemas.WaitDestination, ref, until, since, nil)
}

// probe has the call probe a destination that has failed, if it is time and no other call does.
func (e *endpoint) probe(ctx context.Context, p *Permit, c *Call) (*Held, error) {
	if cond, _ := e.account.Value().at(c.Ref.Tenant, time.Now()); cond == callable {
		return nil, nil //nolint:nilnil // it is let through
	}
	_, mine, err := e.change(ctx, func(h *health, now time.Time) bool { return h.startProbe(e.limiter.cfg.Worker, now, c.Gives) })
	if p.probe = mine && err == nil; p.probe || err != nil {
		return nil, err
	}
	return e.check(c.Ref), nil // nil: another call has shown that it is well
}

// all are the endpoints that are known.
func (l *Limiter) all() []*endpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.endpoints))
}

// Destinations are those that are not called now by what was found out, by entry and destination.
func (l *Limiter) Destinations() []schemas.DestinationView {
	all := []schemas.DestinationView{}
	for _, e := range l.all() {
		if v, left := e.account.Value().view(time.Now()); left {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b schemas.DestinationView) int {
		return cmp.Or(strings.Compare(a.Entry, b.Entry), strings.Compare(a.Destination, b.Destination))
	})
	return all
}
