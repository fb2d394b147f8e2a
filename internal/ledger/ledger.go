// Package ledger is the action log's own logic, over any store that can append
// under a guard and read by subject: the claim that makes an id ours, the fence
// that lets one writer append, and the fold that turns events into state.
package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// Log is what the ledger needs of the broker.
type Log interface {
	// Append stores one message and returns its sequence. A guard that does
	// not hold is fault.ErrFenced; fault.ErrUnavailable says that whether it
	// was stored is unknown.
	Append(ctx context.Context, m schemas.Append) (uint64, error)
	// Last returns the newest message under filter, or fault.ErrNotFound.
	Last(ctx context.Context, stream, filter string) (schemas.Record, error)
	// Page returns messages under filter with a sequence of at least from, oldest
	// first: up to limit of them, and none behind the one that makes them as large
	// as size. more says that there are others.
	Page(ctx context.Context, stream, filter string, from uint64, limit, size int) (records []schemas.Record, more bool, err error)
	// PutBlob stores a large body under its hash; a repeat stores nothing.
	PutBlob(ctx context.Context, data []byte) (string, error)
	// GetBlob returns what PutBlob stored, or fault.ErrNotFound.
	GetBlob(ctx context.Context, name string) ([]byte, error)
	// Accepting is fault.ErrFull while new actions are refused; the events and
	// bodies of those that were accepted are stored all the same.
	Accepting() error
}

// Ledger reads and writes actions. It is safe for concurrent use.
type Ledger struct {
	log    Log
	layout schemas.Layout
	now    func() time.Time
}

// New returns a ledger over log. A nil clock is time.Now.
func New(log Log, layout schemas.Layout, now func() time.Time) *Ledger {
	if now == nil {
		now = time.Now
	}
	return &Ledger{log: log, layout: layout, now: now}
}

// Layout is how the log is cut.
func (l *Ledger) Layout() schemas.Layout { return l.layout }

// Claim writes the accepted event: in one write the id is ours and the work is
// queued. When the id exists with the same fingerprint, Claim returns that
// action's state, as Join does, and duplicate; with another fingerprint, fault.ErrConflict.
// An append whose acknowledgement was lost is settled by reading the log back.
func (l *Ledger) Claim(ctx context.Context, a schemas.Action) (st *State, duplicate bool, err error) {
	if len(a.Payload) > schemas.InlineLimit {
		if full := l.log.Accepting(); full != nil {
			return l.attach(ctx, a, full)
		}
		if a.PayloadBlob, err = l.log.PutBlob(ctx, a.Payload); err != nil {
			return nil, false, err
		}
		a.Payload = nil
	}
	st = &State{Ref: schemas.Ref{Tenant: a.Tenant, Kind: a.Kind, ID: a.ID}}
	ev := schemas.Event{V: schemas.EventVersion, N: 1, Type: schemas.EventAccepted, Time: a.AcceptedAt, Action: &a}
	data, err := Encode(ev)
	if err != nil {
		return nil, false, err
	}
	seq, err := l.log.Append(ctx, schemas.Append{
		Subject: l.layout.Subject(st.Ref, schemas.TailAccepted), Data: data,
		Guarded: true, Guard: l.layout.AnyKind(a.Tenant, a.ID),
	})
	switch {
	case err == nil:
		st.apply(schemas.Record{Seq: seq, Time: ev.Time}, ev)
		return st, false, nil
	case errors.Is(err, fault.ErrFenced), errors.Is(err, fault.ErrUnavailable), errors.Is(err, fault.ErrFull):
		return l.attach(ctx, a, err)
	default:
		return nil, false, err
	}
}

// Append writes the next event of st's action and folds it in. It sets the
// event's version, ordinal and, if zero, time. fault.ErrFenced means that
// somebody else wrote first: load again before deciding anything.
func (l *Ledger) Append(ctx context.Context, st *State, ev schemas.Event) error {
	ev.V, ev.N = schemas.EventVersion, st.N+1
	if ev.Time.IsZero() {
		ev.Time = l.now().UTC()
	}
	data, err := Encode(ev)
	if err != nil {
		return err
	}
	m := schemas.Append{
		Subject: l.layout.Subject(st.Ref, schemas.TailOf(ev.Type)), Data: data,
		Guarded: true, Guard: l.layout.All(st.Ref), Last: st.Seq,
	}
	seq, err := l.log.Append(ctx, m)
	switch {
	case errors.Is(err, fault.ErrUnavailable), errors.Is(err, fault.ErrFenced):
		seq, err = l.reconcile(ctx, st, &ev, m, err)
	}
	if err != nil {
		return err
	}
	st.apply(schemas.Record{Seq: seq, Time: ev.Time}, ev)
	return nil
}

