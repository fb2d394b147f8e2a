package stream_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/schemas"
)

func TestWaitAfterTheEnd(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	n.claim("a").whole(0)
	end, err := n.feed.Wait(t.Context(), ref("a"))
	require.NoError(t, err)
	require.Equal(t, schemas.OutcomeSucceeded, end.Settled.Outcome)
	require.JSONEq(t, `{"ok":true}`, string(end.Settled.Result))
	require.Zero(t, n.feed.Topics())
}

func TestWaitBeforeTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		defer n.feed.Close()
		a := n.claim("a")
		begin, got := time.Now(), make(chan stream.Ending)
		go func() {
			end, err := n.feed.Wait(t.Context(), ref("a"))
			if err == nil {
				got <- end
			}
		}()
		synctest.Wait()
		a.whole(3)
		end := <-got
		require.Equal(t, a.st.Seq, end.Seq)
		require.Equal(t, a.st.N, end.N)
		require.Zero(t, time.Since(begin), "the feed brings the end, no timer does")
	})
}

func TestWaitClaimedReadsNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	for _, tc := range []struct{ id, settle string }{{"early", "before"}, {"late", "after"}} {
		release := n.feed.Expect(ref(tc.id))
		a := n.claim(tc.id)
		before := n.reads.Load()
		if tc.settle == "before" {
			a.settle(`1`)
		}
		got := make(chan error, 1)
		go func() {
			_, err := n.feed.WaitClaimed(context.Background(), ref(tc.id))
			got <- err
		}()
		if tc.settle == "after" {
			a.settle(`1`)
		}
		require.NoError(t, <-got)
		require.Equal(t, before, n.reads.Load(), tc.id)
		release()
		release()
	}
	require.Zero(t, n.feed.Topics())
}

func TestWaitClaimedWithoutExpectReadsTheLog(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	n.claim("a").whole(0)
	_, err := n.feed.WaitClaimed(t.Context(), ref("a"))
	require.NoError(t, err)
}

func TestWaitClaimedReadsTheLogWhenTheFeedLostRecords(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	defer n.feed.Expect(ref("a"))()
	n.dropping(everything)
	n.claim("a").whole(0)
	n.log.Lose()
	_, err := n.feed.WaitClaimed(t.Context(), ref("a"))
	require.NoError(t, err)
}

func TestLostWakesWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		defer n.feed.Close()
		a := n.claim("a")
		begin, got := time.Now(), make(chan error)
		go func() {
			_, err := n.feed.Wait(t.Context(), ref("a"))
			got <- err
		}()
		synctest.Wait()
		n.dropping(everything)
		a.settle(`1`)
		n.log.Lose()
		require.NoError(t, <-got)
		require.Zero(t, time.Since(begin))
	})
}

func TestAMissedEndIsFoundOnTheNextCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{Recheck: 15 * time.Second})
		defer n.feed.Close()
		a := n.claim("a")
		begin, got := time.Now(), make(chan error)
		go func() {
			_, err := n.feed.Wait(t.Context(), ref("a"))
			got <- err
		}()
		synctest.Wait()
		n.dropping(everything)
		a.settle(`1`)
		require.NoError(t, <-got)
		require.Equal(t, 15*time.Second, time.Since(begin))
	})
}

func TestWaitOutlivesALogThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{Retry: time.Second})
		defer n.feed.Close()
		n.claim("a").settle(`1`)
		away := fault.ErrUnavailable
		n.fail.Store(&away)
		begin, got := time.Now(), make(chan error)
		go func() {
			_, err := n.feed.Wait(t.Context(), ref("a"))
			got <- err
		}()
		<-time.After(2500 * time.Millisecond)
		n.fail.Store(nil)
		require.NoError(t, <-got)
		require.Less(t, time.Since(begin), 20*time.Second)
	})
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := n.feed.Wait(ctx, ref("nobody"))
		got <- err
	}()
	cancel()
	require.ErrorIs(t, <-got, context.Canceled)
	go func() {
		_, err := n.feed.Wait(context.Background(), ref("nobody"))
		got <- err
	}()
	n.feed.Close()
	require.ErrorIs(t, <-got, stream.ErrClosed)
	n.feed.Close()
	require.Zero(t, n.feed.Topics())
}

func TestAnEndThatCannotBeReadStillEnds(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	n.claim("a")
	_, err := n.log.Append(t.Context(), schemas.Append{Subject: layout.Subject(ref("a"), schemas.TailSettled), Data: []byte("{")})
	require.NoError(t, err)
	end, err := n.feed.Wait(t.Context(), ref("a"))
	require.NoError(t, err)
	require.Equal(t, schemas.Poison, end.Settled.Code)
}

func TestBarrierHoldsTheEnd(t *testing.T) {
	t.Parallel()
	g := newGate()
	n := newNode(t, stream.Config{Barrier: g.pass})
	defer n.feed.Expect(ref("a"))()
	n.claim("a").whole(2)
	<-g.began
	// Only the end was held for: nobody watches the rest.
	require.Zero(t, n.feed.Held())
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := n.feed.WaitClaimed(ctx, ref("a"))
		got <- err
	}()
	// A second node that needs no barrier shows that everything is stored.
	other, err := stream.Open(n.log, n, stream.Config{Layout: layout})
	require.NoError(t, err)
	defer other.Close()
	_, err = other.Wait(t.Context(), ref("a"))
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-got, context.Canceled)
	go func() {
		_, err := n.feed.WaitClaimed(context.Background(), ref("a"))
		got <- err
	}()
	close(g.open)
	require.NoError(t, <-got)
	require.EqualValues(t, 1, g.calls.Load())
}

func TestAFailedBarrierShowsNothingUntilOneHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		n := newNode(t, stream.Config{Retry: time.Second, Barrier: func(context.Context) error {
			if calls++; calls < 4 {
				return errors.New("input/output error")
			}
			return nil
		}})
		defer n.feed.Close()
		defer n.feed.Expect(ref("a"))()
		begin := time.Now()
		n.claim("a").settle(`1`)
		_, err := n.feed.WaitClaimed(t.Context(), ref("a"))
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(begin))
	})
}

func TestActionsNobodyWatchesAreLeftAlone(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{Barrier: func(context.Context) error {
		t.Error("a barrier was held for an action that nobody watches")
		return nil
	}})
	n.claim("a").whole(5)
	require.EqualValues(t, 2, n.reads.Load(), "only the test itself reads, when it writes past a wake")
	require.Zero(t, n.feed.Topics())
}

func TestLiveSubjectMatchesTheLogAlone(t *testing.T) {
	t.Parallel()
	subject := layout.Subject(ref("x.y"), schemas.TailSettled)
	require.Len(t, strings.Split(subject, "."), 8)
	require.Len(t, strings.Split(schemas.EvidenceSubject(schemas.Evidence{Tenant: "a", Kind: "k", ActionID: "i"}), "."), 6)
}
