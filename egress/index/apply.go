package index

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"weir/schemas"
)

var errNoRows = sql.ErrNoRows

// loaded is a batch of one partition: what was accepted and what ended behind a
// sequence and up to another.
type loaded struct {
	from, to uint64
	rows     []row
	ends     []end
	stampSeq uint64
	stamp    string
}

// see notes the newest record that was read.
func (b *loaded) see(rec schemas.Record) {
	if rec.Seq > b.stampSeq {
		b.stampSeq, b.stamp = rec.Seq, stampOf(rec)
	}
}

// errMoved says that another process has read on in the same file.
var errMoved = errors.New("the index was gone on with by somebody else")

// store writes a batch and how far it goes.
func (x *Index) store(ctx context.Context, s *store, p *partition, b *loaded) (err error) {
	x.writing.Lock()
	defer x.writing.Unlock()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	w := &writer{tx: tx, words: x.words, tally: map[tallyKey]int64{}, pace: map[paceKey]*paced{}}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the error that counts is there
			clear(x.words)    // some may have been new
			p.known = false
		}
		w.close()
	}()
	var at uint64
	err = tx.QueryRowContext(ctx, "SELECT seq FROM place WHERE partition = ?", p.number).Scan(&at)
	if err != nil && !errors.Is(err, errNoRows) {
		return err
	}
	if at > b.from {
		return errMoved
	}
	if err := w.write(ctx, b); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO place (partition, seq, stamp_seq, stamp) VALUES (?, ?, ?, ?)", p.number, b.to, b.stampSeq, b.stamp)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// writer is one transaction.
type writer struct {
	tx    *sql.Tx
	words map[string]int64
	tally map[tallyKey]int64
	pace  map[paceKey]*paced
	stmts map[string]*sql.Stmt
}

func (w *writer) close() {
	for _, s := range w.stmts {
		_ = s.Close() // the transaction is over
	}
}

// stmt prepares a statement once a transaction.
func (w *writer) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := w.stmts[query]; s != nil {
		return s, nil
	}
	s, err := w.tx.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if w.stmts == nil {
		w.stmts = map[string]*sql.Stmt{}
	}
	w.stmts[query] = s
	return s, nil
}

