package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"weir/schemas"
)

const (
	findAction   = "SELECT * FROM action WHERE tenant = ? AND id = ?"
	insertAction = "INSERT INTO action VALUES (%s) ON CONFLICT (at) DO NOTHING"
	moveTo       = `INSERT INTO place (partition, seq, stamp_seq, stamp) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET seq = excluded.seq, stamp_seq = excluded.stamp_seq, stamp = excluded.stamp WHERE seq <= ?`

	// tally adds to table figure, so many times, what the actions with some keys count for.
	tally = `INSERT INTO figure SELECT level, slot, tenant, kind, agent, entry, code, status, class, %d * count(*) FROM share
WHERE at IN (%s) GROUP BY level, slot, tenant, kind, agent, entry, code, status, class ON CONFLICT DO UPDATE SET n = n + excluded.n;`
	given = "SELECT value FROM json_each(?1)"
	stale = "SELECT at FROM action WHERE part = ?1 AND at < ?2"
)

// name is that of an action: a later one of another kind may have it, after the log has dropped the first.
type name struct{ tenant, id string }

// batchWriter writes one batch in a transaction.
type batchWriter struct {
	find  *sql.Stmt        // which ends with the transaction
	rows  map[name]*action // nil: the log has dropped its acceptance
	order []name           // of their first records
	was   []int64          // the keys of the rows that they replace
}

// apply stores the records of a partition after one sequence, and the place that they lead to. If
// another process has read on in the same file, it does nothing.
func (s *store) apply(ctx context.Context, partition int, from uint64, to position, records []schemas.Record) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, moveTo, partition, to.seq, to.stampSeq, to.stamp, from)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		b := &batchWriter{rows: map[name]*action{}}
		if b.find, err = tx.PrepareContext(ctx, findAction); err != nil {
			return err
		}
		for _, rec := range records {
			if err := b.fold(ctx, rec, partition); err != nil {
				return err
			}
		}
		return b.write(ctx, tx)
	})
}

// fold adds a record to its action.
func (b *batchWriter) fold(ctx context.Context, rec schemas.Record, partition int) error {
	ref, section, err := schemas.ParseSubject(rec.Subject)
	if err != nil {
		return nil //nolint:nilerr // it belongs to no action
	}
	of := name{ref.Tenant, ref.ID}
	if _, known := b.rows[of]; !known {
		b.order = append(b.order, of)
		var was action
		switch err := b.find.QueryRowContext(ctx, of.tenant, of.id).Scan(was.fields()...); {
		case err == nil:
			b.was, b.rows[of] = append(b.was, was.at), &was
		case errors.Is(err, sql.ErrNoRows):
			b.rows[of] = nil
		default:
			return err
		}
	}
	if section == schemas.SectionAccepted {
		b.rows[of] = readAccepted(ref, rec, partition)
	} else if a := b.rows[of]; a != nil && a.Kind == ref.Kind {
		a.fold(rec)
	}
	return nil
}

// write replaces the rows, and what table figure counts of them.
func (b *batchWriter) write(ctx context.Context, tx *sql.Tx) error {
	if err := b.tally(ctx, tx, -1, b.was, "DELETE FROM action WHERE at IN ("+given+")"); err != nil {
		return err
	}
	marks := strings.Repeat(", ?", len((&action{}).fields()))[2:]
	insert, err := tx.PrepareContext(ctx, fmt.Sprintf(insertAction, marks))
	if err != nil {
		return err
	}
	var now []int64
	for _, of := range b.order {
		a := b.rows[of]
		if a == nil {
			continue
		}
		for {
			res, err := insert.ExecContext(ctx, a.fields()...)
			if err != nil {
				return err
			}
			if n, err := res.RowsAffected(); err != nil {
				return err
			} else if n > 0 {
				break
			}
			a.at++ // another was accepted in the same nanosecond
		}
		now = append(now, a.at)
	}
	return b.tally(ctx, tx, 1, now, "")
}

func (b *batchWriter) tally(ctx context.Context, tx *sql.Tx, times int, keys []int64, then string) error {
	list, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(tally, times, given)+then, string(list))
	return err
}

// prune removes what the log has dropped of a partition: first is its oldest record.
func (x *Index) prune(ctx context.Context, s *store, p *partition, first uint64) error {
	oldest, err := x.log.Next(ctx, p.stream, every, first)
	if err != nil {
		return nil //nolint:nilerr // nothing is left, or the next time will tell
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf(tally, -1, stale)+`
DELETE FROM action WHERE part = ?1 AND at < ?2;
DELETE FROM figure WHERE n = 0`, p.number, oldest.Time.UnixNano())
		return err
	})
}
