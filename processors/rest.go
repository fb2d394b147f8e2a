package processors

import (
	"context"
	"slices"
	"time"

	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

// rest gives the slot back and has the action woken when it is due. The attempt
// of another worker is not disturbed by an event of ours: its fence must hold. What
// waits for what it has waited for already writes nothing more; it is woken anew all
// the same, for its pending wake-up, which that replaces, may be the one that came.
func (p *Pipeline) rest(ctx context.Context, st *ledger.State, w *work, r *call.Rest) error {
	said := schemas.Waiting{For: r.For, Until: r.Until.UTC(), Step: r.Step, Rules: r.Rules}
	if r.For != schemas.WaitInFlight && !r.Quiet && !waits(st, said) {
		ev := schemas.Event{Type: schemas.EventWaiting, Waiting: &said}
		if err := p.ledger.Append(ctx, st, ev); err != nil {
			return err
		}
	}
	if err := p.waker.Wake(ctx, st.Ref, r.Until); err != nil {
		return err
	}
	if r.For == schemas.WaitRule || r.Asleep != nil {
		w.rest = r
	}
	return p.Barrier(ctx) // the ack must not outlive the wake-up
}

// waits reports whether the log says already that an action rests like this. A
// moment more or less is none; it is woken when it is due.
func waits(st *ledger.State, r schemas.Waiting) bool {
	w := st.Waiting
	return w != nil && w.For == r.For && w.Step == r.Step && slices.Equal(w.Rules, r.Rules) && w.Until.Sub(r.Until).Abs() < time.Second
}
