package stream_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/stream"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// lateLog answers reads of a history as a replica does that has not seen the
// newest writes: for a number of reads, nothing after a sequence is there. That a
// record is the newest is the leader's word.
type lateLog struct {
	*memlog.Log
	after uint64
	reads atomic.Int64
}

func (l *lateLog) Page(ctx context.Context, name, filter string, from uint64, limit, size int) ([]schemas.Record, bool, error) {
	records, more, err := l.Log.Page(ctx, name, filter, from, limit, size)
	if l.reads.Add(-1) < 0 {
		return records, more, err
	}
	for i, r := range records {
		if r.Seq > l.after {
			return records[:i], false, err
		}
	}
	return records, more, err
}

// A stream that is read from a replica that is late begins, goes on and ends all
// the same, and nobody is told that there is nothing, or nothing more.
func TestLateReplica(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shown, resume int
		within        time.Duration
	}{
		"not there yet":          {0, 0, time.Second},
		"the beginning is there": {2, 0, 20 * time.Second}, // found by the look that a silent stream takes now and then
		"resumed where it ends":  {3, 3, time.Second},
		"resumed past it":        {2, 4, time.Second},
		"only the end is hidden": {7, 7, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, stream.Config{})
				defer n.feed.Close()
				a := n.claim("a")
				a.whole(3)
				seqs := a.seqs()
				log := &lateLog{Log: n.log}
				log.reads.Store(3)
				if c.shown > 0 {
					log.after = seqs[c.shown-1]
				}
				feed, err := stream.Open(log, n, stream.Config{Layout: layout})
				require.NoError(t, err)
				defer feed.Close()
				after := uint64(0)
				if c.resume > 0 {
					after = seqs[c.resume-1]
				}
				begun := time.Now()
				reader, err := feed.Follow(t.Context(), ref("a"), after)
				require.NoError(t, err)
				defer reader.Close()
				require.False(t, reader.Ended())
				got, err := drain(t.Context(), reader)
				require.NoError(t, err)
				require.Equal(t, seqs[c.resume:], got)
				require.Less(t, time.Since(begun), c.within)
			})
		})
	}
}

// What is known to have been there, and is not shown any more, is not waited for
// for ever.
func TestReplicaThatNeverCatchesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		defer n.feed.Close()
		a := n.claim("a")
		a.start()
		log := &lateLog{Log: n.log, after: a.seqs()[0]}
		log.reads.Store(1 << 40)
		feed, err := stream.Open(log, n, stream.Config{Layout: layout})
		require.NoError(t, err)
		defer feed.Close()
		reader, err := feed.Follow(t.Context(), ref("a"), log.after)
		require.NoError(t, err)
		defer reader.Close()
		require.True(t, reader.Pending())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err = reader.Next(ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, int64(1<<40)-log.reads.Load(), int64(1000), "it asks and asks")
	})
}
