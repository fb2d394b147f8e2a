package stream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/stream"
	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/ledger"
	"weir/schemas"
)

// TestOverTheBroker runs the feed over a real server: concurrent actions, each
// claimed and waited for, followed from its beginning and from its middle.
func TestOverTheBroker(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Layout: layout})
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Stop()) }()
	b, err := broker.Open(t.Context(), broker.Config{Server: server, Layout: layout, AttemptTimeout: 5 * time.Second})
	require.NoError(t, err)
	defer b.Close(context.Background())
	feed, err := stream.Open(b, b, stream.Config{Layout: layout, Barrier: b.Barrier, BufferEvents: 4})
	require.NoError(t, err)
	defer feed.Close()
	led := ledger.New(b, layout, nil)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	for i := range 20 {
		wg.Go(func() {
			if err := live(ctx, led, feed, ref(fmt.Sprint("a.", i))); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.Zero(t, feed.Topics())
}

// live runs one action and checks what each of its watchers saw.
func live(ctx context.Context, led *ledger.Ledger, feed *stream.Feed, r schemas.Ref) error {
	defer feed.Expect(r)()
	st, _, err := led.Claim(ctx, schemas.Action{
		ID: r.ID, Tenant: r.Tenant, Kind: r.Kind, IDSource: schemas.IDRequest, Fingerprint: "f",
		AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(time.Minute).UTC(), Payload: json.RawMessage(`{}`),
	})
	if err != nil {
		return err
	}
	got := make(chan []uint64, 3)
	follow := func(after uint64) error {
		reader, err := feed.Follow(ctx, r, after)
		if err != nil {
			return err
		}
		go func() {
			seqs, _ := drain(ctx, reader)
			reader.Close()
			got <- seqs
		}()
		return nil
	}
	if err := follow(0); err != nil {
		return err
	}
	all := []uint64{st.Seq}
	for i := range 30 {
		if i == 15 {
			if err := follow(all[7]); err != nil {
				return err
			}
		}
		ev := schemas.Event{Type: schemas.EventProgress, Data: json.RawMessage(`1`)}
		if i%5 == 0 {
			ev = schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitDelay}}
		}
		if err := led.Append(ctx, st, ev); err != nil {
			return err
		}
		all = append(all, st.Seq)
	}
	if err := led.Append(ctx, st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded}}); err != nil {
		return err
	}
	all = append(all, st.Seq)
	end, err := feed.WaitClaimed(ctx, r)
	if err != nil {
		return err
	}
	if end.Seq != st.Seq {
		return fmt.Errorf("the end is at %d, not at %d", end.Seq, st.Seq)
	}
	if err := follow(0); err != nil {
		return err
	}
	for range 3 {
		seqs := <-got
		if len(seqs) != 32 && len(seqs) != 24 {
			return fmt.Errorf("%d events of 32", len(seqs))
		}
		if want := all[len(all)-len(seqs):]; !slices.Equal(want, seqs) {
			return fmt.Errorf("events %v, not %v", seqs, want)
		}
	}
	return nil
}
