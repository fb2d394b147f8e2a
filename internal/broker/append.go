package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/schemas"
)

const (
	// headerTraceParent has the case that the servers look for: NATS distinguishes cases.
	headerTraceParent = "traceparent"
	// headerUrgent has workers start a new action before others.
	headerUrgent = "Weir-Urgent"
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

// store sends one message to a stream and waits for the acknowledgement.
func (b *Broker) store(ctx context.Context, msg *nats.Msg) (uint64, error) {
	c, err := b.acks.ask(ctx, msg, nil, b.cfg.AttemptTimeout)
	if err != nil {
		return 0, err
	}
	return c.seq, nil
}

// stored decodes the acknowledgement of a publish.
func stored(m *nats.Msg) (uint64, error) {
	if status(m) != "" {
		return 0, fmt.Errorf("%w: no stream takes the subject", fault.ErrUnavailable)
	}
	var ack struct {
		Seq   uint64              `json:"seq"`
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &ack); {
	case err != nil:
		return 0, fmt.Errorf("%w: the acknowledgement cannot be read", fault.ErrUnavailable)
	case ack.Error != nil:
		return 0, refused(ack.Error.ErrorCode, ack.Error.Description)
	case ack.Seq == 0:
		return 0, fmt.Errorf("%w: the acknowledgement has no sequence", fault.ErrUnavailable)
	}
	return ack.Seq, nil
}
