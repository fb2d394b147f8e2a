package roles_test

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/crowd"
	"weir/internal/weirtest/history"
	"weir/schemas"
)

// stored reads what the log and the evidence hold, past Weir.
func (h *house) stored() (run history.Run) {
	h.t.Helper()
	nc, err := nats.Connect(h.cluster.Direct())
	require.NoError(h.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(h.t, err)
	h.drained(js)
	for p := range 2 {
		records, err := read(h.ctx, js, schemas.LogStream(p))
		require.NoError(h.t, err)
		run.Log = append(run.Log, records...)
	}
	run.Evidence, err = read(h.ctx, js, schemas.EvidenceStream)
	require.NoError(h.t, err)
	return run
}

// drained waits until no queue has anything left.
func (h *house) drained(js jetstream.JetStream) {
	h.t.Helper()
	h.eventually(func() bool {
		waits := uint64(0)
		for p := range 2 {
			s, err := js.Stream(h.ctx, schemas.LogStream(p))
			if err != nil {
				return false
			}
			list := s.ListConsumers(h.ctx)
			for info := range list.Info() {
				if info.Config.Durable != "" {
					waits += info.NumPending + uint64(info.NumAckPending)
				}
			}
			if list.Err() != nil {
				return false
			}
		}
		return waits == 0
	}, "nothing is left under way")
}

func read(ctx context.Context, js jetstream.JetStream, stream string) (records []schemas.Record, err error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	last := s.CachedInfo().State.LastSeq
	if s.CachedInfo().State.Msgs == 0 {
		return nil, nil
	}
	c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
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
			return nil, fmt.Errorf("reading %s: %w", stream, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		records = append(records, schemas.Record{
			Stream: stream, Subject: m.Subject(), Seq: meta.Sequence.Stream, Time: meta.Timestamp.UTC(),
			ID: m.Headers().Get(nats.MsgIdHdr), Data: m.Data(),
		})
		if meta.NumPending == 0 || meta.Sequence.Stream >= last {
			return records, nil
		}
	}
}

// judge holds what crowds were told against what is stored and what the target heard.
func (h *house) judge(crowds ...*crowd.Crowd) {
	h.t.Helper()
	run := h.stored()
	for _, c := range crowds {
		c.Fill(&run)
	}
	h.t.Logf("%d actions, %d records of evidence", len(history.Read(run.Log)), len(run.Evidence))
	for _, v := range history.Check(run, history.Bounds{}) {
		h.t.Error(v)
	}
}
