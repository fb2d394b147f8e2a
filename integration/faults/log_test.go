package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/weirtest/history"
	"weir/schemas"
)

// log reads what is stored, past every fault.
type log struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	layout schemas.Layout

	from      map[string]uint64 // where the part begins that is judged next
	consumers int               // how many there are when nothing is wrong
	ackWait   time.Duration
}

func openLog(url string, layout schemas.Layout) (*log, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &log{nc: nc, js: js, layout: layout, from: map[string]uint64{}}, nil
}

func (l *log) close() { l.nc.Close() }

func (l *log) partitions() []string {
	var names []string
	for p := range l.layout.Partitions {
		names = append(names, schemas.LogStream(p))
	}
	return names
}

// begin has what is judged next begin here, and counts the consumers where nobody has.
func (l *log) begin(ctx context.Context) error {
	for _, name := range append(l.partitions(), schemas.EvidenceStream) {
		s, err := l.js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
		l.from[name] = s.CachedInfo().State.LastSeq + 1
	}
	if l.consumers > 0 {
		return nil
	}
	return l.queues(ctx, func(_ string, info *jetstream.ConsumerInfo) error {
		l.consumers++
		l.ackWait = max(l.ackWait, info.Config.AckWait)
		return nil
	})
}

// queues goes through the durable consumers of the log.
func (l *log) queues(ctx context.Context, each func(stream string, info *jetstream.ConsumerInfo) error) error {
	for _, name := range l.partitions() {
		s, err := l.js.Stream(ctx, name)
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

// backlog is what waits for a worker or an acknowledgement, and how many consumers there
// are more than at the beginning.
func (l *log) backlog(ctx context.Context) (waits uint64, more int, err error) {
	more = -l.consumers
	err = l.queues(ctx, func(_ string, info *jetstream.ConsumerInfo) error {
		more++
		waits += info.NumPending + uint64(info.NumAckPending)
		return nil
	})
	return waits, more, err
}

// drained waits until nothing waits any more.
func (l *log) drained(ctx context.Context) (left history.Left, err error) {
	ctx, cancel := context.WithTimeout(ctx, long(time.Minute, 3*time.Minute))
	defer cancel()
	for {
		waits, more, err := l.backlog(ctx)
		if err == nil && waits == 0 && more == 0 {
			return history.Left{}, nil
		}
		if wait := rest(ctx, 100*time.Millisecond); wait != nil {
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				return history.Left{Backlog: waits, Consumers: more}, nil
			}
			return history.Left{}, errors.Join(wait, err)
		}
	}
}

// count is how many messages a stream has had.
func (l *log) count(ctx context.Context, stream string) (uint64, error) {
	s, err := l.js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.LastSeq, nil
}

// fill reads what was stored since begin.
func (l *log) fill(ctx context.Context, run *history.Run) error {
	for _, name := range l.partitions() {
		records, err := l.read(ctx, name)
		if err != nil {
			return err
		}
		run.Log = append(run.Log, records...)
	}
	var err error
	run.Evidence, err = l.read(ctx, schemas.EvidenceStream)
	return err
}

// read is a stream as its leader has it. A replica that lags gives out what it has: whether
// that is all is the leader's word.
func (l *log) read(ctx context.Context, stream string) ([]schemas.Record, error) {
	var records []schemas.Record
	for from := l.from[stream]; ; {
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
func (l *log) lies(ctx context.Context, stream string, from uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	m, err := l.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, from))
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
func (l *log) batch(ctx context.Context, stream string, from uint64, records []schemas.Record) ([]schemas.Record, error) {
	c, err := l.js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from})
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

// again has every queue given out once more from where the judged part begins: what a
// server does whose consumers' places were lost.
func (l *log) again(ctx context.Context) (queues int, err error) {
	err = l.queues(ctx, func(stream string, info *jetstream.ConsumerInfo) error {
		_, err := l.js.ResetConsumerToSequence(ctx, stream, info.Name, l.from[stream])
		if err == nil {
			queues++
		}
		return err
	})
	return queues, err
}

// stepDown has a group choose another leader; one that has none does it by itself.
func (l *log) stepDown(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := l.nc.RequestWithContext(ctx, "$JS.API."+group, nil); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", group, err)
	}
	return nil
}
