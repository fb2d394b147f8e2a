package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"weir/internal/fault"
	"weir/schemas"
)

// The headers that the server puts on a stored message when it gives it out.
const (
	headerStream  = "Nats-Stream"
	headerSubject = "Nats-Subject"
	headerSeq     = "Nats-Sequence"
	headerTime    = "Nats-Time-Stamp"
	headerPending = "Nats-Num-Pending"
	headerMsgID   = "Nats-Msg-Id"
)

const (
	// readTimeout bounds one request for stored messages, and whatever else is
	// asked of the server that is no publish. It is long because a read of an
	// old block waits behind the disk's syncs; callers bring shorter limits.
	readTimeout = 5 * time.Second
	// readBytes is how much one request may bring; Range asks again for more.
	readBytes = 8 << 20
)

// directGet is a request to the stream's direct-get service.
type directGet struct {
	Last     string `json:"last_by_subj,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// Last returns the newest message on the subjects that filter covers, or
// fault.ErrNotFound. On a cluster a replica may answer that has not seen the
// newest write yet; that there is no message at all is the leader's word.
func (b *Broker) Last(ctx context.Context, stream, filter string) (schemas.Record, error) {
	rec, err := b.one(ctx, stream, directGet{Last: filter})
	if b.cfg.Replicas > 1 && errors.Is(err, fault.ErrNotFound) {
		return b.lead(ctx, stream, directGet{Last: filter})
	}
	return rec, err
}

// Next returns the first message on the subjects that filter covers whose sequence
// is at least from, as the stream's leader has it: none that was acknowledged before
// the call is passed over. fault.ErrNotFound: there is none.
func (b *Broker) Next(ctx context.Context, stream, filter string, from uint64) (schemas.Record, error) {
	get := directGet{Next: filter, Seq: max(from, 1)}
	if b.cfg.Replicas > 1 {
		return b.lead(ctx, stream, get)
	}
	return b.one(ctx, stream, get)
}

// one asks the stream's direct-get service for one message.
func (b *Broker) one(ctx context.Context, stream string, req directGet) (schemas.Record, error) {
	var rec schemas.Record
	var err error
	werr := b.get(ctx, stream, req, func(m *nats.Msg) bool {
		switch s := status(m); s {
		case "":
			rec, err = stamped(m)
		case statusNotFound:
			err = fault.ErrNotFound
		default:
			err = fmt.Errorf("%w: status %s", fault.ErrUnavailable, s)
		}
		return true
	})
	if werr != nil {
		return schemas.Record{}, werr
	}
	return rec, err
}

// Newest is Last as the stream's leader has it: no message is missing that was
// stored, for whoever, before the call. Who decides by what is not there asks this.
func (b *Broker) Newest(ctx context.Context, stream, filter string) (schemas.Record, error) {
	if b.cfg.Replicas <= 1 { // then nobody but the leader can answer, and a direct answer is not wrapped in JSON
		return b.Last(ctx, stream, filter)
	}
	return b.lead(ctx, stream, directGet{Last: filter})
}

// Range returns up to limit messages on the subjects that filter covers whose
// sequence is at least from, oldest first. None is not an error: the replica that
// answers may not have seen the newest writes yet, even where Last has shown them.
func (b *Broker) Range(ctx context.Context, stream, filter string, from uint64, limit int) ([]schemas.Record, error) {
	var all []schemas.Record
	for len(all) < limit {
		p := page{records: all}
		req := directGet{Next: filter, Seq: max(from, 1), Batch: limit - len(all), MaxBytes: readBytes}
		if err := b.get(ctx, stream, req, p.take); err != nil {
			return nil, err
		}
		if p.err != nil {
			return nil, p.err
		}
		got := len(p.records) - len(all)
		all = p.records
		if got == 0 || !p.more {
			break
		}
		from = all[len(all)-1].Seq + 1
	}
	return all, nil
}

// Page is Range for whoever reads a long history: it ends early, behind the
// message that makes it as large as size. more says that there are others. One
// request for many messages costs the server little more than one for a few: for
// each it counts what is left.
func (b *Broker) Page(ctx context.Context, stream, filter string, from uint64, limit, size int) (records []schemas.Record, more bool, err error) {
	var p page
	req := directGet{Next: filter, Seq: max(from, 1), Batch: limit, MaxBytes: size}
	if err := b.get(ctx, stream, req, p.take); err != nil {
		return nil, false, err
	}
	return p.records, p.more, p.err
}

// page collects the messages of one batch.
type page struct {
	records []schemas.Record
	more    bool // the batch ended before the messages did
	err     error
}

const (
	statusEnd         = "204"
	statusNotFound    = "404"
	statusNoResponder = "503"
)

func (p *page) take(m *nats.Msg) bool {
	switch s := status(m); s {
	case "":
		rec, err := stamped(m)
		if err != nil {
			p.err = err
			return true
		}
		p.records = append(p.records, rec)
		return false
	case statusEnd:
		p.more = last(m.Header, headerPending) != "0"
	case statusNotFound:
	default:
		p.err = fmt.Errorf("%w: status %s", fault.ErrUnavailable, s)
	}
	return true
}

// get asks the stream's direct-get service and hands every reply to take.
func (b *Broker) get(ctx context.Context, stream string, req directGet, take func(*nats.Msg) bool) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	c, err := b.reads.send(&nats.Msg{Subject: "$JS.API.DIRECT.GET." + stream, Data: body}, take)
	if err != nil {
		return err
	}
	return b.reads.wait(ctx, c, readTimeout)
}

// Bounds returns the sequences of the oldest and the newest message of a
// stream. In an empty stream the first is one more than the last, or both
// are 0.
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

// stamped reads a stored message as the server gives it out.
func stamped(m *nats.Msg) (schemas.Record, error) {
	seq, err := strconv.ParseUint(last(m.Header, headerSeq), 10, 64)
	if err != nil {
		return schemas.Record{}, fmt.Errorf("%w: a message without its sequence", fault.ErrUnavailable)
	}
	at, err := time.Parse(time.RFC3339Nano, last(m.Header, headerTime))
	if err != nil {
		return schemas.Record{}, fmt.Errorf("%w: a message without its time", fault.ErrUnavailable)
	}
	return schemas.Record{
		Stream: last(m.Header, headerStream), Subject: last(m.Header, headerSubject),
		Seq: seq, Time: at, ID: m.Header.Get(headerMsgID), Data: m.Data,
	}, nil
}

// last is the newest value of a header. The server adds its own after those
// that the message was stored with, so that a writer cannot speak for it.
func last(h nats.Header, name string) string {
	if vs := h[name]; len(vs) > 0 {
		return vs[len(vs)-1]
	}
	return ""
}
