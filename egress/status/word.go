package status

import (
	"context"

	"weir/internal/ledger"
	"weir/schemas"
)

// Last reads the newest record under a filter.
type Last interface {
	Last(ctx context.Context, stream, filter string) (schemas.Record, error)
}

// Brief is the status of an action in a list.
type Brief struct {
	Status schemas.Status
	Code   schemas.Code
	// Seq is the newest record that was looked at.
	Seq uint64
}

// Word reads an action's status from its newest record where that tells it,
// and folds the whole action only where it does not.
func Word(ctx context.Context, log Last, actions Actions, layout schemas.Layout, ref schemas.Ref) (Brief, error) {
	rec, err := log.Last(ctx, schemas.LogStream(layout.Partition(ref.Tenant, ref.ID)), layout.All(ref))
	if err != nil {
		return Brief{}, err
	}
	if _, _, section := schemas.Split(rec.Subject); section == schemas.SectionAccepted {
		return Brief{Status: schemas.Status(schemas.EventAccepted), Seq: rec.Seq}, nil
	}
	if ev, err := ledger.Decode(rec.Data); err == nil && !rec.Notifies() {
		switch ev.Type {
		case schemas.EventSettled:
			return Brief{Status: schemas.Status(ev.Settled.Outcome), Code: ev.Settled.Code, Seq: rec.Seq}, nil
		case schemas.EventWaiting:
			return Brief{Status: schemas.Status(schemas.EventWaiting), Seq: rec.Seq}, nil
		case schemas.EventStarted, schemas.EventAttempt, schemas.EventAttempted, schemas.EventProgress, schemas.EventDelta, schemas.EventStatus:
			return Brief{Status: schemas.Status(schemas.EventStarted), Seq: rec.Seq}, nil
		case schemas.EventAccepted, schemas.EventCancel, schemas.EventSignal, schemas.EventResolution, schemas.EventSuperseded:
		}
	}
	st, err := actions.Load(ctx, ref)
	if err != nil {
		return Brief{}, err
	}
	b := Brief{Status: schemas.Status(st.Status()), Seq: st.Seq}
	if st.Settled != nil {
		b.Code = st.Settled.Code
	}
	return b, nil
}
