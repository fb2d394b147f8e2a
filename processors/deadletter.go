package processors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/settle"
	"weir/schemas"
)

// DeadLetters stores messages that no retry can help, with the reason. It is safe for concurrent use.
type DeadLetters struct {
	Sender  settle.Sender
	Metrics interface{ DeadLettered(code schemas.Code) }
	Log     *slog.Logger
}

// maxLetter is how many bytes of a message its dead letter holds: in base64 that is below 1 MiB, the
// default maximum message of a server. A dead letter above that limit would redeliver the message
// forever.
const maxLetter = 512 << 10

// Store stores the dead letter of a message and its action (nil: it cannot be read); of a message over 512 KiB, its
// beginning. Within the broker's window
// for repeats the letter of one message is stored once, however often the message is delivered.
func (d DeadLetters) Store(ctx context.Context, rec schemas.Record, st *ledger.State, why *fault.Terminal) error {
	letter := schemas.DeadLetter{
		Time: time.Now().UTC(), Code: why.Code, Reason: why.Reason,
		Subject: rec.Subject, Sequence: rec.Seq, Data: rec.Data,
	}
	if ref, _, err := schemas.ParseSubject(rec.Subject); err == nil {
		letter.Tenant, letter.Kind, letter.ActionID = ref.Tenant, ref.Kind, ref.ID
	}
	if st != nil {
		letter.Called, letter.Agent = st.Called(), st.Action.TaskType
	}
	if n := len(rec.Data); n > maxLetter {
		letter.Data = rec.Data[:maxLetter]
		letter.Reason += fmt.Sprintf("; the first %d of its %d bytes are kept here", maxLetter, n)
	}
	data, err := ledger.Encode(letter)
	if err != nil {
		return err
	}
	wait, err := d.Sender.Send(ctx, schemas.DeadSubject(letter), rec.Subject, data)
	if err == nil {
		err = wait()
	}
	if err != nil {
		return err
	}
	d.Metrics.DeadLettered(why.Code)
	d.Log.LogAttrs(ctx, slog.LevelWarn, "message_dead_lettered",
		slog.String("tenant", letter.Tenant), slog.String("kind", string(letter.Kind)),
		slog.String("action_id", letter.ActionID), slog.String("code", string(letter.Code)), slog.Uint64("seq", letter.Sequence))
	return nil
}

// deadLetter stores the message as a dead letter and settles its action, if it has one.
func (p *Pipeline) deadLetter(ctx context.Context, rec schemas.Record, st *ledger.State, why *fault.Terminal) error {
	if err := p.DeadLetters.Store(ctx, rec, st, why); err != nil {
		return err
	}
	if st == nil {
		return p.Barrier(ctx)
	}
	st.Underived = true // the action's events do not include the dead letter
	return p.settle(ctx, st, settle.Outcome{Outcome: schemas.OutcomeFailed, Code: why.Code, Message: why.Reason})
}

// DeadLetter dead-letters a message that crashes the pipeline, and settles its
// action as failed if the action can be read.
func (p *Pipeline) DeadLetter(ctx context.Context, rec schemas.Record, why *fault.Terminal) error {
	ref, _, err := schemas.ParseSubject(rec.Subject)
	if err != nil {
		return p.deadLetter(ctx, rec, nil, why)
	}
	st, err := p.load(ctx, ref, rec, false, false)
	switch {
	case errors.Is(err, errDone):
		return nil
	case st == nil: // it could not be read now: nothing may be acknowledged
		return err
	}
	return p.deadLetter(ctx, rec, st, why)
}
