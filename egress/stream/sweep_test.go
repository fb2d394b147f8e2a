package stream_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/stream"
	"weir/schemas"
)

// lastLog counts the questions for the newest record.
type lastLog struct {
	stream.Log
	asked atomic.Int64
}

func (l *lastLog) Last(ctx context.Context, stream, filter string) (schemas.Record, error) {
	l.asked.Add(1)
	return l.Log.Last(ctx, stream, filter)
}

// TestMissedEventsAreFoundTogether: who follows an action hears of what the feed has
// missed without asking, and many of them cost the log one question.
func TestMissedEventsAreFoundTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		defer n.feed.Close()
		log := &lastLog{Log: n.log}
		feed, err := stream.Open(log, n, stream.Config{Layout: layout, Recheck: 15 * time.Second})
		require.NoError(t, err)
		defer feed.Close()
		a := n.claim("a")
		const watchers = 50
		got := make(chan int, watchers)
		for range watchers {
			r, err := feed.Follow(t.Context(), ref("a"), 0)
			require.NoError(t, err)
			defer r.Close()
			items, err := r.Next(t.Context(), nil)
			require.NoError(t, err)
			require.Len(t, items, 1)
			go func() {
				items, err := r.Next(t.Context(), nil)
				if err != nil {
					got <- 0
					return
				}
				got <- len(items)
			}()
		}
		synctest.Wait()
		log.asked.Store(0)
		time.Sleep(14 * time.Second)
		require.Zero(t, log.asked.Load())
		n.dropping(everything)
		a.start()
		synctest.Wait()
		require.Empty(t, got)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, got, watchers)
		for range watchers {
			require.Equal(t, 1, <-got)
		}
		require.EqualValues(t, 1, log.asked.Load())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 5, log.asked.Load(), "and goes on, once a time")
	})
}
