package index

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"weir/schemas"
)

// tallySlot is how wide a slot of level 0 is: a count reads the slots that are wholly in its
// range, and the actions of the two that are not.
const tallySlot = 5 * time.Minute

// levels are the widths of the other slots, from the finest on; each is a multiple of the one
// before.
var levels = []time.Duration{10 * time.Second, 5 * time.Minute, time.Hour} //nolint:gochecknoglobals // a constant

// counter is the key of a row of table figure.
type counter struct {
	level, slot                              int64
	tenant, kind, agent, entry, code, status string
}

// amount is what a transaction adds to a counter.
type amount struct {
	n      int64
	spread spread
}

const (
	findAction = "SELECT * FROM action WHERE tenant = ? AND id = ?"
	dropAction = "DELETE FROM action WHERE at = ?"
	moveTo     = `INSERT INTO place (partition, seq, stamp) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET seq = excluded.seq, stamp = excluded.stamp WHERE seq <= ?`
	readSpread = `SELECT spread FROM figure
WHERE level = ? AND slot = ? AND tenant = ? AND kind = ? AND agent = ? AND entry = ? AND code = ? AND status = ?`
	addFigure = `INSERT INTO figure VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET n = n + excluded.n, spread = excluded.spread`
)

// batchWriter writes one batch.
type batchWriter struct {
	find, drop, insert, read, add *sql.Stmt // which end with the transaction
	rows                          map[schemas.Ref]*row
	order                         []*row // in the order of their first records
	figures                       map[counter]*amount
}

// row is an action that a batch has records of: as the file has it, nil if the batch begins with its
// acceptance, and as it becomes.
type row struct{ was, now *action }

// apply stores the records of a partition after one sequence, and the place that they lead to. If
// another process has read on in the same file, it does nothing.
func (s *store) apply(ctx context.Context, partition int, from uint64, to position, records []schemas.Record) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, moveTo, partition, to.seq, to.stamp, from)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		b := &batchWriter{rows: map[schemas.Ref]*row{}, figures: map[counter]*amount{}}
		insert := "INSERT INTO action VALUES (?" + strings.Repeat(", ?", len(new(action).fields())-1) + ") ON CONFLICT DO NOTHING"
		for query, into := range map[string]**sql.Stmt{findAction: &b.find, dropAction: &b.drop, insert: &b.insert, readSpread: &b.read, addFigure: &b.add} {
			if *into, err = tx.PrepareContext(ctx, query); err != nil {
				return err
			}
		}
		return b.write(ctx, partition, records)
	})
}

// write stores a batch. Most actions end in the batch that they begin in, and are written once.
func (b *batchWriter) write(ctx context.Context, partition int, records []schemas.Record) error {
	for _, rec := range records {
		ref, section, err := schemas.ParseSubject(rec.Subject)
		if err != nil {
			continue // it belongs to no action
		}
		if section == schemas.SectionAccepted {
			a := readAccepted(ref, rec, partition)
			b.hold(ref, &row{now: &a})
			b.flow(&a, a.at)
			continue
		}
		r, err := b.row(ctx, ref)
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		before := r.now.outcome
		if r.now.fold(rec); r.now.outcome != before {
			b.flow(r.now, r.now.settled)
		}
	}
	for _, r := range b.order {
		if r.was != nil && *r.was == *r.now {
			continue
		}
		if err := b.put(ctx, r.was, r.now); err != nil {
			return err
		}
	}
	return b.writeFigures(ctx)
}

// row is the row of an action that was accepted before; nil: the log has dropped its acceptance.
func (b *batchWriter) row(ctx context.Context, ref schemas.Ref) (*row, error) {
	if r, ok := b.rows[ref]; ok {
		return r, nil
	}
	was, err := b.stored(ctx, ref.Tenant, ref.ID)
	if err != nil || was == nil || was.Kind != ref.Kind {
		b.rows[ref] = nil
		return nil, err
	}
	now := *was
	return b.hold(ref, &row{was, &now}), nil
}

