package index

import (
	"context"
	"errors"
	"time"
)

// tallySlot is how finely counts are kept by the time of acceptance: a count reads the
// slots that lie whole in its range, and the actions of the two that do not.
const tallySlot = 5 * time.Minute

// levels are the widths of the slots of pace, from the finest on; each is a multiple
// of the one before.
var levels = []time.Duration{10 * time.Second, 5 * time.Minute, time.Hour} //nolint:gochecknoglobals // a constant

// slotOf is the slot of a moment: how many of its width came before.
func slotOf(at int64, width time.Duration) int64 { return at / int64(width) }

type tallyKey struct {
	slot, tenant, kind, taskType, entry, code, status int64
}

type paceKey struct {
	level, slot, tenant, kind, entry, status int64
}

type paced struct {
	n      int64
	spread spread
}

// accepted counts an action that came.
func (w *writer) accepted(tenant, kind, at int64) {
	for _, l := range levels {
		w.count(paceKey{level: int64(l), slot: slotOf(at, l), tenant: tenant, kind: kind})
	}
}

// ended counts an action that ended, and how long it took.
func (w *writer) ended(tenant, kind, entry, status, at int64, took time.Duration) {
	class := classOf(took)
	for _, l := range levels {
		p := w.count(paceKey{level: int64(l), slot: slotOf(at, l), tenant: tenant, kind: kind, entry: entry, status: status})
		if p.spread == nil {
			p.spread = spread{}
		}
		p.spread[class]++
	}
}

func (w *writer) count(k paceKey) *paced {
	p := w.pace[k]
	if p == nil {
		p = &paced{}
		w.pace[k] = p
	}
	p.n++
	return p
}

const addTally = `INSERT INTO tally (slot, tenant, kind, task_type, entry, code, status, n) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET n = n + excluded.n`

func (w *writer) writeTally(ctx context.Context) error {
	for k, n := range w.tally {
		if n == 0 {
			continue
		}
		if _, err := w.exec(ctx, addTally, k.slot, k.tenant, k.kind, k.taskType, k.entry, k.code, k.status, n); err != nil {
			return err
		}
	}
	return nil
}

const (
	readPace = "SELECT n, spread FROM pace WHERE level = ? AND slot = ? AND tenant = ? AND kind = ? AND entry = ? AND status = ?"
	putPace  = "INSERT OR REPLACE INTO pace (level, slot, tenant, kind, entry, status, n, spread) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)

func (w *writer) writePace(ctx context.Context) error {
	for k, p := range w.pace {
		s, err := w.stmt(ctx, readPace)
		if err != nil {
			return err
		}
		var n int64
		var packed []byte
		err = s.QueryRowContext(ctx, k.level, k.slot, k.tenant, k.kind, k.entry, k.status).Scan(&n, &packed)
		if err != nil && !errors.Is(err, errNoRows) {
			return err
		}
		p.n += n
		if p.spread != nil {
			p.spread.unpack(packed)
			packed = p.spread.pack()
		}
		if _, err := w.exec(ctx, putPace, k.level, k.slot, k.tenant, k.kind, k.entry, k.status, p.n, packed); err != nil {
			return err
		}
	}
	return nil
}

// prune takes out what the log of every partition has dropped: first is the oldest
// record of this one.
func (x *Index) prune(ctx context.Context, s *store, p *partition, first uint64) error {
	oldest, err := x.log.Next(ctx, p.stream, every, first)
	if err != nil {
		return nil // nothing is left, or the next time will tell
	}
	x.mu.Lock()
	x.oldest[p.number] = oldest.Time
	least := oldest.Time
	for _, t := range x.oldest {
		if t.Before(least) {
			least = t
		}
	}
	all := len(x.oldest) == x.cfg.Layout.Partitions
	x.mu.Unlock()
	if !all || !least.After(time.Unix(0, 0)) {
		return nil
	}
	x.writing.Lock()
	defer x.writing.Unlock()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, q := range []struct {
		query string
		args  []any
	}{
		{`INSERT INTO tally (slot, tenant, kind, task_type, entry, code, status, n)
SELECT at / ?, tenant, kind, task_type, entry, code, status, -count(*) FROM action WHERE at < ? GROUP BY 1, 2, 3, 4, 5, 6, 7
ON CONFLICT DO UPDATE SET n = n + excluded.n`, []any{int64(tallySlot), least.UnixNano()}},
		{"DELETE FROM action WHERE at < ?", []any{least.UnixNano()}},
		{"DELETE FROM tally WHERE n = 0", nil},
		{"DELETE FROM pace WHERE slot < ? / level", []any{least.UnixNano()}},
	} {
		if _, err := tx.ExecContext(ctx, q.query, q.args...); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}
