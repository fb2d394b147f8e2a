package broker

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"weir/schemas"
)

const (
	headerSchedule       = "Nats-Schedule"
	headerScheduleTarget = "Nats-Schedule-Target"
)

// Wake has the action's worker look at it again at a time: an empty message
// appears on its wake subject then, and reaches a subscriber of wake-ups.
// The server sends it up to a quarter of a second late, never early, and a
// time that is past means at once. A newer Wake of the same action replaces
// one that is pending. It survives a restart of the server; the wake-ups that
// fell due meanwhile come when it is up again.
//
// The message that appears is the newest of its action, so that a guard that
// was read before no longer holds.
func (b *Broker) Wake(ctx context.Context, ref schemas.Ref, at time.Time) error {
	_, err := b.store(ctx, &nats.Msg{
		Subject: b.cfg.Layout.Schedule(ref),
		Header: nats.Header{
			// The server reads fractions of a second; the client's own option
			// would write none.
			headerSchedule:       {"@at " + at.UTC().Format(time.RFC3339Nano)},
			headerScheduleTarget: {b.cfg.Layout.Subject(ref, schemas.SectionWake)},
		},
	})
	return err
}
