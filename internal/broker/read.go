package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
	"weir/schemas"
)

// headerPending is how many messages of an answer follow.
const headerPending = "Nats-Num-Pending"

const (
	// readTimeout bounds one request for stored messages, and every other request but publishes. A
	// read of an old block can wait for the disk's syncs; callers bring shorter limits.
	readTimeout = 5 * time.Second
	// readBytes bounds the answer to one request for a page of a bucket.
	readBytes = 2 << 20
)

// directGet is a request to a stream's direct-get service. Without Batch it asks for one message.
type directGet struct {
	Last     string `json:"last_by_subj,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// Last returns the newest message on the subjects that filter covers, or fault.ErrNotFound. On a
// cluster a replica may answer that has not seen the newest write; only the leader reports that
// there is none.
func (b *Broker) Last(ctx context.Context, stream, filter string) (schemas.Record, error) {
	rec, err := b.one(ctx, stream, directGet{Last: filter})
	if b.cfg.Replicas > 1 && errors.Is(err, fault.ErrNotFound) {
		return b.readFromLeader(ctx, stream, directGet{Last: filter})
	}
	return rec, err
}

// Newest is Last as the stream's leader knows it: no message that was stored before the call is
// missing. Use it for decisions that depend on a message being absent.
func (b *Broker) Newest(ctx context.Context, stream, filter string) (schemas.Record, error) {
	return b.current(ctx, stream, directGet{Last: filter})
}

// Next returns the first message on the subjects that filter covers whose sequence is at least
// from, or fault.ErrNotFound. The stream's leader answers: no message that was acknowledged before
// is skipped.
func (b *Broker) Next(ctx context.Context, stream, filter string, from uint64) (schemas.Record, error) {
	return b.current(ctx, stream, directGet{Next: filter, Seq: max(from, 1)})
}

// current has the leader answer. With one replica only the leader can, and a direct answer is
// cheaper.
func (b *Broker) current(ctx context.Context, stream string, req directGet) (schemas.Record, error) {
	if b.cfg.Replicas > 1 {
		return b.readFromLeader(ctx, stream, req)
	}
	return b.one(ctx, stream, req)
}

// one asks the stream's direct-get service for one message.
func (b *Broker) one(ctx context.Context, stream string, req directGet) (schemas.Record, error) {
	p, err := b.get(ctx, stream, req)
	switch {
	case err != nil:
		return schemas.Record{}, err
	case len(p.records) == 0:
		return schemas.Record{}, fault.ErrNotFound
	}
	return p.records[0], nil
}

// Page returns up to limit messages on the subjects that filter covers whose sequence is at least
// from, oldest first, and none after the one that makes them as large as size. more reports that
// there are others. It may return none, without an error: the replica that answers may not have seen
// the newest writes, even if Last has returned them. A request for many messages costs the server
// little more than one for a few, because the server counts the remaining messages for each request.
func (b *Broker) Page(ctx context.Context, stream, filter string, from uint64, limit, size int) (records []schemas.Record, more bool, err error) {
	p, err := b.get(ctx, stream, directGet{Next: filter, Seq: max(from, 1), Batch: limit, MaxBytes: size})
	return p.records, p.left > 0, err
}

// page is the answer to a directGet.
type page struct {
	records []schemas.Record
	left    uint64 // matching messages after a batch
	err     error
}

// get asks the stream's direct-get service.
func (b *Broker) get(ctx context.Context, stream string, req directGet) (page, error) {
	body, _ := json.Marshal(req) //nolint:errchkjson // strings and numbers
	p := &page{}                 // a late reply may still change it after an error
	take := func(m *nats.Msg) (complete bool) {
		switch s := status(m); s {
		case "":
			rec, err := stamped(m)
			if err == nil {
				p.records = append(p.records, rec)
			}
			p.err = err
			return err != nil || req.Batch == 0
		case "204": // the end of a batch
			n, err := strconv.ParseUint(last(m.Header, headerPending), 10, 64)
			if p.left = n; err != nil {
				p.err = fmt.Errorf("%w: an answer without a count", fault.ErrUnavailable)
			}
		case "404": // there is none
		default:
			p.err = fmt.Errorf("%w: status %s", fault.ErrUnavailable, s)
		}
		return true
	}
	if _, err := b.reads.ask(ctx, &nats.Msg{Subject: "$JS.API.DIRECT.GET." + stream, Data: body}, take, readTimeout); err != nil {
		return page{}, err
	}
	return *p, p.err
}

// Bounds returns the sequences of the oldest and the newest message of a stream. If the stream is
// empty, first is one more than last, or both are 0.
func (b *Broker) Bounds(ctx context.Context, stream string) (first, last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return 0, 0, wrap(err)
	}
	state := s.CachedInfo().State
	return state.FirstSeq, state.LastSeq, nil
}

// stamped decodes a stored message with the headers of the server.
func stamped(m *nats.Msg) (schemas.Record, error) {
	seq, err := strconv.ParseUint(last(m.Header, nats.JSSequence), 10, 64)
	if err != nil {
		return schemas.Record{}, fmt.Errorf("%w: a message without its sequence", fault.ErrUnavailable)
	}
	at, err := time.Parse(time.RFC3339Nano, last(m.Header, nats.JSTimeStamp))
	if err != nil {
		return schemas.Record{}, fmt.Errorf("%w: a message without its time", fault.ErrUnavailable)
	}
	return schemas.Record{
		Stream: last(m.Header, nats.JSStream), Subject: last(m.Header, nats.JSSubject),
		Seq: seq, Time: at, ID: m.Header.Get(jetstream.MsgIDHeader), Data: m.Data,
	}, nil
}

// last is the last value of a header. The server appends its headers after the stored
// message's, so a writer cannot forge them.
func last(h nats.Header, name string) string {
	if vs := h[name]; len(vs) > 0 {
		return vs[len(vs)-1]
	}
	return ""
}

// readFromLeader asks the leader of a stream, which has seen every write, for one message. It returns
// fault.ErrNotFound if there is none.
func (b *Broker) readFromLeader(ctx context.Context, stream string, get directGet) (r schemas.Record, err error) {
	body, _ := json.Marshal(get) //nolint:errchkjson // strings and numbers
	err = insist(func(within time.Duration) error {
		c, err := b.reads.ask(ctx, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: body}, nil, within)
		if err == nil {
			r, err = decodeMessage(c.reply)
		}
		return err
	})
	r.Stream = stream
	return r, err
}

// leaderTimeout is the timeout of the first request to a leader.
const leaderTimeout = 500 * time.Millisecond

// insist asks again while no answer comes, for readTimeout or a little longer. A request that
// arrives while the leader changes is lost, and no other server can answer it.
func insist(ask func(within time.Duration) error) error {
	begun := time.Now()
	for within := leaderTimeout; ; within *= 2 {
		err := ask(within)
		if !errors.Is(err, errSilent) || time.Since(begun) >= readTimeout {
			return err
		}
	}
}

// decodeMessage decodes the answer of a stream's leader.
func decodeMessage(m *nats.Msg) (schemas.Record, error) {
	var answer struct {
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case status(m) != "", err != nil:
		return schemas.Record{}, fmt.Errorf("%w: the answer cannot be read", fault.ErrUnavailable)
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return schemas.Record{}, fault.ErrNotFound
	case answer.Error != nil:
		return schemas.Record{}, refused(answer.Error.ErrorCode, answer.Error.Description)
	case answer.Message == nil:
		return schemas.Record{}, fmt.Errorf("%w: an answer without a message", fault.ErrUnavailable)
	}
	found := answer.Message
	return schemas.Record{Subject: found.Subject, Seq: found.Seq, Time: found.Time, Data: found.Data}, nil
}
