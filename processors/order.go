package processors

import (
	"context"
	"time"

	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

// Lines are the lines of ordering keys.
type Lines interface {
	// Turn reports whether an action is the first in its line, and if not, when to look again.
	Turn(ctx context.Context, st *ledger.State) (mine bool, again time.Duration, err error)
	// First is Turn that only looks.
	First(ctx context.Context, st *ledger.State) (bool, error)
	// Leave takes an ended action out of its line, and reports whether it woke the next one.
	Leave(ctx context.Context, st *ledger.State) (woke bool, err error)
}

// turn is nil where an action is the first in its line. Else it rests, until whoever is before
// it ends; and it looks once more when it can be woken, for that may have been a moment ago.
func (p *Pipeline) turn(ctx context.Context, st *ledger.State) error {
	mine, again, err := p.ledger.Turn(ctx, st)
	if err != nil || mine {
		return err
	}
	return &call.Rest{Until: p.Admit.LookAgain(st, again), For: schemas.WaitOrder, Asleep: func() { p.lookOnce(st) }} //nolint:contextcheck // it looks when this message's work is over
}

// lookTimeout bounds the look of an action that has just been put to rest. If it fails, the
// action looks when it is due.
const lookTimeout = 5 * time.Second

func (p *Pipeline) lookOnce(st *ledger.State) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	if mine, err := p.ledger.First(ctx, st); err == nil && mine {
		_ = p.ledger.Nudge(ctx, st.Ref)
	}
}

// leaveLine has the next one of an ended action's line begin.
func (p *Pipeline) leaveLine(ctx context.Context, st *ledger.State) error {
	if st.Action.OrderingKey == "" {
		return nil
	}
	woke, err := p.ledger.Leave(ctx, st)
	if err == nil && woke {
		err = p.Barrier(ctx) // the ack must not outlive the wake-up
	}
	return err
}
