// Package ledger is the action log's logic, over any store with guarded appends and reads by
// subject: the claim of an id, the fence that admits one writer, and the fold of events into a
// state.
package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/fault"
	"weir/internal/retry"
	"weir/schemas"
)

// Log is what the ledger needs of the broker.
type Log interface {
	// Append stores one message and returns its sequence. It returns fault.ErrFenced if the guard
	// does not hold, and fault.ErrUnavailable if the outcome is unknown.
	Append(ctx context.Context, m schemas.Append) (uint64, error)
	// Last returns the newest message under filter, or fault.ErrNotFound. It may miss the newest
	// writes, but fault.ErrNotFound is certain.
	Last(ctx context.Context, stream, filter string) (schemas.Record, error)
	// Newest is Last that is not late.
	Newest(ctx context.Context, stream, filter string) (schemas.Record, error)
	// Page returns up to limit messages under filter with a sequence of at least from, oldest
	// first, and none after the one that makes them as large as size. more reports that there are
	// others. It may miss the newest writes, and a later call may miss more.
	Page(ctx context.Context, stream, filter string, from uint64, limit, size int) (records []schemas.Record, more bool, err error)
	// Bounds returns the sequences of the oldest and the newest message of a stream.
	Bounds(ctx context.Context, stream string) (first, last uint64, err error)
	// PutBlob stores a large body under its hash; a repeat stores nothing.
	PutBlob(ctx context.Context, tenant string, data []byte) (string, error)
	// GetBlob returns what PutBlob stored, or fault.ErrNotFound.
	GetBlob(ctx context.Context, name string) ([]byte, error)
	// Accepting returns fault.ErrFull while new actions are refused; events and bodies of accepted
	// ones are still stored.
	Accepting() error
}

// Ledger reads and writes actions. It is safe for concurrent use.
type Ledger struct {
	log    Log
	layout schemas.Layout
	now    func() time.Time
	recent *recent
}

// New returns a ledger over log. A nil clock is time.Now.
func New(log Log, layout schemas.Layout, now func() time.Time) *Ledger {
	if now == nil {
		now = time.Now
	}
	return &Ledger{log: log, layout: layout, now: now, recent: &recent{states: map[schemas.Ref]*State{}}}
}

// Layout is how the log is cut.
func (l *Ledger) Layout() schemas.Layout { return l.layout }

// Claim writes the accepted event: in one write the id is ours and the work is queued. When the id
// exists with the same fingerprint, Claim returns that action's state, as Existing does, and duplicate;
// with another fingerprint, fault.ErrConflict. A write whose acknowledgement was lost is settled by
// reading the log back.
func (l *Ledger) Claim(ctx context.Context, a schemas.Action) (st *State, duplicate bool, err error) {
	if len(a.Payload) > schemas.InlineLimit {
		if full := l.log.Accepting(); full != nil {
			st, duplicate, err = l.attach(ctx, a, false)
			if errors.Is(err, fault.ErrNotFound) {
				err = full
			}
			return st, duplicate, err
		}
		a.Called = CalledIn(a, string(a.Payload))
		if a.PayloadBlob, err = l.log.PutBlob(ctx, a.Tenant, a.Payload); err != nil {
			return nil, false, err
		}
		a.Payload = nil
	}
	st = &State{Ref: schemas.Ref{Tenant: a.Tenant, Kind: a.Kind, ID: a.ID}}
	ev := schemas.Event{V: schemas.EventVersion, N: 1, Type: schemas.EventAccepted, Time: a.AcceptedAt, Action: &a}
	m := schemas.Append{
		Subject: l.layout.Subject(st.Ref, schemas.SectionAccepted), Guarded: true, Guard: l.layout.AnyKind(a.Tenant, a.ID),
		TraceParent: a.TraceParent, Urgent: a.Priority == schemas.PriorityHigh,
	}
	if m.Data, err = Encode(&ev); err != nil {
		return nil, false, err
	}
	ours := false // a copy may be stored, or on its way
	for n, pause := 1, firstPause; ; n, pause = n+1, 2*pause {
		seq, err := l.log.Append(ctx, m)
		full := errors.Is(err, fault.ErrFull)
		switch {
		case err == nil:
			st.apply(schemas.Record{Seq: seq, Time: ev.Time}, ev)
			return st, false, nil
		case errors.Is(err, fault.ErrUnavailable):
			ours = true
		case !full && !errors.Is(err, fault.ErrFenced):
			return nil, false, err
		}
		found, duplicate, missing := l.attach(ctx, a, ours)
		switch {
		case !errors.Is(missing, fault.ErrNotFound):
			return found, duplicate, missing
		case full && !ours:
			return nil, false, err // a full log refuses new actions, and knows the old ones
		case full || n == writes || !retry.Pause(ctx, pause):
			return nil, false, fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
		}
	}
}

