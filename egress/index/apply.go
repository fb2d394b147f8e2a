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
	takeAction = "DELETE FROM action WHERE tenant = ? AND id = ? RETURNING *"
	moveTo     = `INSERT INTO place (partition, seq, stamp) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET seq = excluded.seq, stamp = excluded.stamp WHERE seq <= ?`
	readSpread = `SELECT spread FROM figure
WHERE level = ? AND slot = ? AND tenant = ? AND kind = ? AND agent = ? AND entry = ? AND code = ? AND status = ?`
	addFigure = `INSERT INTO figure VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET n = n + excluded.n, spread = excluded.spread`
)

// batchWriter writes one batch.
type batchWriter struct {
	find, remove, insert, read, add *sql.Stmt               // which end with the transaction
	rows                            map[schemas.Ref]*action // nil: the log has dropped its acceptance
	order                           []*action               // the rows, in the order of their first records
	was                             map[*action]action      // those that the file has, as they are there
	figures                         map[counter]*amount
}

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
		b := &batchWriter{rows: map[schemas.Ref]*action{}, was: map[*action]action{}, figures: map[counter]*amount{}}
		insert := "INSERT INTO action VALUES (?" + strings.Repeat(", ?", len(new(action).fields())-1) + ") ON CONFLICT DO NOTHING"
		for query, into := range map[string]**sql.Stmt{findAction: &b.find, takeAction: &b.remove, insert: &b.insert, readSpread: &b.read, addFigure: &b.add} {
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
			b.hold(ref, &a)
			b.flow(&a, a.at)
			continue
		}
		a, known := b.rows[ref]
		if !known {
			if a, err = scanned(b.find.QueryRowContext(ctx, ref.Tenant, ref.ID)); err != nil {
				return err
			}
			if a != nil && a.Kind != ref.Kind { // an earlier one of this id, which the log has dropped
				a = nil
			}
			if b.hold(ref, a); a != nil {
				b.was[a] = *a
			}
		}
		if a == nil {
			continue
		}
		before := a.outcome
		if a.fold(rec); a.outcome != before {
			b.flow(a, a.settled)
		}
	}
	for _, a := range b.order {
		if was, stored := b.was[a]; stored {
			if was == *a {
				continue
			}
			if _, err := b.take(ctx, a.Tenant, a.ID); err != nil {
				return err
			}
		}
		if err := b.put(ctx, a); err != nil {
			return err
		}
	}
	return b.writeFigures(ctx)
}

func (b *batchWriter) hold(ref schemas.Ref, a *action) {
	if b.rows[ref] = a; a != nil {
		b.order = append(b.order, a)
	}
}

// take removes an action from the file, and from what is counted; nil: the file does not have it.
func (b *batchWriter) take(ctx context.Context, tenant, id string) (*action, error) {
	a, err := scanned(b.remove.QueryRowContext(ctx, tenant, id))
	if a != nil {
		b.tally(a, -1)
	}
	return a, err
}

// scanned is a row of the file; nil: there is none.
func scanned(row *sql.Row) (*action, error) {
	a := &action{}
	err := row.Scan(a.fields()...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil //nolint:nilnil // as documented
	case err != nil:
		return nil, err
	}
	return a, nil
}

// put adds an action to the file, and counts it.
func (b *batchWriter) put(ctx context.Context, a *action) error {
	for {
		res, err := b.insert.ExecContext(ctx, a.fields()...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n > 0 {
			b.tally(a, 1)
			return nil
		}
		// Either another was accepted in the same nanosecond, or the id was used before, by an
		// action that the log has dropped.
		if old, err := b.take(ctx, a.Tenant, a.ID); err != nil {
			return err
		} else if old == nil {
			a.at++
		}
	}
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
