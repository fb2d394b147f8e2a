package stream_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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
					n := newNode(t, stream.Config{})
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
					begin, got := time.Now(), make(chan *stream.Item, 1)
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
					require.Equal(t, a.st.N, ending.Event.N)
					require.Equal(t, schemas.OutcomeSucceeded, ending.Event.Settled.Outcome)
					require.JSONEq(t, `{"ok":true}`, string(ending.Event.Settled.Result))
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
	_, err := n.log.Append(t.Context(), schemas.Append{Subject: layout.Subject(ref("a"), schemas.SectionEvent), Data: []byte(`{"v":2,"n":2,"type":"settled",`)})
	require.NoError(t, err)
	end, err := n.feed.Wait(t.Context(), ref("a"))
	require.NoError(t, err)
	require.Equal(t, schemas.Poison, end.Event.Settled.Code)
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
		n := newNode(t, stream.Config{Barrier: func(context.Context) error {
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
		feed, err := stream.Open(log, n, stream.Config{Layout: layout})
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

// stuckLog is a log that answers nothing until it is let.
type stuckLog struct {
	stream.Log
	asked, let chan struct{}
}

func (l stuckLog) Newest(ctx context.Context, stream, filter string) (schemas.Record, error) {
	l.asked <- struct{}{}
	<-l.let
	return l.Log.Newest(ctx, stream, filter)
}

// TestCloseEndsTheWaitForARead: while the log answers nothing and all reads are taken, the next one ends with the feed.
func TestCloseEndsTheWaitForARead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		defer n.feed.Close()
		log := stuckLog{n.log, make(chan struct{}, 100), make(chan struct{})}
		feed, err := stream.Open(log, n, stream.Config{Layout: layout})
		require.NoError(t, err)
		const readers, reads = 17, 16
		got := make(chan error, readers)
		for range readers {
			go func() {
				_, err := feed.Wait(context.Background(), ref("a"))
				got <- err
			}()
		}
		synctest.Wait()
		require.Len(t, log.asked, reads)
		feed.Close()
		synctest.Wait()
		require.Len(t, got, readers-reads)
		close(log.let)
		for range readers {
			require.ErrorIs(t, <-got, stream.ErrClosed)
		}
	})
}

// behindLog is a replica that shows what was there before the newest record of a subject.
type behindLog struct{ stream.Log }

func (l behindLog) Last(ctx context.Context, stream, filter string) (schemas.Record, error) {
	all, _, err := l.Page(ctx, stream, filter, 1, 1<<20, 1<<30)
	if err != nil || len(all) < 2 {
		return l.Log.Last(ctx, stream, filter)
	}
	return all[len(all)-2], nil
}

// TestAnEndThatAReplicaDoesNotShow is an end all the same, for who waits for it and for who resumes at it.
func TestAnEndThatAReplicaDoesNotShow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		defer n.feed.Close()
		a := n.claim("a")
		a.whole(3)
		seqs := a.seqs()
		feed, err := stream.Open(behindLog{n.log}, n, stream.Config{Layout: layout})
		require.NoError(t, err)
		defer feed.Close()
		begun := time.Now()
		_, err = feed.Wait(t.Context(), ref("a"))
		require.NoError(t, err)
		r, err := feed.Follow(t.Context(), ref("a"), seqs[len(seqs)-1])
		require.NoError(t, err)
		defer r.Close()
		got, err := drain(t.Context(), r)
		require.NoError(t, err)
		require.Empty(t, got)
		require.Less(t, time.Since(begun), time.Second)
	})
}
