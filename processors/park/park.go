// Package park puts aside what no retry can help: the message goes to the dead
// letters with its reason, and the action it belongs to is settled as failed.
package park

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// Metrics counts what is parked.
type Metrics interface {
	Parked(code schemas.Code)
}

// Parker parks. It is safe for concurrent use.
type Parker struct {
	publisher message.Publisher
	metrics   Metrics
	log       *slog.Logger
	now       func() time.Time
}

// New returns a Parker that publishes dead letters through p.
func New(p message.Publisher, m Metrics, log *slog.Logger) *Parker {
	return &Parker{publisher: p, metrics: m, log: log, now: time.Now}
}

// kept is how many bytes of a message its dead letter holds: in base64 that is below 1 MiB, the
// default maximum message of a server. A dead letter above that limit would redeliver the message
// forever.
const kept = 512 << 10

// Park stores the dead letter; of a message over 512 KiB, its beginning. Within the broker's window for repeats the letter
// of one message is stored once, however often the message is delivered.
func (p *Parker) Park(ctx context.Context, rec schemas.Record, why *fault.Terminal) error {
	letter := schemas.DeadLetter{
		Time: p.now().UTC(), Code: why.Code, Reason: why.Reason,
		Subject: rec.Subject, Sequence: rec.Seq, Data: rec.Data,
	}
	if ref, _, err := schemas.ParseSubject(rec.Subject); err == nil {
		letter.Tenant, letter.Kind, letter.ActionID = ref.Tenant, ref.Kind, ref.ID
	}
	if n := len(rec.Data); n > kept {
		letter.Data = rec.Data[:kept]
		letter.Reason += fmt.Sprintf("; the first %d of its %d bytes are kept here", kept, n)
	}
	data, err := ledger.Encode(letter)
	if err != nil {
		return err
	}
	m := message.NewMessage(rec.Subject, data)
	m.SetContext(ctx)
	if err := p.publisher.Publish(schemas.DeadSubject(letter), m); err != nil {
		return err
	}
	p.metrics.Parked(why.Code)
	p.log.LogAttrs(ctx, slog.LevelWarn, "message parked",
		slog.String("tenant", letter.Tenant), slog.String("kind", string(letter.Kind)),
		slog.String("action_id", letter.ActionID), slog.String("code", string(letter.Code)), slog.Uint64("seq", letter.Sequence))
	return nil
}