// Nudge has an action's worker look at it at once, beside the wake-up that may be
// pending.
func (l *Ledger) Nudge(ctx context.Context, ref schemas.Ref) error {
	_, err := l.log.Append(ctx, schemas.Append{Subject: l.layout.Subject(ref, schemas.TailWake)})
	return err
}

// reconcile reads the log back after an append that was refused or not
// acknowledged. The event may be there already (its acknowledgement was lost),
// or nothing may have come in between that the event could not follow, in which
// case the fence is moved and the event written again.
func (l *Ledger) reconcile(ctx context.Context, st *State, ev *schemas.Event, m schemas.Append, cause error) (uint64, error) {
	var newer []schemas.Record
	err := l.each(ctx, st.Ref, st.Seq, func(r schemas.Record) error {
		newer = append(newer, r)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", cause, err)
	}
	for _, r := range newer {
		if string(r.Data) == string(m.Data) && r.Subject == m.Subject {
			return r.Seq, nil
		}
		if !l.yields(st, r, ev.Type) {
			return 0, fault.ErrFenced
		}
		ev.N = st.N + 1
		if m.Data, err = Encode(ev); err != nil {
			return 0, err
		}
	}
	if len(newer) == 0 && errors.Is(cause, fault.ErrFenced) {
		return 0, fault.ErrFenced // the history below the fence was dropped
	}
	m.Last = st.Seq
	seq, err := l.log.Append(ctx, m)
	if err != nil {
		return 0, fmt.Errorf("event %d: %w", ev.N, err)
	}
	return seq, nil
}

// yields folds in a message that came between a state and its next event, if the
// event may stand after it all the same. A wake says nothing. A request to
// cancel does not unmake what a call brought, so that, its result and the action's
// end still stand; but nothing new is begun after it by a writer who has not seen it.
func (l *Ledger) yields(st *State, r schemas.Record, next schemas.EventType) bool {
	_, tail, err := schemas.ParseSubject(r.Subject)
	if err != nil {
		return false
	}
	if tail == schemas.TailWake {
		st.Seq = r.Seq
		return true
	}
	between, err := Decode(r.Data)
	if err != nil || between.Type != schemas.EventCancel {
		return false
	}
	st.apply(r, between)
	switch next {
	case schemas.EventAttempted, schemas.EventSettled, schemas.EventProgress, schemas.EventDelta:
		return true
	default:
		return false
	}
}

// Find loads an action whose kind is unknown, by one look-up with a wildcard.
func (l *Ledger) Find(ctx context.Context, tenant, id string) (*State, error) {
	_, ref, err := l.newest(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return l.Load(ctx, ref)
}

// Load reads and folds an action's events. An id whose first event has been
// dropped is fault.ErrGone; a record that cannot be decoded marks the state as damaged.
func (l *Ledger) Load(ctx context.Context, ref schemas.Ref) (*State, error) {
	st, found := &State{Ref: ref}, false
	err := l.each(ctx, ref, 0, func(r schemas.Record) error {
		found = true
		return st.fold(r)
	})
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, fault.ErrNotFound
	default:
		return st.folded()
	}
}

// A read of the log asks for few messages at first, and then for more and more:
// for each read the log counts what is left behind it. A page is of some size at
// most, because there may be a hundred thousand messages and none of them is kept.
const (
	firstPage  = 256
	growth     = 4
	widestPage = 16384
	pageSize   = 4 << 20
)

// each calls fn for the action's messages after a sequence, in order.
func (l *Ledger) each(ctx context.Context, ref schemas.Ref, after uint64, fn func(schemas.Record) error) error {
	stream := schemas.LogStream(l.layout.Partition(ref.Tenant, ref.ID))
	for limit := firstPage; ; limit = min(limit*growth, widestPage) {
		page, more, err := l.log.Page(ctx, stream, l.layout.All(ref), after+1, limit, pageSize)
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := fn(r); err != nil {
				return err
			}
			after = r.Seq
		}
		if !more || len(page) == 0 {
			return nil
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

// Stow keeps a document inline, or puts it aside when it is over
// schemas.InlineLimit and returns its name instead.
func (l *Ledger) Stow(ctx context.Context, doc json.RawMessage) (json.RawMessage, string, error) {
	if len(doc) <= schemas.InlineLimit {
		return doc, "", nil
	}
	name, err := l.log.PutBlob(ctx, doc)
	return nil, name, err
}