func (w *writer) exec(ctx context.Context, query string, args ...any) (int64, error) {
	s, err := w.stmt(ctx, query)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// word is the number of a text.
func (w *writer) word(ctx context.Context, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if n, ok := w.words[text]; ok {
		return n, nil
	}
	if _, err := w.exec(ctx, "INSERT INTO word (text) VALUES (?) ON CONFLICT DO NOTHING", text); err != nil {
		return 0, err
	}
	s, err := w.stmt(ctx, "SELECT id FROM word WHERE text = ?")
	if err != nil {
		return 0, err
	}
	var n int64
	if err := s.QueryRowContext(ctx, text).Scan(&n); err != nil {
		return 0, err
	}
	if len(w.words) > mostWords {
		clear(w.words)
	}
	w.words[text] = n
	return n, nil
}

// mostWords bounds what is kept in mind: tenants, entries and agents are few, and who
// makes them up at will must not fill the memory.
const mostWords = 10_000

// statusOf is the number of an outcome.
func statusOf(o schemas.Outcome) int64 { return int64(slices.Index(schemas.Outcomes(), o) + 1) }

// write puts a batch in. Most actions end in the batch that they begin in, and are
// written once.
func (w *writer) write(ctx context.Context, b *loaded) error {
	mine := make(map[schemas.Ref]*row, len(b.rows))
	for i := range b.rows {
		mine[b.rows[i].ref] = &b.rows[i]
	}
	var later []*end
	for i := range b.ends {
		e := &b.ends[i]
		if r := mine[e.ref]; r != nil {
			if r.end == nil {
				r.end = e
			}
			continue
		}
		later = append(later, e)
	}
	for i := range b.rows {
		if err := w.insert(ctx, &b.rows[i]); err != nil {
			return err
		}
	}
	for _, e := range later {
		if err := w.settle(ctx, e); err != nil {
			return err
		}
	}
	if err := w.writeTally(ctx); err != nil {
		return err
	}
	return w.writePace(ctx)
}

const insertAction = `INSERT INTO action (at, tenant, id, kind, task_type, task, class, created, deadline, status, code, entry, settled, attempts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`

// insert writes a new action, with its end if that is known.
func (w *writer) insert(ctx context.Context, r *row) error {
	n, err := w.numbers(ctx, r.ref.Tenant, string(r.ref.Kind), r.taskType, string(r.class))
	if err != nil {
		return err
	}
	tenant, kind, taskType, class := n[0], n[1], n[2], n[3]
	var status, code, entry, settled int64
	var attempts int
	if e := r.end; e != nil {
		n, err := w.numbers(ctx, string(e.code), e.entry)
		if err != nil {
			return err
		}
		status, code, entry, settled, attempts = statusOf(e.outcome), n[0], n[1], e.at, e.attempts
	}
	at := r.at
	for {
		done, err := w.exec(ctx, insertAction, at, tenant, r.ref.ID, kind, taskType, r.task, class, r.created, r.deadline, status, code, entry, settled, attempts)
		if err != nil {
			return err
		}
		if done > 0 {
			break
		}
		// Either another came in the same nanosecond, or the id was used before, by an
		// action that the log has dropped.
		if gone, err := w.drop(ctx, tenant, r.ref.ID); err != nil {
			return err
		} else if !gone {
			at++
		}
	}
	w.tally[tallyKey{slot: slotOf(at, tallySlot), tenant: tenant, kind: kind, taskType: taskType, entry: entry, code: code, status: status}]++
	w.accepted(tenant, kind, at)
	if r.end != nil {
		w.ended(tenant, kind, entry, status, settled, time.Duration(settled-at))
	}
	return nil
}

func (w *writer) numbers(ctx context.Context, texts ...string) ([4]int64, error) {
	var out [4]int64
	for i, t := range texts {
		n, err := w.word(ctx, t)
		if err != nil {
			return out, err
		}
		out[i] = n
	}
	return out, nil
}

// settle ends an action of an earlier batch. One that is not there was dropped by
// the log, and one that has ended has ended.
func (w *writer) settle(ctx context.Context, e *end) error {
	n, err := w.numbers(ctx, e.ref.Tenant, string(e.code), e.entry)
	if err != nil {
		return err
	}
	tenant, code, entry, status := n[0], n[1], n[2], statusOf(e.outcome)
	s, err := w.stmt(ctx, "SELECT at, kind, task_type FROM action WHERE tenant = ? AND id = ? AND status = 0")
	if err != nil {
		return err
	}
	var at, kind, taskType int64
	err = s.QueryRowContext(ctx, tenant, e.ref.ID).Scan(&at, &kind, &taskType)
	if errors.Is(err, errNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = w.exec(ctx, "UPDATE action SET status = ?, code = ?, entry = ?, settled = ?, attempts = ? WHERE at = ?", status, code, entry, e.at, e.attempts, at)
	if err != nil {
		return err
	}
	key := tallyKey{slot: slotOf(at, tallySlot), tenant: tenant, kind: kind, taskType: taskType}
	w.tally[key]--
	key.entry, key.code, key.status = entry, code, status
	w.tally[key]++
	w.ended(tenant, kind, entry, status, e.at, time.Duration(e.at-at))
	return nil
}

// drop takes an action out whose id is another's now.
func (w *writer) drop(ctx context.Context, tenant int64, id string) (bool, error) {
	s, err := w.stmt(ctx, "SELECT at, kind, task_type, entry, code, status FROM action WHERE tenant = ? AND id = ?")
	if err != nil {
		return false, err
	}
	var at int64
	key := tallyKey{tenant: tenant}
	err = s.QueryRowContext(ctx, tenant, id).Scan(&at, &key.kind, &key.taskType, &key.entry, &key.code, &key.status)
	if errors.Is(err, errNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	key.slot = slotOf(at, tallySlot)
	w.tally[key]--
	_, err = w.exec(ctx, "DELETE FROM action WHERE at = ?", at)
	return true, err
}
