package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/stream"
	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/ledger"
	"weir/schemas"
)

// BenchmarkHistory follows an action with a hundred thousand events from its
// beginning, over a real server: how long until the first one, and until all are
// rendered.
func BenchmarkHistory(b *testing.B) {
	const events = 100_000
	server, err := embedded.Start(embedded.Config{Dir: b.TempDir(), Layout: layout})
	require.NoError(b, err)
	defer func() { require.NoError(b, server.Stop()) }()
	log, err := broker.Open(b.Context(), broker.Config{Server: server, Layout: layout, AttemptTimeout: 5 * time.Second})
	require.NoError(b, err)
	defer log.Close(context.Background())
	feed, err := stream.Open(log, log, stream.Config{Layout: layout, Barrier: log.Barrier})
	require.NoError(b, err)
	defer feed.Close()
	write(b, log, events)
	b.ReportAllocs()
	var first, all time.Duration
	for b.Loop() {
		begin := time.Now()
		r, err := feed.Follow(b.Context(), ref("a"), 0)
		require.NoError(b, err)
		seen := 0
		for {
			items, err := r.Next(b.Context(), nil)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(b, err)
			for _, it := range items {
				_, _ = io.Discard.Write(it.Frame())
				if seen++; seen == 1 {
					first += time.Since(begin)
				}
			}
		}
		all += time.Since(begin)
		r.Close()
		require.Equal(b, events+2, seen)
	}
	b.ReportMetric(float64(first.Microseconds())/float64(b.N)/1000, "first-ms")
	b.ReportMetric(float64(all.Milliseconds())/float64(b.N), "all-ms")
}

// write is an action with so many progress events, settled.
func write(b *testing.B, log ledger.Log, events int) {
	b.Helper()
	led := ledger.New(log, layout, nil)
	st, _, err := led.Claim(b.Context(), schemas.Action{
		ID: "a", Tenant: "acme", Kind: schemas.KindHTTP, IDSource: schemas.IDRequest, Fingerprint: "f",
		AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(time.Hour).UTC(), Payload: json.RawMessage(`{}`),
	})
	require.NoError(b, err)
	for i := range events {
		data := fmt.Appendf(nil, `{"name":"token","data":{"i":%d,"text":"lorem ipsum dolor sit amet"}}`, i)
		require.NoError(b, led.Append(b.Context(), st, schemas.Event{Type: schemas.EventProgress, Data: data}))
	}
	require.NoError(b, led.Append(b.Context(), st, schemas.Event{
		Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded},
	}))
}
