package stream_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/schemas"
)

// TestWait: whoever waits for an end has it at once, from the feed or the log; an end that the
// feed has missed without knowing it is found by the next check.
func TestWait(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ended, missed, lost, away bool // when the wait begins; by the feed; and the feed knows it; the log for 2.5 s
		took                      time.Duration
	}{
		"it has ended":                   {ended: true},
		"it ends":                        {},
		"missed, and known to be":        {missed: true, lost: true},
		"missed":                         {missed: true, took: 15 * time.Second},
		"it has ended, the log is away":  {ended: true, away: true, took: 3 * time.Second},
		"missed before, and known to be": {ended: true, missed: true, lost: true},
	} {
		for _, claimed := range []bool{false, true} { // whether the waiter has just claimed it
			t.Run(fmt.Sprint(name, claimed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, stream.Config{Recheck: 15 * time.Second, Retry: time.Second})
					defer n.feed.Close()
					a, wait := n.claim("a"), n.feed.Wait
					if claimed {
						wait = n.feed.WaitClaimed
					}
					if claimed && tc.missed {
						defer n.feed.Expect(ref("a"))()
					}
					end := func() {
						if tc.missed {
							n.dropping(everything)
						}
						a.whole(3)
						if tc.lost {
							n.log.Lose()
						}
					}
					if tc.ended {
						end()
					}
					if away := fault.ErrUnavailable; tc.away {
						n.fail.Store(&away)
						time.AfterFunc(2500*time.Millisecond, func() { n.fail.Store(nil) })
					}
					begin, got := time.Now(), make(chan stream.Ending, 1)
					go func() {
						if end, err := wait(t.Context(), ref("a")); err == nil {
							got <- end
						}
					}()
					synctest.Wait()
					if !tc.ended {
						end()
					}
					ending := <-got
					require.Equal(t, tc.took, time.Since(begin))
					require.Equal(t, a.st.Seq, ending.Seq)
					require.Equal(t, a.st.N, ending.N)
					require.Equal(t, schemas.OutcomeSucceeded, ending.Settled.Outcome)
					require.JSONEq(t, `{"ok":true}`, string(ending.Settled.Result))
				})
			})
		}
	}
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