// Append writes the next event of st's action and folds it in. It sets the event's version, ordinal
// and, if zero, time. fault.ErrFenced means that another writer was first: load again before
// deciding anything.
func (l *Ledger) Append(ctx context.Context, st *State, ev schemas.Event) error {
	if h := st.held; h != nil && ev.Type == schemas.EventSettled {
		ev.Attempted = h.ev.Attempted
		if a := ev.Attempted.Answer; a != nil && a == ev.Settled.Answer {
			brief := *ev.Attempted
			brief.Answer, brief.InResult = &schemas.Answer{Status: a.Status, Hash: a.Hash, JSON: a.JSON}, true
			ev.Attempted = &brief
		}
		return h.flight(ctx, st, ev)
	}
	if err := st.Flush(ctx); err != nil {
		return err
	}
	return l.write(ctx, st, ev)
}

// write is Append without a held result.
func (l *Ledger) write(ctx context.Context, st *State, ev schemas.Event) error {
	ev.V, ev.N = schemas.EventVersion, st.N+1
	if ev.Time.IsZero() {
		ev.Time = l.now().UTC()
	}
	if s := ev.Settled; s != nil && s.Entry == "" && len(st.Attempts) > 0 {
		end := *s
		end.Entry = st.Attempts[len(st.Attempts)-1].LastWord().Entry
		ev.Settled = &end
	}
	data, err := Encode(&ev)
	if err != nil {
		return err
	}
	m := schemas.Append{
		Subject: l.layout.Subject(st.Ref, schemas.SectionOf(ev.Type)), Data: data,
		Guarded: true, Guard: l.layout.All(st.Ref), Last: st.Seq,
	}
	seq, err := l.log.Append(ctx, m)
	if err != nil {
		seq, err = l.insist(ctx, st, &ev, m, err)
	}
	if err != nil {
		return err
	}
	st.apply(schemas.Record{Seq: seq, Time: ev.Time}, ev)
	return nil
}

// Notify wakes an action's worker now. A pending wake-up stays.
func (l *Ledger) Notify(ctx context.Context, ref schemas.Ref) error {
	_, err := l.log.Append(ctx, schemas.Append{Subject: l.layout.Subject(ref, schemas.SectionWake)})
	return err
}

// Requeue queues an action again that has not started. It does not affect a started one.
func (l *Ledger) Requeue(ctx context.Context, ref schemas.Ref) error {
	_, err := l.log.Append(ctx, schemas.Append{Subject: l.layout.Subject(ref, schemas.OverflowOf(ref.Kind))})
	return err
}

