package destination

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Turn is the leave to make one call. It belongs to one goroutine; Leave must follow. A nil
// one learns nothing.
type Turn struct {
	book   *Book // nil: nobody learns anything from the call
	place  *place
	tenant string
	gate   *gate // where it has a seat
	probe  bool
	pinned bool // its destination is called whatever becomes of it
	once   sync.Once
}

// Well hears that the destination answered, and not that it fails.
func (t *Turn) Well(ctx context.Context) {
	if t == nil || t.book == nil {
		return
	}
	p := t.place
	p.mu.Lock()
	p.run = 0
	fine := p.health.Failures == 0 && p.health.Open == 0
	p.mu.Unlock()
	t.probe = false
	if fine {
		return
	}
	was := false
	changed, err := t.book.share(ctx, p, func(h *health, _ time.Time) bool {
		was = h.Open != 0
		return h.well()
	})
	if err == nil && changed && was {
		t.book.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "destination is called again", t.about()...)
	}
}

// Failed hears that the destination could not be reached, gave no answer or failed.
func (t *Turn) Failed(ctx context.Context) {
	if t == nil || t.book == nil || t.pinned {
		return
	}
	b, p := t.book, t.place
	p.mu.Lock()
	p.run++
	n, share := p.run, p.run >= max(1, b.cfg.Failures/8) || p.health.Failures+p.run >= b.cfg.Failures
	if b.shared == nil {
		share = true
	}
	if share || t.probe {
		p.run = 0
	}
	p.mu.Unlock()
	if !share && !t.probe {
		return
	}
	probe := t.probe
	t.probe = false
	was, is := false, false
	changed, err := b.share(ctx, p, func(h *health, now time.Time) bool {
		was = h.Open != 0
		done := h.fail(n, probe, now, b.cfg.Failures, b.cfg.Quarantine)
		is = h.Open != 0
		return done
	})
	if err == nil && changed && is && !was {
		t.book.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "destination left alone after failures", t.about()...)
	}
}

// Asked hears that the destination asked to be left alone until a time. It asked this call's tenant: others leave it
// alone once two were asked. That says nothing of how it does otherwise. A wish that is too long counts as none.
func (t *Turn) Asked(ctx context.Context, until time.Time) {
	if t == nil || t.book == nil || t.pinned {
		return
	}
	wait := until.Sub(t.book.cfg.Now())
	if wait <= 0 || wait > t.book.cfg.Longest {
		return
	}
	changed, err := t.book.share(ctx, t.place, func(h *health, now time.Time) bool { return h.ask(t.tenant, until, now) })
	if err == nil && changed && wait > time.Second {
		t.book.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "destination asked to be left alone", t.about()...)
	}
}

// Leave gives back what the call had taken. It may be called twice.
func (t *Turn) Leave() {
	if t == nil || t.book == nil {
		return
	}
	t.once.Do(func() {
		if t.gate != nil {
			t.book.release(t.gate)
		}
		if t.probe { // the call has shown nothing: the next one sees
			_, _ = t.book.share(context.Background(), t.place, func(h *health, _ time.Time) bool { return h.untried(t.book.cfg.Worker) })
		}
	})
}

// about is what the log tells of a destination.
func (t *Turn) about() []slog.Attr {
	return []slog.Attr{slog.String("component", "destination"), slog.String("entry", t.place.entry)}
}
