// Package listing reads the lists of models that providers have, for the upstreams of patterns. It
// asks one upstream at a time, and no request of a client waits for it.
package listing

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/internal/models/listed"
	"weir/processors/call"
	"weir/schemas"
)

// Config of a Refresher. What names no default is required.
type Config struct {
	// Upstreams are those in force whose lists are shown.
	Upstreams func() []schemas.ModelUpstream
	Lists     *listed.Keeper
	// Caller makes the calls, on a ledger that stores nothing; see call.Unlogged. Adapter speaks plain HTTP.
	Caller  *call.Caller
	Adapter call.Adapter
	// Record stores evidence.
	Record func(ctx context.Context, e schemas.Evidence) error
	Logger *slog.Logger
	// Every is how often a list is read; default 15 min, and a tenth less or more.
	Every time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
}

const (
	// patience bounds the reading of one list.
	patience = time.Minute
	// claim is how long other workers leave a list to the one that reads it.
	claim = 2 * patience
	// soonest is the wait after a first failure. Each further one doubles it, up to Every. A provider
	// without a list is asked again after Every.
	soonest = time.Minute
)

// Refresher keeps the lists fresh. Workers that share a log share the work.
type Refresher struct {
	cfg    Config
	notify chan struct{}
	stop   func()
}

// New returns a Refresher that does nothing until Start.
func New(cfg Config) *Refresher {
	cfg.Every = cmp.Or(cfg.Every, 15*time.Minute)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Refresher{cfg: cfg, notify: make(chan struct{}, 1), stop: func() {}}
}

// Start begins to read lists.
func (r *Refresher) Start(ctx context.Context) {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { r.run(ctx) })
	r.stop = sync.OnceFunc(func() { end(); done.Wait() })
}

// Stop ends what Start began.
func (r *Refresher) Stop() { r.stop() }

// Refresh has lists read again that could not be read: call it after a reload. It does not wait.
func (r *Refresher) Refresh() {
	select {
	case r.notify <- struct{}{}:
	default:
	}
}

func (r *Refresher) run(ctx context.Context) {
	anew := true // after a start too: the cause of a failure may be gone
	for {
		next := r.round(ctx, anew)
		timer := time.NewTimer(max(next.Sub(r.cfg.Now()), time.Second))
		select {
		case <-timer.C:
			anew = false
		case <-r.notify:
			anew = true
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// round reads the lists that are due, and returns when the next one is. anew: those that could not
// be read are due.
func (r *Refresher) round(ctx context.Context, anew bool) (next time.Time) {
	next = r.cfg.Now().Add(r.cfg.Every)
	for _, up := range r.cfg.Upstreams() {
		if ctx.Err() != nil {
			break
		}
		if due := r.refresh(ctx, up, anew); due.Before(next) {
			next = due
		}
	}
	return next
}

// refresh reads the list of one upstream if it is due, and returns when it is due again.
func (r *Refresher) refresh(ctx context.Context, up schemas.ModelUpstream, anew bool) time.Time {
	now := r.cfg.Now()
	was, last := r.cfg.Lists.Get(up.Name)
	if source := listed.Source(up); was.Source != source {
		was = schemas.ProviderModels{Upstream: up.Name, Source: source}
	}
	if now.Before(was.Due) && (!anew || was.Failures == 0) {
		return was.Due
	}
	taken := was
	taken.Due = now.Add(claim)
	last, err := r.cfg.Lists.Put(ctx, taken, last)
	if err != nil {
		if !errors.Is(err, fault.ErrFenced) && ctx.Err() == nil {
			r.cfg.Logger.WarnContext(ctx, "model_list_unclaimed", "component", "models", "entry", schemas.ModelEntry(up.Name))
		}
		return now.Add(soonest)
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := r.ask(limited, up)
	if ctx.Err() != nil {
		return now
	}
	is := r.outcome(ctx, was, found, err)
	if _, err := r.cfg.Lists.Put(ctx, is, last); err != nil {
		return now.Add(claim)
	}
	return is.Due
}

// outcome is the record after an attempt. A list stays while its provider does not answer, or says
// something else; where there is no list, none stays.
func (r *Refresher) outcome(ctx context.Context, was schemas.ProviderModels, found []schemas.ListedModel, err error) schemas.ProviderModels {
	is, now := was, r.cfg.Now().UTC()
	log := r.cfg.Logger.With("component", "models", "entry", schemas.ModelEntry(is.Upstream))
	if err == nil {
		is.Models, is.Read, is.Failures, is.Reason = found, now, 0, ""
		is.Due = now.Add(around(r.cfg.Every))
		if was.Read.IsZero() || was.Failures > 0 {
			log.InfoContext(ctx, "model_list_read", slog.Int("count", len(found)))
		}
		return is
	}
	e, wait := failureOf(err), min(soonest<<min(is.Failures, 10), r.cfg.Every)
	if slices.Contains([]int{404, 405, 410, 501}, e.status) { // a provider without a list does not get one within minutes
		is.Models, wait = nil, r.cfg.Every
	}
	if is.Reason = e.kind; is.Reason != was.Reason {
		log.WarnContext(ctx, "model_list_failed", slog.String("err_kind", is.Reason))
	}
	is.Failures++
	is.Due = now.Add(around(wait))
	return is
}

// around is a time that is up to a tenth less or more.
func around(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1) //nolint:gosec // a spread, no secret
}
