package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/internal/retry"
	"weir/schemas"
)

const (
	// headerTraceParent has the case that the servers look for: NATS distinguishes cases.
	headerTraceParent = "traceparent"
	// headerUrgent has workers start a new action before others.
	headerUrgent = "Weir-Urgent"

	// publishTimeout bounds one Send, including repeats.
	publishTimeout = 5 * time.Second
	// retryPause avoids a hot loop when the server refuses at once.
	retryPause = 50 * time.Millisecond
)

// Append stores one message and returns its sequence.
//
// It sends the message once and waits one attempt timeout. It returns fault.ErrFenced if the guard
// does not hold, fault.ErrFull if the log is full, and fault.ErrTooLarge if the message exceeds the
// server's limit; nothing is stored then. After fault.ErrUnavailable the outcome is unknown. Append
// does not send the message again, because the first copy may still arrive; the caller reads the
// log back.
//
// When Append returns, the record survives a kill of any process. It survives a power cut after a
// Barrier that began later has returned.
func (b *Broker) Append(ctx context.Context, m schemas.Append) (uint64, error) {
	// A claim is the first message of an action, and new actions may be refused.
	if m.Guarded && m.Last == 0 && strings.HasPrefix(m.Subject, schemas.LogRoot+".") {
		if err := b.Accepting(); err != nil {
			return 0, err
		}
	}
	header := nats.Header{}
	if m.Guarded {
		header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(m.Last, 10)}
		header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{m.Guard}
	}
	if m.TraceParent != "" {
		header[headerTraceParent] = []string{m.TraceParent}
	}
	if m.Urgent {
		header[headerUrgent] = []string{"1"}
	}
	seq, err := b.store(ctx, &nats.Msg{Subject: m.Subject, Data: m.Data, Header: header})
	if err == nil && failpoint.Lost(failpoint.Appended, m.Subject) {
		return 0, fmt.Errorf("%w: the acknowledgement was dropped", fault.ErrUnavailable)
	}
	if err == nil {
		b.wrote(m.Subject, m.Data)
	}
	return seq, err
}

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

// store sends one message to a stream and waits for the acknowledgement.
func (b *Broker) store(ctx context.Context, msg *nats.Msg) (uint64, error) {
	c, err := b.acks.ask(ctx, msg, nil, b.cfg.AttemptTimeout)
	if err != nil {
		return 0, err
	}
	return c.seq, nil
}

// stored decodes the acknowledgement of a publish.
func stored(m *nats.Msg) (stream string, seq uint64, err error) {
	var ack struct {
		jetstream.PubAck
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &ack); {
	case status(m) != "":
		return "", 0, fmt.Errorf("%w: no stream takes the subject", fault.ErrUnavailable)
	case err == nil && ack.Error != nil:
		return "", 0, refused(ack.Error.ErrorCode, ack.Error.Description)
	case err != nil || ack.Sequence == 0:
		return "", 0, fmt.Errorf("%w: the acknowledgement cannot be read", fault.ErrUnavailable)
	}
	return ack.Stream, ack.Sequence, nil
}

// Send sends a message with an id, which a stream stores once within its window and which may not be
// empty, and returns a function that waits until it is stored and must be called once. Until then a message that is not
// acknowledged in time is sent again, within publishTimeout and while ctx lives. Send returns an
// error if the message is too large, and has not sent it then. After an error of wait it may be
// stored.
func (b *Broker) Send(ctx context.Context, subject, id string, data []byte) (wait func() error, err error) {
	if limit := b.writes.MaxPayload(); int64(len(data)) > limit && limit > 0 {
		return nil, fault.ErrTooLarge
	}
	deadline := time.Now().Add(publishTimeout)
	msg := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{jetstream.MsgIDHeader: {id}}}
	c, lost := b.acks.send(msg, nil)
	return func() error {
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		for {
			if lost == nil {
				lost = b.acks.wait(ctx, c, b.cfg.AttemptTimeout)
			}
			if lost == nil {
				b.wrote(subject, data)
			}
			if !errors.Is(lost, fault.ErrUnavailable) || !retry.Pause(ctx, retryPause) {
				return lost
			}
			c, lost = b.acks.send(msg, nil)
		}
	}, nil
}
