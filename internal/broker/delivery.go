package broker

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/schemas"
)

// delivery is one message while this process holds it.
type delivery struct {
	raw    *nats.Msg
	feed   *feed
	record schemas.Record
	tenant string // escaped, as in the subject
	kind   schemas.Kind
	urgent bool
	kept   bool // it does not move to an overflow queue
	bare   bool // its data was dropped while it waited
	count  uint64
	since  time.Time
	nak    time.Duration // 0 is the subscriber's own delay
}

// arrive reads a message that a consumer delivered. The only error is a malformed reply subject of
// the server: everything else in the message is for its handler to check.
func arrive(m *nats.Msg, now time.Time) (*delivery, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	d := &delivery{
		raw: m, urgent: m.Header.Get(headerUrgent) != "", count: meta.NumDelivered, since: now,
		record: schemas.Record{
			Stream: meta.Stream, Subject: m.Subject, Seq: meta.Sequence.Stream,
			Time: meta.Timestamp.UTC(), ID: m.Header.Get(jetstream.MsgIDHeader), Data: m.Data,
		},
	}
	if _, action, _ := schemas.Split(m.Subject); strings.Count(action, ".") == 2 { // otherwise it has neither tenant nor kind
		tenant, kind, _ := strings.Cut(action, ".")
		kind, _, _ = strings.Cut(kind, ".")
		d.tenant, d.kind = tenant, schemas.Kind(kind)
	}
	return d, nil
}

// waitingData is the most data that a message keeps while it waits for a slot.
const waitingData = 16 << 10

// shed drops the data of a large message; restore reads it again.
func (d *delivery) shed() {
	if len(d.record.Data) > waitingData {
		d.record.Data, d.raw.Data, d.bare = nil, nil, true
	}
}

// restore reads the data that shed dropped.
func (d *delivery) restore(ctx context.Context, b *Broker) error {
	if !d.bare {
		return nil
	}
	rec, err := b.current(ctx, d.record.Stream, directGet{Seq: d.record.Seq})
	d.record.Data, d.bare = rec.Data, err != nil
	return err
}

// message is the delivery as handlers see it, without headers.
func (d *delivery) message(ctx context.Context) *message.Message {
	m := message.NewMessage(d.record.Stream+"/"+strconv.FormatUint(d.record.Seq, 10), d.record.Data)
	m.SetContext(context.WithValue(ctx, deliveryKey{}, d))
	return m
}

// The answers to the server. Each is handed to the connection and not waited for: an answer that is
// lost brings the message again, which every handler must bear anyway.

func (d *delivery) ack() { _ = d.raw.Ack() }

// refuse gives the message back, to be delivered again after a delay.
func (d *delivery) refuse(byDefault time.Duration) {
	_ = d.raw.NakWithDelay(cmp.Or(d.nak, byDefault))
}

// giveBack returns the message, so that another worker gets it at once.
func (d *delivery) giveBack() { _ = d.raw.Nak() }

// Wake has the action's worker look at it again at a time: an empty message appears on its wake
// subject then, and reaches a subscriber of wake-ups. The server sends it up to a quarter of a
// second late, never early, and a time that is past means at once. A newer Wake of the same action
// replaces one that is pending. It survives a restart of the server; the wake-ups that fell due
// meanwhile come when it is up again.
//
// The message that appears is the newest of its action, so that a guard that was read before no
// longer holds.
func (b *Broker) Wake(ctx context.Context, ref schemas.Ref, at time.Time) error {
	_, err := b.store(ctx, &nats.Msg{
		Subject: b.cfg.Layout.Schedule(ref),
		Header: nats.Header{
			// The server reads fractions of a second; the client's own option would write none.
			jetstream.ScheduleHeader:       {"@at " + at.UTC().Format(time.RFC3339Nano)},
			jetstream.ScheduleTargetHeader: {b.cfg.Layout.Subject(ref, schemas.SectionWake)},
		},
	})
	return err
}
