package index

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"time"

	"weir/egress/status"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/schemas"
)

// List is the page of actions that a query asks for.
func (x *Index) List(ctx context.Context, q Query) (page schemas.ActionPage, err error) {
	err = x.with(ctx, func(ctx context.Context, s *store, lag lag) error {
		page = schemas.ActionPage{Items: []schemas.ActionEntry{}, Freshness: schemas.Freshness{AsOf: lag.asOf, Behind: lag.behind}}
		n, err := s.number(ctx, q.filter)
		if err != nil {
			return err
		}
		if !n.none {
			if err := x.fill(ctx, s, lag, q, n, &page); err != nil {
				return err
			}
		}
		if q.count {
			page.Count, err = s.count(ctx, n)
		}
		return err
	})
	return page, err
}

// fill puts the items in, and where the next page begins.
func (x *Index) fill(ctx context.Context, s *store, lag lag, q Query, n numbered, page *schemas.ActionPage) error {
	looks, limit := x.cfg.Looks, q.limit+1
	if n.live() { // the log is asked about each
		looks, limit = x.cfg.Words, x.cfg.Words
	}
	sel := n.selection(q.cursor, looks)
	found, err := s.read(ctx, sel, limit)
	if err != nil {
		return err
	}
	word, silent := x.worder(lag), len(lag.silent)
	for i, f := range found {
		if len(page.Items) == q.limit {
			page.Next = cursorKey(found[i-1].at)
			break
		}
		entry, ok, err := x.entry(ctx, f, q, word)
		if err != nil {
			return err
		}
		if ok {
			page.Items = append(page.Items, entry)
		}
	}
	if page.Next == "" && len(found) == limit {
		// Some were read that do not fit any more: what lies behind them was not looked at.
		page.Next = cursorKey(found[limit-1].at)
	}
	if page.Next == "" {
		page.Next, err = s.horizon(ctx, sel, looks)
	}
	if err != nil {
		return err
	}
	for range len(word.silent) - silent { // which have told nothing newer
		page.Behind++
	}
	return word.durable(ctx)
}

// selection is a query for actions: inner are those that an index of the file leads
// to, the newest first, and so many at most; outer are those of them that are meant.
type selection struct {
	inner string
	args  []any
	outer clause
}

func (n numbered) selection(below int64, looks int) selection {
	by, lead, rest := n.driver()
	until := below
	if n.until > 0 {
		until = min(until, n.until)
	}
	n.within(&lead, n.since, until)
	return selection{
		inner: "FROM " + from(by) + " WHERE " + lead.String() + " ORDER BY at DESC LIMIT " + strconv.Itoa(looks),
		args:  lead.args, outer: rest,
	}
}

// found is an action as a list reads it.
type found struct {
	at, created, deadline, settled int64
	status                         int
	attempts                       int
	tenant, kind, class            string
	id, task, taskType             string
	code, entry                    string
}

func (s *store) read(ctx context.Context, sel selection, limit int) ([]found, error) {
	//nolint:gosec // only the index's own words are in it; what a caller gives is an argument
	query := `SELECT a.at, a.created, a.deadline, a.settled, a.status, a.attempts, t.text, k.text, coalesce(c.text, ''), a.id, a.task, coalesce(y.text, ''), coalesce(o.text, ''), coalesce(e.text, '')
FROM (SELECT * FROM (SELECT * ` + sel.inner + `) WHERE ` + sel.outer.String() + ` LIMIT ` + strconv.Itoa(limit) + `) a
JOIN word t ON t.id = a.tenant JOIN word k ON k.id = a.kind
LEFT JOIN word c ON c.id = a.class LEFT JOIN word y ON y.id = a.task_type LEFT JOIN word o ON o.id = a.code LEFT JOIN word e ON e.id = a.entry
ORDER BY a.at DESC`
	rows, err := s.db.QueryContext(ctx, query, slices.Concat(sel.args, sel.outer.args)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []found
	for rows.Next() {
		var f found
		if err := rows.Scan(&f.at, &f.created, &f.deadline, &f.settled, &f.status, &f.attempts, &f.tenant, &f.kind, &f.class, &f.id, &f.task, &f.taskType, &f.code, &f.entry); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, rows.Err()
}

// horizon is where the next page begins behind one that ended because it had looked at
// as many actions as it may; empty: it had not.
func (s *store) horizon(ctx context.Context, sel selection, looks int) (string, error) {
	var at int64
	err := s.db.QueryRowContext(ctx, "SELECT at FROM (SELECT at "+sel.inner+") LIMIT 1 OFFSET "+strconv.Itoa(looks-1), sel.args...).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return cursorKey(at), err
}

// entry is what a list shows of an action; ok is false where it is none of those meant.
func (x *Index) entry(ctx context.Context, f found, q Query, word *worder) (e schemas.ActionEntry, ok bool, err error) {
	e = schemas.ActionEntry{
		ID: f.id, Kind: schemas.Kind(f.kind), TaskType: f.taskType, Class: schemas.Class(f.class), Created: instant(f.created), Deadline: instant(f.deadline),
		Settled: instant(f.settled), Entry: f.entry, Task: f.task, Code: schemas.Code(f.code), Attempts: f.attempts,
		URL: stream.ActionURL(f.id), EventsURL: stream.EventsURL(f.id),
	}
	if q.named {
		e.Tenant = f.tenant
	}
	if f.status > 0 && f.status <= len(schemas.Outcomes()) {
		e.Status = schemas.Status(schemas.Outcomes()[f.status-1])
		ms := stream.Milliseconds(time.Duration(max(f.settled-f.at, 0))) // both by the log's clock, which may have been put right between
		e.DurationMS = &ms
		return e, true, nil
	}
	b, err := word.of(ctx, schemas.Ref{Tenant: f.tenant, Kind: e.Kind, ID: f.id})
	if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrGone) {
		return e, false, nil // the log has dropped it
	}
	e.Status, e.Code = b.Status, b.Code
	if q.statuses() {
		ok = slices.Contains(q.open, b.Status) || slices.Contains(q.status, schemas.Outcome(b.Status))
		return e, ok, err
	}
	return e, true, err
}

func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// worder reads from the log where actions stand that have not ended in the index.
type worder struct {
	x      *Index
	silent map[int]bool
	seen   map[int]uint64
	until  time.Time
}

func (x *Index) worder(l lag) *worder {
	return &worder{x: x, silent: l.silent, seen: map[int]uint64{}, until: time.Now().Add(x.cfg.Wait)}
}

// of is the status of an action. One whose partition does not answer in time has the
// last word that is known.
func (w *worder) of(ctx context.Context, ref schemas.Ref) (status.Brief, error) {
	layout := w.x.cfg.Layout
	p := layout.Partition(ref.Tenant, ref.ID)
	last := status.Brief{Status: schemas.Status(schemas.EventAccepted)}
	if w.silent[p] {
		return last, nil
	}
	within, cancel := context.WithDeadline(ctx, w.until)
	defer cancel()
	b, err := status.Word(within, w.x.log, w.x.actions, layout, ref)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		w.silent[p] = true
		return last, nil
	}
	if err == nil {
		w.seen[p] = max(w.seen[p], b.Seq)
	}
	return b, err
}

// durable waits until what was read may be shown.
func (w *worder) durable(ctx context.Context) error {
	for p, seq := range w.seen {
		if err := w.x.durable.Durable(ctx, schemas.LogStream(p), seq); err != nil {
			return err
		}
	}
	return nil
}
