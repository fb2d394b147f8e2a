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

// loadFirst is load for the first delivery of an accepted event. It folds that event alone, because
// the first delivery of a new action rarely finds more; the fence detects the other cases.
// A recreated queue delivers old actions as if for the first time; those that have ended are not
// called again.
func (p *Pipeline) loadFirst(ctx context.Context, ref schemas.Ref, rec schemas.Record) (*ledger.State, error) {
	st, err := ledger.Fold(ref, []schemas.Record{rec})
	if err != nil {
		return nil, err
	}
	if p.Now().Sub(st.Action.AcceptedAt) >= p.AckWait {
		return p.load(ctx, ref, rec, false) // it may have started or ended
	}
	st.Again = false
	return p.ready(ctx, st, rec, false)
}

// load returns the state of an action that is ready for work, from all its events. rec is the
// delivered message, the zero record if this process executes the action without one. fenced: a
// write has found another's before it. That writer is alive: it may have taken the action over by
// this same message, which then proves nothing about it. A state that is returned with an error
// says which action the error is about.
func (p *Pipeline) load(ctx context.Context, ref schemas.Ref, rec schemas.Record, fenced bool) (*ledger.State, error) {
	st, err := p.Ledger.Load(ctx, ref)
	switch {
	case errors.Is(err, fault.ErrGone):
		return nil, errDone // history has dropped its beginning
	case errors.Is(err, fault.ErrNotFound):
		return nil, p.missing(ctx, ref, rec)
	case err != nil:
		return nil, err
	}
	return p.ready(ctx, st, rec, fenced)
}

// missing distinguishes an action that history has dropped from one that the log does not show yet,
// although it has accepted it or delivered its message: an acknowledgement would lose that one.
func (p *Pipeline) missing(ctx context.Context, ref schemas.Ref, rec schemas.Record) error {
	dropped, err := false, error(nil)
	if rec.Seq > 0 {
		dropped, err = p.Ledger.Dropped(ctx, ref, rec.Seq)
	}
	switch {
	case err != nil:
		return err
	case !dropped:
		return fmt.Errorf("%w: it does not show an action that it has accepted", fault.ErrUnavailable)
	default:
		return errDone
	}
}

// ready checks that this worker may work on an action now, and reads the payload.
func (p *Pipeline) ready(ctx context.Context, st *ledger.State, rec schemas.Record, fenced bool) (*ledger.State, error) {
	st.Message = rec.Seq
	switch {
	case st.Settled != nil:
		return st, errDone
	case st.Damaged != nil:
		return st, st.Damaged
	}
	if err := p.inFlight(st, rec, fenced); err != nil {
		return st, err
	}
	payload, err := p.Ledger.Blob(ctx, st.Action.Payload, st.Action.PayloadBlob)
	if errors.Is(err, fault.ErrNotFound) {
		return st, &fault.Terminal{Code: schemas.Poison, Reason: "the payload's object is missing", Cause: err}
	}
	st.Action.Payload = payload
	return st, err
}

// inFlight returns when to retry an action whose open attempt another worker may still be making;
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
func (p *Pipeline) inFlight(st *ledger.State, rec schemas.Record, fenced bool) error {
	t, now := st.Open(), p.Now()
	if t == nil || t.Worker == p.Worker || p.Alone || !now.Before(t.ExpiresAt) {
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
