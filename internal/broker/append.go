package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/schemas"
)

const (
	headerExpectedLast    = "Nats-Expected-Last-Subject-Sequence"
	headerExpectedSubject = "Nats-Expected-Last-Subject-Sequence-Subject"
	// headerTraceParent is written as the servers look for it: NATS tells cases apart.
	headerTraceParent = "traceparent"
	// headerUrgent tells workers that a new action is to be begun before others.
	headerUrgent = "Weir-Urgent"
)

// Append stores one message and returns its sequence.
//
// It asks once and waits one attempt timeout. A guard that does not hold is
// fault.ErrFenced, a full log fault.ErrFull and a message over the server's
// limit fault.ErrTooLarge: nothing was stored. fault.ErrUnavailable says that
// nobody knows; the message is not sent again, because its first copy may
// still be on its way, so the caller reads the log back.
//
// The record outlives a kill of any process when Append returns; it outlives
// a power cut once a Barrier that was asked for after that has returned.
func (b *Broker) Append(ctx context.Context, m schemas.Append) (uint64, error) {
	// A claim is the first message of an action: work that may be refused.
	if m.Guarded && m.Last == 0 {
		if err := b.Accepting(); err != nil {
			return 0, err
		}
	}
	return b.write(ctx, m)
}

// write is Append of what is not refused for being too much.
func (b *Broker) write(ctx context.Context, m schemas.Append) (uint64, error) {
	msg := nats.Msg{Subject: m.Subject, Data: m.Data}
	if m.Guarded {
		values := [2]string{strconv.FormatUint(m.Last, 10), m.Guard}
		msg.Header = nats.Header{headerExpectedLast: values[0:1:1], headerExpectedSubject: values[1:2:2]}
	}
	if m.TraceParent != "" {
		if msg.Header == nil {
			msg.Header = nats.Header{}
		}
		msg.Header[headerTraceParent] = []string{m.TraceParent}
	}
	if m.Urgent {
		if msg.Header == nil {
			msg.Header = nats.Header{}
		}
		msg.Header[headerUrgent] = []string{"1"}
	}
	seq, err := b.store(ctx, &msg)
	if err == nil && failpoint.Lost(failpoint.Appended, m.Subject) {
		return 0, fmt.Errorf("%w: the acknowledgement was dropped", fault.ErrUnavailable)
	}
	if err == nil {
		b.wrote(m.Subject, m.Data)
	}
	return seq, err
}

// store sends one message to a stream and reads the acknowledgement.
func (b *Broker) store(ctx context.Context, msg *nats.Msg) (uint64, error) {
	if ctx.Err() != nil {
		return 0, ended(ctx)
	}
	c, err := b.acks.send(msg, nil)
	if err != nil {
		return 0, err
	}
	if err := b.acks.wait(ctx, c, b.cfg.AttemptTimeout); err != nil {
		return 0, err
	}
	return stored(c.reply)
}

// stored reads the acknowledgement of a publish.
func stored(m *nats.Msg) (uint64, error) {
	if status(m) != "" {
		return 0, fmt.Errorf("%w: no stream takes the subject", fault.ErrUnavailable)
	}
	if seq, ok := ackSequence(m.Data); ok {
		return seq, nil
	}
	var ack struct {
		Seq   uint64 `json:"seq"`
		Error *struct {
			Code int    `json:"err_code"`
			Text string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return 0, fmt.Errorf("%w: the acknowledgement cannot be read", fault.ErrUnavailable)
	}
	if ack.Error != nil {
		return 0, refused(ack.Error.Code, ack.Error.Text)
	}
	if ack.Seq == 0 {
		return 0, fmt.Errorf("%w: the acknowledgement has no sequence", fault.ErrUnavailable)
	}
	return ack.Seq, nil
}

// ackSequence reads the usual acknowledgement, {"stream":"S", "seq":N}, without
// a JSON decoder. Anything else is left to one.
func ackSequence(data []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !ok {
		return 0, false
	}
	i := bytes.IndexByte(rest, '"')
	if i < 0 {
		return 0, false
	}
	if rest, ok = bytes.CutPrefix(rest[i:], []byte(`",`)); !ok {
		return 0, false
	}
	rest = bytes.TrimPrefix(rest, []byte(" ")) // the server puts a blank there
	if rest, ok = bytes.CutPrefix(rest, []byte(`"seq":`)); !ok {
		return 0, false
	}
	var seq uint64
	for i, c := range rest {
		switch {
		case '0' <= c && c <= '9' && i < 19:
			seq = seq*10 + uint64(c-'0')
		case i > 0 && (c == '}' || c == ','):
			return seq, seq > 0
		default:
			return 0, false
		}
	}
	return 0, false
}
