package ledger

import (
	"context"
	"errors"

	"weir/internal/fault"
	"weir/schemas"
)

// Existing finds the action that has a's name, and writes nothing. fault.ErrNotFound says that there is
// none, fault.ErrConflict that it is another one. The state has the action, its status and its end,
// and no history: an append to it is fenced.
func (l *Ledger) Existing(ctx context.Context, a schemas.Action) (*State, error) {
	st, err := l.Peek(ctx, a.Tenant, a.ID)
	if err != nil {
		return nil, err
	}
	if st.Action.Fingerprint != a.Fingerprint || st.Kind != a.Kind {
		return nil, fault.ErrConflict
	}
	return st, nil
}

// attach finds what stands under a's id where its claim could not be written; where there is
// nothing, it is fault.ErrNotFound. ours says that a copy of the claim may be stored. AcceptedAt
// tells it from another's: only the writer of the stored event made that very record.
func (l *Ledger) attach(ctx context.Context, a schemas.Action, ours bool) (*State, bool, error) {
	st, err := l.Existing(ctx, a)
	if err == nil && ours && st.Action.AcceptedAt.Equal(a.AcceptedAt) {
		st, err = l.Load(ctx, st.Ref) // our own, and so one to append to
		return st, false, err
	}
	return st, err == nil, err
}

// Peek is Find for an action's current state: its state has the action, its status, its end and what
// last followed that, and no history, as Existing's. It reads the few records that tell it, so that this takes no longer after
// a hundred thousand events than after one. Where they do not tell, it is the fold of all.
func (l *Ledger) Peek(ctx context.Context, tenant, id string) (*State, error) {
	newest, ref, err := l.newest(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	accepted := newest
	if first := l.layout.Subject(ref, schemas.SectionAccepted); newest.Subject != first {
		if accepted, err = l.log.Last(ctx, l.stream(ref), first); err != nil && !errors.Is(err, fault.ErrNotFound) {
			return nil, err
		}
	}
	st := &State{Ref: ref}
	if err != nil || st.fold(accepted) != nil {
		return l.Load(ctx, ref) // it has been dropped, or is on its way to this replica
	}
	if accepted.Seq == newest.Seq {
		return st.unfenced(), nil
	}
	event, ok := newest, newest.Ends()
	if !ok { // a replica that is late may not have the end yet
		event, err = l.log.Newest(ctx, l.stream(ref), l.layout.Subject(ref, schemas.SectionEvent))
		if ok = err == nil; !ok && !errors.Is(err, fault.ErrNotFound) {
			return nil, err
		}
	}
	if ok && st.fold(event) == nil && event.Ends() {
		if newest.Seq > event.Seq {
			_ = st.fold(newest) // a resolution or a successor; fold fails for a first event alone
		}
		return st.unfenced(), nil
	}
	// The events of a task may be in two sections, and there are few of them. The last outside event of
	// another kind of action changes its state but not its status.
	_, _, section := schemas.Split(newest.Subject)
	if ref.Kind == schemas.KindTask || section == schemas.SectionWake && !newest.Notifies() || st.Damaged != nil {
		return l.Load(ctx, ref)
	}
	st.Started = st.Started || ok // by an event of its worker's
	return st.unfenced(), nil
}

// newest is the newest message of an id, and the action that it belongs to.
func (l *Ledger) newest(ctx context.Context, tenant, id string) (schemas.Record, schemas.Ref, error) {
	stream := schemas.LogStream(l.layout.Partition(tenant, id))
	rec, err := l.log.Last(ctx, stream, l.layout.AnyKind(tenant, id))
	if err != nil {
		return rec, schemas.Ref{}, err
	}
	ref, _, err := schemas.ParseSubject(rec.Subject)
	return rec, ref, err
}

// unfenced removes from a state the position that an append would be fenced by, and the part of a
// history that was read.
func (s *State) unfenced() *State {
	s.Seq, s.N, s.Attempts, s.Progress, s.ProgressBytes = 0, 0, nil, 0, 0
	return s
}