// Find loads an action whose kind is unknown, by one look-up with a wildcard.
func (l *Ledger) Find(ctx context.Context, tenant, id string) (*State, error) {
	newest, ref, err := l.newest(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return l.load(ctx, ref, newest.Seq)
}

// Load reads and folds an action's events; none that was stored before the call is missing. An id
// whose first event has been dropped is fault.ErrGone; a record that cannot be decoded marks the
// state as damaged.
func (l *Ledger) Load(ctx context.Context, ref schemas.Ref) (*State, error) {
	newest, err := l.log.Newest(ctx, l.stream(ref), l.layout.All(ref))
	if err != nil {
		return nil, err
	}
	return l.load(ctx, ref, newest.Seq)
}

// load is Load of the events up to one that is known to be there, at least.
func (l *Ledger) load(ctx context.Context, ref schemas.Ref, known uint64) (*State, error) {
	st := l.base(ctx, ref)
	if st.Seq < known {
		if err := l.until(ctx, ref, st.Seq, known, st.fold); err != nil {
			return nil, err
		}
	}
	st, err := st.folded()
	if err == nil {
		l.recent.keep(st)
	}
	return st, err
}

// Replay gives an action's events so far to fn, in order, progress and deltas too; none that was
// stored before the call is missing. What fn returns ends it. A record that cannot be read is
// *fault.Terminal.
func (l *Ledger) Replay(ctx context.Context, ref schemas.Ref, fn func(schemas.Event) error) error {
	newest, err := l.log.Newest(ctx, l.stream(ref), l.layout.All(ref))
	if err != nil {
		return err
	}
	return l.until(ctx, ref, 0, newest.Seq, func(r schemas.Record) error {
		if r.Notifies() {
			return nil
		}
		ev, err := Decode(r.Data)
		if err != nil {
			return err
		}
		return fn(ev)
	})
}

// Dropped reports whether the history has dropped a message of an action. That it is not found says
// less: who has been given it may know more than who is asked.
func (l *Ledger) Dropped(ctx context.Context, ref schemas.Ref, seq uint64) (bool, error) {
	first, _, err := l.log.Bounds(ctx, l.stream(ref))
	return err == nil && seq < first, err
}

func (l *Ledger) stream(ref schemas.Ref) string {
	return schemas.LogStream(l.layout.Partition(ref.Tenant, ref.ID))
}

const (
	// The first page of a read is small, and later ones grow: the log counts the remaining messages
	// for each page. pageSize bounds a page in bytes, because an action may have a hundred thousand
	// messages.
	firstPage  = 256
	growth     = 4
	widestPage = 16384
	pageSize   = 4 << 20
	// A replica that lags is asked again after catchUp, up to patience times in a row. Records
	// still missing after that may have been dropped.
	catchUp  = 10 * time.Millisecond
	patience = 200
)

// until calls fn for the action's messages after a sequence, in order. It goes on until it has
// shown a message that is known to be stored; messages after that one may be missing.
func (l *Ledger) until(ctx context.Context, ref schemas.Ref, after, known uint64, fn func(schemas.Record) error) error {
	for limit, late := firstPage, 0; ; {
		page, more, err := l.log.Page(ctx, l.stream(ref), l.layout.All(ref), after+1, limit, pageSize)
		if err != nil {
			return err
		}
		for _, r := range page {
			after = r.Seq
			if err := fn(r); err != nil {
				return err
			}
		}
		switch {
		case more && len(page) > 0:
			limit = min(limit*growth, widestPage)
		case after >= known:
			return nil
		case late == patience || !retry.Pause(ctx, catchUp):
			return fmt.Errorf("%w: it does not show what it is known to hold", fault.ErrUnavailable)
		default:
			limit, late = firstPage, late+1
		}
	}
}

// Blob returns inline where it is set, else the object that name names.
func (l *Ledger) Blob(ctx context.Context, inline json.RawMessage, name string) (json.RawMessage, error) {
	if name == "" {
		return inline, nil
	}
	return l.log.GetBlob(ctx, name)
}

// Result is the whole document of an end.
func (l *Ledger) Result(ctx context.Context, s *schemas.Settled) (doc json.RawMessage, err error) {
	doc, err = l.Blob(ctx, s.Result, s.ResultBlob)
	if err != nil || s.AnswerBlob == "" {
		return doc, err
	}
	answer, err := l.log.GetBlob(ctx, s.AnswerBlob)
	if err != nil {
		return nil, err
	}
	rest := doc[1:] // of an object that Encode made, without the member
	if !bytes.Equal(rest, []byte("}")) {
		rest = append([]byte(","), rest...)
	}
	return slices.Concat([]byte(`{"answer":`), answer, rest), nil
}

// PutBlob keeps a document inline, or stores it as a blob if it is over schemas.InlineLimit and returns
// its name instead. It counts for the tenant.
func (l *Ledger) PutBlob(ctx context.Context, tenant string, doc json.RawMessage) (json.RawMessage, string, error) {
	if len(doc) <= schemas.InlineLimit {
		return doc, "", nil
	}
	name, err := l.log.PutBlob(ctx, tenant, doc)
	return nil, name, err
}
