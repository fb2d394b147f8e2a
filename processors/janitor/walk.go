package janitor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/retry"
	"weir/schemas"
)

const (
	// every matches every record: with a filter, the server would check each of its subjects to
	// find and count the matches.
	every       = ">"
	pageRecords = 1024
	pageSize    = 1 << 20
	// again is when workers are notified once more of an action that has not ended since.
	again = 5 * time.Minute
	// leisure: after each page the scan rests this many times its duration, so that it uses at most
	// a tenth of a processor for each partition.
	leisure = 9
)

// round looks at what is due and at what was accepted since the last one.
func (p *partition) round(ctx context.Context) error {
	if err := p.hold(ctx); err != nil {
		return err
	}
	now := time.Now()
	for _, o := range slices.Clone(p.Open) {
		if now.Before(o.Due) {
			continue
		}
		if err := p.paced(ctx, func() error { return p.due(ctx, o) }); err != nil {
			return err
		}
	}
	for more := true; more; {
		err := p.paced(ctx, func() (err error) {
			more, err = p.page(ctx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return p.renew(ctx)
}

// paced does a piece of work, rests, and renews the hold.
func (p *partition) paced(ctx context.Context, piece func() error) error {
	begun := time.Now()
	if err := piece(); err != nil {
		return err
	}
	if !retry.Pause(ctx, leisure*time.Since(begun)) {
		return ctx.Err()
	}
	return p.renew(ctx)
}

// due looks once more at an action that had not ended.
func (p *partition) due(ctx context.Context, o open) error {
	records, _, err := p.log.Page(ctx, p.stream, every, o.Seq, 1, pageSize)
	if err != nil {
		return err
	}
	if len(records) == 0 || records[0].Seq != o.Seq { // history has dropped it
		p.forget(o)
		return nil
	}
	return p.look(ctx, records[0])
}

// page reads a page, and checks the actions that were accepted long enough ago and did not end soon
// after, by the log's clock. A record from the future is none to wait for: records of a server with a
// fast clock would block the check of all later ones.
func (p *partition) page(ctx context.Context) (more bool, err error) {
	records, more, err := p.log.Page(ctx, p.stream, every, p.Seq+1, pageRecords, pageSize)
	if err != nil {
		return false, err
	}
	ended := map[schemas.Ref]bool{}
	for _, rec := range records {
		if ref, _, err := schemas.ParseSubject(rec.Subject); err == nil && rec.Ends() {
			ended[ref] = true
		}
	}
	now := time.Now()
	for _, rec := range records {
		if age := now.Sub(rec.Time); age >= 0 && age < p.cfg.Idle {
			return false, nil
		}
		ref, section, err := schemas.ParseSubject(rec.Subject)
		if err == nil && section == schemas.SectionAccepted && !ended[ref] {
			if err := p.look(ctx, rec); err != nil {
				return false, err
			}
		}
		p.Seq, p.dirty = max(p.Seq, rec.Seq), true
	}
	return more, nil
}

// look notifies workers of the action that was accepted in rec, if it has not ended and its next
// record is overdue.
func (p *partition) look(ctx context.Context, rec schemas.Record) error {
	o := open{Seq: rec.Seq}
	ref, _, err := schemas.ParseSubject(rec.Subject)
	if err != nil {
		p.forget(o)
		return nil //nolint:nilerr // a worker dead-letters it
	}
	newest, over, err := p.newest(ctx, ref)
	if err != nil {
		return err
	}
	if over {
		p.forget(o)
		return nil
	}
	now := time.Now()
	if o.Due = p.next(rec, newest); now.Before(o.Due) {
		p.keep(o)
		return nil
	}
	o.Due = now.Add(again)
	notify, requeue := p.notifier.Notify, newest.Seq == rec.Seq && now.Before(deadline(rec))
	if requeue {
		notify = p.notifier.Requeue
	}
	if err := notify(ctx, ref); err != nil {
		return err
	}
	p.keep(o)
	attrs := []slog.Attr{
		slog.String("action_id", ref.ID), slog.String("tenant", ref.Tenant),
		slog.String("kind", string(ref.Kind)), slog.Int("partition", p.number), slog.Uint64("seq", rec.Seq),
	}
	if requeue { // it may also wait for a slot, so this is no warning
		p.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "action_requeued", attrs...)
		return nil
	}
	if p.cfg.Metrics != nil {
		p.cfg.Metrics.Overdue(ref.Kind)
	}
	p.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "overdue_action_woken", attrs...)
	return nil
}

// next is when an action must have another record than its newest.
func (p *partition) next(rec, newest schemas.Record) time.Time {
	end := deadline(rec).Add(p.cfg.Grace)
	var at time.Time
	if _, _, section := schemas.Split(newest.Subject); newest.Seq == rec.Seq || section == schemas.SectionWake && newest.Notifies() {
		at = newest.Time
	} else if ev, err := ledger.Decode(newest.Data); err == nil && ev.Waiting != nil {
		at = ev.Waiting.Until
	} else if err == nil && ev.Type == schemas.EventAttempt {
		at = ev.Attempt.ExpiresAt
	}
	if idle := at.Add(p.cfg.Idle); !at.IsZero() && idle.Before(end) {
		return idle
	}
	return end
}

// newest is the newest record of an action. over: it has its end, or history has dropped it.
func (p *partition) newest(ctx context.Context, ref schemas.Ref) (newest schemas.Record, over bool, err error) {
	last, err := p.log.Newest(ctx, p.stream, p.cfg.Layout.Subject(ref, schemas.SectionEvent))
	switch {
	case err == nil && last.Ends():
		return last, true, nil
	case err != nil && !errors.Is(err, fault.ErrNotFound):
		return last, false, err
	}
	newest, err = p.log.Newest(ctx, p.stream, p.cfg.Layout.All(ref))
	if errors.Is(err, fault.ErrNotFound) {
		return newest, true, nil
	}
	return newest, false, err
}

// deadline is an action's. That of one that cannot be read is long over: a worker that is
// nudged parks it.
func deadline(rec schemas.Record) time.Time {
	var ev struct {
		Action struct {
			Deadline time.Time `json:"deadline"`
		} `json:"action"`
	}
	if json.Unmarshal(rec.Data, &ev) != nil {
		return time.Time{}
	}
	return ev.Action.Deadline
}
