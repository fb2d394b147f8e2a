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

	limiter  *Limiter
	account  *limits.Account[health]
	waiters  *waiters
	used     time.Time    // of Limiter.mu
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

// endpoint finds a destination, or begins to know it. Where there are many, those without any state
// are forgotten for it, at most once a second.
func (l *Limiter) endpoint(entry, destination string) *endpoint {
	id, now := endpointID{entry, destination}, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.endpoints[id]
	if e == nil {
		if len(l.endpoints) >= mostEndpoints && now.Sub(l.forgot) >= time.Second {
			l.forgot = now
			maps.DeleteFunc(l.endpoints, func(_ endpointID, e *endpoint) bool { return e.idle(now) })
		}
		e = &endpoint{endpointID: id, limiter: l, waiters: l.newWaiters()}
		e.account = l.states.Open(endpointKey(entry, destination), health{V: healthVersion, Entry: entry, Destination: destination}, e.changed)
		l.endpoints[id] = e
	}
	e.used = now
	return e
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
// that cannot be stored, it changes for this worker. event is logged if that was stored and do says
// that it is news; empty: nothing is.
func (e *endpoint) change(ctx context.Context, event string, do func(h *health, now time.Time) (changed, news bool)) (changed bool, err error) {
	var news bool
	err = e.account.Change(context.WithoutCancel(ctx), func(h *health, now time.Time) bool {
		changed, news = do(h, now)
		return changed
	})
	if err == nil && changed && news {
		e.limiter.cfg.Logger.InfoContext(ctx, event, "component", "destination", "entry", e.entry) //nolint:sloglint // one of three
	}
	return changed, err
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
	mine, err := e.change(ctx, "", func(h *health, now time.Time) (bool, bool) {
		return h.startProbe(e.limiter.cfg.Worker, now, c.Gives), false
	})
	if p.probe = mine && err == nil; p.probe || err != nil {
		return nil, err
	}
	return e.check(c.Ref), nil // nil: another call has shown that it is well
}

// Destinations are those that are not called now by what was found out, by entry and destination.
func (l *Limiter) Destinations() []schemas.DestinationView {
	all := []schemas.DestinationView{}
	for _, e := range values(l, l.endpoints) {
		if v, left := e.account.Value().view(time.Now()); left {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b schemas.DestinationView) int {
		return cmp.Or(strings.Compare(a.Entry, b.Entry), strings.Compare(a.Destination, b.Destination))
	})
	return all
}
