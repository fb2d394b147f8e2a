// Package stored reads whole streams as a cluster has stored them, past every other part of
// Weir: for tests that judge what a run has left.
package stored

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/schemas"
)

// Log is a connection of its own.
type Log struct {
	Conn *nats.Conn
	JS   jetstream.JetStream
}

// Open connects to servers, and again whenever they were away.
func Open(url string) (*Log, error) {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Log{conn, js}, nil
}

// Close ends the connection.
func (l *Log) Close() { l.Conn.Close() }

// Read is a stream from a sequence on, as its leader has it. A replica that lags gives out
// what it has: whether that is all is the leader's word.
func (l *Log) Read(ctx context.Context, stream string, from uint64) ([]schemas.Record, error) {
	var records []schemas.Record
	for {
		more, err := l.lies(ctx, stream, from)
		if err != nil || !more {
			return records, err
		}
		if records, err = l.batch(ctx, stream, from, records); err != nil {
			return nil, fmt.Errorf("reading %s from %d: %w", stream, from, err)
		}
		from = records[len(records)-1].Seq + 1
	}
}

// lies reports whether the leader has a message from a sequence on.
func (l *Log) lies(ctx context.Context, stream string, from uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	m, err := l.Conn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, from))
	if err != nil {
		return false, fmt.Errorf("stream %s: %w", stream, err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return false, err
	}
	switch {
	case answer.Error == nil:
		return true, nil
	case answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return false, nil
	default:
		return false, fmt.Errorf("stream %s: %w", stream, answer.Error)
	}
}

// batch reads on until a replica has no more. There is a message from that sequence on.
func (l *Log) batch(ctx context.Context, stream string, from uint64, records []schemas.Record) ([]schemas.Record, error) {
	c, err := l.JS.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from})
	if err != nil {
		return nil, err
	}
	iter, err := c.Messages()
	if err != nil {
		return nil, err
	}
	defer iter.Stop()
	for {
		m, err := iter.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		records = append(records, schemas.Record{
			Stream: stream, Subject: m.Subject(), Seq: meta.Sequence.Stream, Time: meta.Timestamp.UTC(),
			ID: m.Headers().Get(nats.MsgIdHdr), Data: m.Data(),
		})
		if meta.NumPending == 0 {
			return records, nil
		}
	}
}

// Queues goes through the durable consumers of streams.
func (l *Log) Queues(ctx context.Context, streams []string, each func(stream string, info *jetstream.ConsumerInfo) error) error {
	for _, name := range streams {
		s, err := l.JS.Stream(ctx, name)
		if err != nil {
			return err
		}
		list := s.ListConsumers(ctx)
		for info := range list.Info() {
			if info.Config.Durable == "" {
				continue
			}
			if err := each(name, info); err != nil {
				return err
			}
		}
		if err := list.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Waiting is how many messages of streams wait for a worker or an acknowledgement, and in
// how many queues there are.
func (l *Log) Waiting(ctx context.Context, streams []string) (messages uint64, queues int, err error) {
	err = l.Queues(ctx, streams, func(_ string, info *jetstream.ConsumerInfo) error {
		queues++
		messages += info.NumPending + uint64(info.NumAckPending) //nolint:gosec // a count
		return nil
	})
	return messages, queues, err
}
