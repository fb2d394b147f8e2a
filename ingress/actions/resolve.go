package actions

import (
	"context"

	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// maxNote bounds a note, in bytes.
const maxNote = 2000

type resolution struct {
	Effect string `json:"effect"`
	Note   string `json:"note"`
}

// ReadResolution reads a body that strict.Check has passed.
func ReadResolution(body []byte) (schemas.Resolution, error) {
	var r resolution
	if err := strict.Decode(body, &r); err != nil {
		return schemas.Resolution{}, err
	}
	if r.Effect != schemas.EffectApplied && r.Effect != schemas.EffectNotApplied {
		return schemas.Resolution{}, fault.New(schemas.ValidationError, "at /effect: must be applied or not_applied")
	}
	if len(r.Note) > maxNote {
		return schemas.Resolution{}, fault.New(schemas.ValidationError, "at /note: must be at most 2000 bytes")
	}
	return schemas.Resolution{Effect: r.Effect, Note: r.Note}, nil
}

// Resolve records a person's word on an action that ended outcome_unknown. It
// counts once: the same word again changes nothing, another is CONFLICT.
func (c *Control) Resolve(ctx context.Context, tenant, id string, r schemas.Resolution) (schemas.ActionStatus, error) {
	st, err := c.do(ctx, tenant, id, func(st *ledger.State) (schemas.Event, error) {
		switch {
		case st.Settled == nil || st.Settled.Outcome != schemas.OutcomeUnknown:
			return schemas.Event{}, fault.New(schemas.Conflict, "only an action that ended outcome_unknown can be resolved; this one is: "+st.Status())
		case st.Resolution == nil:
			return schemas.Event{Type: schemas.EventResolution, Resolution: &r}, nil
		case st.Resolution.Effect == r.Effect:
			return schemas.Event{}, errUnchanged
		default:
			return schemas.Event{}, fault.New(schemas.Conflict, "the action was resolved already, as: "+st.Resolution.Effect)
		}
	})
	return statusOf(st), err
}
