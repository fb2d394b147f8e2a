package index

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"math"
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

// batchWriter writes one batch.
type batchWriter struct {
	tx                              *sql.Tx
	find, insert, update, read, add *sql.Stmt // which end with the transaction
	rows                            map[schemas.Ref]*row
	order                           []*row // in the order of their first records
	figures                         map[counter]*amount
}

// row is an action that a batch has records of: as the file has it, and as it becomes.
type row struct {
	was, now action // was has no key if the batch begins with its acceptance
}

// errMoved says that another process has read on in the same file.
var errMoved = errors.New("another process has read on in the same file")

const moveTo = `INSERT INTO place (partition, seq, stamp_seq, stamp) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET seq = excluded.seq, stamp_seq = excluded.stamp_seq, stamp = excluded.stamp WHERE seq <= ?`

// apply stores the records of a partition after one sequence, and the place that they lead to.
func (s *store) apply(ctx context.Context, partition int, from uint64, to position, records []schemas.Record) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, moveTo, partition, to.seq, to.stampSeq, to.stamp, from)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errMoved)
		}
		b := &batchWriter{tx: tx, rows: map[schemas.Ref]*row{}, figures: map[counter]*amount{}}
		for query, into := range map[string]**sql.Stmt{
			findAction: &b.find, insertAction: &b.insert, updateAction: &b.update, readSpread: &b.read, addFigure: &b.add,
		} {
			if *into, err = tx.PrepareContext(ctx, query); err != nil {
				return err
			}
		}
		return b.write(ctx, partition, records)
	})
}

const (
	findAction   = "SELECT " + columns + " FROM action WHERE tenant = ? AND id = ?"
	deleteAction = "DELETE FROM action WHERE tenant = ? AND id = ? RETURNING " + columns
)

// These too are constants.
var (
	insertAction = "INSERT INTO action (" + columns + ") VALUES (" + marks(columns) + ") ON CONFLICT DO NOTHING" //nolint:gochecknoglobals // as above
	updateAction = "UPDATE action SET (" + changing + ") = (" + marks(changing) + ") WHERE at = ?"               //nolint:gochecknoglobals // as above
)

// marks are as many parameters as there are columns.
func marks(columns string) string { return "?" + strings.Repeat(", ?", strings.Count(columns, ",")) }

// write stores a batch. Most actions end in the batch that they begin in, and are written once.
func (b *batchWriter) write(ctx context.Context, partition int, records []schemas.Record) error {
	for _, rec := range records {
		ref, section, err := schemas.ParseSubject(rec.Subject)
		if err != nil {
			continue
		}
		if section == schemas.SectionAccepted {
			b.hold(ref, &row{now: readAccepted(ref, rec, partition)})
			continue
		}
		r, err := b.row(ctx, ref)
		if err != nil {
			return err
		}
		if r != nil {
			r.now.fold(rec)
		}
	}
	for _, r := range b.order {
		if err := b.store(ctx, r); err != nil {
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
	var was action
	err := b.find.QueryRowContext(ctx, ref.Tenant, ref.ID).Scan(was.fields()...)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && was.ref.Kind != ref.Kind:
		b.rows[ref] = nil
		return nil, nil //nolint:nilnil // as documented
	case err != nil:
		return nil, err
	}
	return b.hold(ref, &row{was: was, now: was}), nil
}

func (b *batchWriter) hold(ref schemas.Ref, r *row) *row {
	b.rows[ref] = r
	b.order = append(b.order, r)
	return r
}

// store writes a row, and counts its action by what it has become.
func (b *batchWriter) store(ctx context.Context, r *row) error {
	a := &r.now
	switch {
	case r.was.at == 0:
		if err := b.accept(ctx, a); err != nil {
			return err
		}
	case r.now == r.was:
		return nil
	default:
		if _, err := b.update.ExecContext(ctx, append(a.fields()[fixed:], a.at)...); err != nil {
			return err
		}
		b.tally(&r.was, -1)
	}
	b.tally(a, 1)
	if a.status != r.was.status {
		b.ended(a)
	}
	return nil
}

// accept adds a new action.
func (b *batchWriter) accept(ctx context.Context, a *action) error {
	for {
		res, err := b.insert.ExecContext(ctx, a.fields()...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n > 0 {
			break
		}
		// Either another was accepted in the same nanosecond, or the id was used before, by an
		// action that the log has dropped.
		var old action
		switch err := b.tx.QueryRowContext(ctx, deleteAction, a.ref.Tenant, a.ref.ID).Scan(old.fields()...); {
		case err == nil:
			b.tally(&old, -1)
		case errors.Is(err, sql.ErrNoRows):
			a.at++
		default:
			return err
		}
	}
	for _, l := range levels {
		b.amount(counter{level: int64(l), slot: a.at / int64(l), tenant: a.ref.Tenant, kind: string(a.ref.Kind)}).n++
	}
	return nil
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
		slot: a.at / int64(tallySlot), tenant: a.ref.Tenant, kind: string(a.ref.Kind), agent: a.agent,
		entry: a.entry, code: a.code, status: a.status,
	}).n += n
}

// ended counts an action when it ended, with its latency.
func (b *batchWriter) ended(a *action) {
	class := classOf(time.Duration(a.settled - a.at))
	for _, l := range levels {
		to := b.amount(counter{
			level: int64(l), slot: a.settled / int64(l), tenant: a.ref.Tenant, kind: string(a.ref.Kind), entry: a.entry, status: a.status,
		})
		to.n++
		to.spread.add(class, 1)
	}
}

const (
	readSpread = `SELECT spread FROM figure
WHERE level = ? AND slot = ? AND tenant = ? AND kind = ? AND agent = ? AND entry = ? AND code = ? AND status = ?`
	addFigure = `INSERT INTO figure (level, slot, tenant, kind, agent, entry, code, status, n, spread)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET n = n + excluded.n, spread = excluded.spread`
)

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

// spread counts latencies by their length: class c has those of about grow^c microseconds, so
// that a quantile is right to about five in a hundred.
type spread []uint64

// grow is the ratio of one class to the one before.
const grow = 1.1

// classOf is the class of a latency. One below a microsecond counts as one.
func classOf(d time.Duration) int {
	us := float64(max(d, time.Microsecond)) / float64(time.Microsecond)
	return int(math.Round(math.Log(us) / math.Log(grow)))
}

func (s *spread) add(class int, n uint64) {
	if short := class + 1 - len(*s); short > 0 {
		*s = append(*s, make([]uint64, short)...)
	}
	(*s)[class] += n
}

// quantile is the latency, in milliseconds, that a share q of all stay below; nil of none.
func (s *spread) quantile(q float64) *float64 {
	var all uint64
	for _, n := range *s {
		all += n
	}
	rank := max(uint64(math.Ceil(q*float64(all))), 1)
	for class, n := range *s {
		if rank <= n {
			ms := round(math.Pow(grow, float64(class))/1000, 3)
			return &ms
		}
		rank -= n
	}
	return nil
}

// round keeps so many digits of a number.
func round(v float64, digits int) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	scale := math.Pow(10, float64(digits)-math.Ceil(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// pack is a spread as it is stored.
func (s *spread) pack() (b []byte) {
	for _, n := range *s {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// unpack adds a stored spread.
func (s *spread) unpack(b []byte) {
	for class := 0; len(b) > 0; class++ {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return
		}
		s.add(class, n)
		b = b[size:]
	}
}