func (b *batchWriter) hold(ref schemas.Ref, r *row) *row {
	b.rows[ref] = r
	b.order = append(b.order, r)
	return r
}

// stored is an action as the file has it; nil: it has none.
func (b *batchWriter) stored(ctx context.Context, tenant, id string) (*action, error) {
	a := &action{}
	err := b.find.QueryRowContext(ctx, tenant, id).Scan(a.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // as documented
	}
	return a, err
}

// put replaces what the file has of an action, if anything, and counts it by what it has become.
func (b *batchWriter) put(ctx context.Context, was, now *action) error {
	if was != nil {
		if _, err := b.drop.ExecContext(ctx, was.at); err != nil {
			return err
		}
		b.tally(was, -1)
	}
	res, err := b.insert.ExecContext(ctx, now.fields()...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil {
		return err
	} else if n > 0 {
		b.tally(now, 1)
		return nil
	}
	// Either another was accepted in the same nanosecond, or the id was used before, by an
	// action that the log has dropped.
	old, err := b.stored(ctx, now.Tenant, now.ID)
	if err != nil {
		return err
	}
	if old == nil {
		now.at++
	}
	return b.put(ctx, old, now)
}

func (b *batchWriter) amount(of counter) *amount {
	if b.figures[of] == nil {
		b.figures[of] = &amount{}
	}
	return b.figures[of]
}

// tally counts an action by what it is.
func (b *batchWriter) tally(a *action, n int64) {
	b.amount(counter{
		0, a.at / int64(tallySlot), a.Tenant, string(a.Kind), a.Agent, a.Entry, string(a.Code), a.outcome,
	}).n += n
}

// flow counts an action when it was accepted or, with its latency, when it ended.
func (b *batchWriter) flow(a *action, at int64) {
	class := classOf(time.Duration(a.settled - a.at))
	for _, l := range levels {
		to := b.amount(counter{
			level: int64(l), slot: at / int64(l), tenant: a.Tenant, kind: string(a.Kind), entry: a.Entry, status: a.outcome,
		})
		to.n++
		if a.outcome != "" {
			to.spread.add(class, 1)
		}
	}
}

func (b *batchWriter) writeFigures(ctx context.Context) error {
	for k, v := range b.figures {
		key := []any{k.level, k.slot, k.tenant, k.kind, k.agent, k.entry, k.code, k.status}
		if v.n == 0 {
			continue
		}
		var packed []byte
		if v.spread != nil {
			if err := b.read.QueryRowContext(ctx, key...).Scan(&packed); err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			v.spread.unpack(packed)
			packed = v.spread.pack()
		}
		if _, err := b.add.ExecContext(ctx, append(key, v.n, packed)...); err != nil {
			return err
		}
	}
	return nil
}

// prune removes what the log has dropped of a partition: first is its oldest record.
func (x *Index) prune(ctx context.Context, s *store, p *partition, first uint64) error {
	oldest, err := x.log.Next(ctx, p.stream, every, first)
	if err != nil {
		return nil //nolint:nilerr // nothing is left, or the next time will tell
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
INSERT INTO figure (level, slot, tenant, kind, agent, entry, code, status, n)
SELECT 0, at / ?3, tenant, kind, agent, entry, code, status, -count(*) FROM action WHERE part = ?1 AND at < ?2 GROUP BY 2, 3, 4, 5, 6, 7, 8
ON CONFLICT DO UPDATE SET n = n + excluded.n;
DELETE FROM action WHERE part = ?1 AND at < ?2;
DELETE FROM figure WHERE level = 0 AND n = 0;
DELETE FROM figure WHERE level > 0 AND slot < (SELECT ifnull(min(at), ?2) FROM action) / level`,
			p.number, oldest.Time.UnixNano(), int64(tallySlot))
		return err
	})
}
