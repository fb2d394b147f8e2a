package processors

import (
	"context"
	"errors"
	"fmt"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

// errDone reports that the action has ended: the message needs no more work.
var errDone = errors.New("the action has settled")

// load returns the state of an action that this worker may work on now, with its payload. rec is
// the delivered message, the zero record if this process executes the action without one. first: it
// is the first delivery of an accepted event, and is folded alone if it is recent, because the
// first delivery of a new action rarely finds more; the fence detects the other cases. A recreated
// queue delivers old actions as if for the first time. fenced: a write has found another's before
// it. That writer is alive: it may have taken the action over by this same message, which then
// proves nothing about it. A state that is returned with an error says which action the error is
// about.
func (p *Pipeline) load(ctx context.Context, ref schemas.Ref, rec schemas.Record, first, fenced bool) (st *ledger.State, err error) {
	if first {
		if st, err = ledger.Fold(ref, []schemas.Record{rec}); err != nil {
			return nil, err
		}
		st.Again = false
	}
	if !first || p.Now().Sub(st.Action.AcceptedAt) >= p.AckWait { // it may have started or ended
		st, err = p.Ledger.Load(ctx, ref)
	}
	dropped := errors.Is(err, fault.ErrGone) // history has dropped its beginning
	if errors.Is(err, fault.ErrNotFound) {
		// The log may not show it yet: an acknowledgement would then lose it.
		if err = nil; rec.Seq > 0 {
			dropped, err = p.Ledger.Dropped(ctx, ref, rec.Seq)
		}
		if err == nil && !dropped {
			err = fmt.Errorf("%w: it does not show an action that it has accepted", fault.ErrUnavailable)
		}
	}
	switch {
	case dropped:
		return nil, errDone
	case err != nil:
		return nil, err
	}
	st.Message = rec.Seq
	switch {
	case st.Settled != nil:
		return st, errDone
	case st.Damaged != nil:
		return st, st.Damaged
	}
	if t := st.Open(); t != nil {
		if err := p.inFlight(st, t, rec, fenced); err != nil {
			return st, err
		}
	}
	st.Action.Payload, err = p.Ledger.Blob(ctx, st.Action.Payload, st.Action.PayloadBlob)
	if errors.Is(err, fault.ErrNotFound) {
		err = &fault.Terminal{Code: schemas.Poison, Reason: "the payload's object is missing", Cause: err}
	}
	return st, err
}

// inFlight returns when to retry an action whose open attempt t another worker may still be making;
// nil if that attempt is over or a repeat is harmless. This process works on an action once at a
// time, so its own attempt is over.
//
// The attempt's own message is redelivered, most likely, when its worker is dead. A safe call is
// then repeated. So is a model call, except after recent writes to the log: these show that the
// worker lives and only its heartbeats were late. The message is then given back until the worker
// has been silent for long enough. It is not acknowledged, because it must bring the action back if
// that worker dies.
//
// Any other message proves nothing about that worker: a wake-up planned before the action was
// started still arrives.
func (p *Pipeline) inFlight(st *ledger.State, t *ledger.Attempt, rec schemas.Record, fenced bool) error {
	now := p.Now()
	if t.Worker == p.Worker || p.Alone || !now.Before(t.ExpiresAt) {
		return nil
	}
	if t.Message == rec.Seq {
		switch fresh := st.Kind == schemas.KindChat && now.Sub(st.Newest) < p.AckWait; {
		case fenced, fresh:
			return &fault.RetryAfter{After: p.AckWait}
		case t.Class == schemas.ClassSafe, st.Kind == schemas.KindChat:
			return nil
		}
	}
	return &call.Deferral{Until: t.ExpiresAt, Reason: schemas.WaitInFlight}
}
